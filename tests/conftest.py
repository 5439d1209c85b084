"""Fixtures of the whole-program tests.

For root, the build tree is installed into root-owned folders below /opt (set-user-ID) and into a freshly created user's home (rootless),
each once for crun and once for runc. Everybody else is that user: the home and the rootless installations are in a temporary folder, and
tests that need root are left out. With SARUS_ONLY_ROOT=1 in the environment, root leaves out what everybody can test. Every test is
followed by a check that it left no mount, loop device, process or file behind.

Each process that runs tests has users, installations, images, registries and a cluster of its own, made when the first test asks for them.
"""

import collections
import itertools
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest
from helpers import archive as archives
from helpers import installation, system
from helpers.cluster import Cluster
from helpers.images import ImageFactory
from helpers.registry import Registry, TokenService, allow_plain_http

TAG = f"sarus{os.getpid()}"
ROOT = os.getuid() == 0
ONLY_ROOT = ROOT and os.environ.get("SARUS_ONLY_ROOT") == "1"
ROOT_FIXTURES = {"setuid_engine", "root_engine", "make_setuid_prefix", "other_user", "root", "cluster"}

if not (installation.BUILD / "podman-hpc").exists():  # ENABLE_PODMAN_HPC=OFF
    collect_ignore_glob = ["*test_podman_hpc*", "*/hostile/podman_hpc/*"]


def pytest_configure(config):
    os.umask(0o022)  # users read what tests write
    if not ROOT:
        system.adopt_orphans()  # whose processes they are, the uid does not tell


def needs_root(item):
    """Whether a test is marked so, uses a fixture of root's, or has an engine of root's as a parameter ("setuid-crun", "root")."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return (item.get_closest_marker("asroot") is not None or not ROOT_FIXTURES.isdisjoint(item.fixturenames)
            or any(isinstance(value, str) and value.split("-")[0] in ("setuid", "root") for value in parameters))


def leave_second_pairs_to_the_third_circle(items):
    """Marks as thorough what a test that takes each mode and each OCI runtime repeats: one pair with set-user-ID and one rootless show each mode
    and each runtime. Tests marked `every_pair` are about what the two do together."""
    functions = {}
    for item in items:
        for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
            if isinstance(value, str) and value in ENGINES:
                functions.setdefault((item.path, item.originalname), {}).setdefault(value, []).append(item)
    for pairs in functions.values():
        if pairs.keys() >= FIRST_PAIRS | SECOND_PAIRS:
            for item in (item for pair in SECOND_PAIRS for item in pairs[pair]):
                if item.get_closest_marker("every_pair") is None:
                    item.add_marker("thorough")


def values(item):
    """What a test is called with: a value of each parameter, those that one `parametrize` names together as one."""
    together = [mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0] for mark in item.iter_markers("parametrize")]
    alone = [[name] for name in item.callspec.params if not any(name in names for names in together)]  # of fixtures
    return {(*names, *(id(item.callspec.params[name]) for name in names)) for names in (*together, *alone)}


def leave_products_to_the_third_circle(items):
    """Marks as thorough what a test with several parameters repeats: each value of two parameters is tried once, with others in turn, and with more
    parameters each two of their values. Tests marked `every_pair` are about what the values do together."""
    functions = {}
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("thorough") is None and item.get_closest_marker("every_pair") is None:
            repetition = item.callspec.params.get("__pytest_repeat_step_number")
            functions.setdefault((item.path, item.cls, item.originalname, needs_root(item), repetition), []).append((item, values(item)))
    for tests in functions.values():
        same = set.intersection(*(found for _, found in tests))
        left = [(item, set(itertools.combinations(sorted(found - same), 2)) if len(found - same) > 2 else found) for item, found in tests]
        uses = collections.Counter()  # of each value or two values, by the tests that stay
        wanted = set().union(*(found for _, found in left))
        while wanted:
            chosen = max(left, key=lambda entry: (len(entry[1] & wanted), -sum(uses[found] for found in entry[1])))
            left.remove(chosen)
            wanted -= chosen[1]
            uses.update(chosen[1])
        for item, _ in left:
            item.add_marker("thorough")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Nobody misses what another user cannot do, so it is left out rather than skipped."""
    leave_second_pairs_to_the_third_circle(items)
    leave_products_to_the_third_circle(items)
    if not ROOT:
        left_out = [item for item in items if needs_root(item)]
    elif ONLY_ROOT:
        left_out = [item for item in items if not needs_root(item) and item.get_closest_marker("more_as_root") is None]
    else:
        return
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_sessionfinish(session, exitstatus):
    """A file in which root leaves out everything is no failure."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and ONLY_ROOT:
        session.exitstatus = pytest.ExitCode.OK


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where skips fail (continuous integration), a skipped test is reported as failed, with its reason."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which counts as failed here: {report.longrepr}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    """Says at once what failed: a run that is ended before its summary would say nothing of it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed ({report.when}):\n{report.longreprtext}", flush=True)


@pytest.fixture(scope="session")
def source_dir():
    return installation.SOURCE


@pytest.fixture(scope="session")
def build_dir():
    return installation.BUILD


def lent(directory):
    """The life of a fixture that is a new directory: open to all users to read, and gone at the end."""
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def common():
    """A folder for what all tests share."""
    yield from lent(pathlib.Path(tempfile.mkdtemp(prefix=f"{TAG}-")))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of all processes of one run of the tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def archive(shared):
    """The standalone archive of this tree."""
    return archives.built(shared)


@pytest.fixture(scope="module")
def workspace(common):
    """A folder for the tests of one file."""
    yield from lent(pathlib.Path(tempfile.mkdtemp(dir=common, prefix="")))


@pytest.fixture
def open_directory(workspace):
    """A folder of one test on the way to which other users may look up names."""
    directory = pathlib.Path(tempfile.mkdtemp(dir=workspace, prefix=""))
    for made in (workspace, directory):
        made.chmod(0o755)
    return directory


@pytest.fixture(scope="module", autouse=True)
def homes_without_what_others_left(home_base, opt):
    """Each file begins with empty image repositories, and without keys and files in homes; what `registry` wrote stays, and installations, which
    lose the hooks that a test has enabled."""
    yield
    for prefix in (*opt.iterdir(), *home_base.glob("*/*")):
        installation.remove_shipped_hooks(prefix)
    for home in home_base.iterdir():
        for entry in home.iterdir():
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
            elif entry.name != ".config" and not (entry / "etc/sarus.json").exists():
                shutil.rmtree(entry, ignore_errors=True)


@pytest.fixture(scope="session")
def opt(common):
    """A folder for installations. For root: root-owned, and nobody else can write on the way to it."""
    directory = pathlib.Path(f"/opt/{TAG}") if ROOT else common / "opt"
    directory.mkdir()
    yield from lent(directory)


@pytest.fixture(scope="session")
def closed(opt):
    """<opt>/closed, which only root can enter, with a directory, a file and a link in it."""
    directory = opt / "closed"
    (directory / "exists" / "deeper").mkdir(parents=True)
    (directory / "file").write_text("secret")
    (directory / "link").symlink_to("/secret/place")
    directory.chmod(0o700)
    return directory


@pytest.fixture(scope="session")
def home_base(common):
    """Where the users' homes and image repositories are: localRepositoryBaseDir of all installations."""
    directory = pathlib.Path(f"/home/{TAG}") if ROOT else common / "home"
    directory.mkdir()
    yield from lent(directory)


@pytest.fixture(scope="session")
def user(home_base):
    """An unprivileged user: one who is a member of two further groups, or whoever runs the tests, with another home."""
    if not ROOT:
        name = pwd.getpwuid(os.getuid()).pw_name
        caller = system.User.named(name, home_base / name)
        caller.home.mkdir()
        yield caller
        return
    groups = (f"{TAG}a", f"{TAG}b")
    created = system.create_user(f"{TAG}u", home_base, groups)
    yield created
    system.remove_user(created, groups)


@pytest.fixture(scope="session")
def other_user(home_base):
    """Another unprivileged user, whom the first one must not be able to disturb."""
    created = system.create_user(f"{TAG}o", home_base)
    yield created
    system.remove_user(created)


@pytest.fixture(scope="session")
def root(home_base):
    return system.User.named("root", home_base / "root")


@pytest.fixture(scope="session")
def temp_dir(common):
    """tempDir of all installations."""
    directory = common / "tmp"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


@pytest.fixture(scope="session")
def installed(opt, build_dir):
    """The build tree, installed and not configured."""
    prefix = opt / "unconfigured"
    subprocess.run(["cmake", "--install", str(build_dir), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


@pytest.fixture(scope="session")
def make_setuid_prefix(installed, opt, home_base, temp_dir, user, other_user):
    """make_setuid_prefix(name, runtime="crun", **sarus.json keys) -> prefix of a further set-user-ID installation."""

    def make(name, runtime="crun", **settings):
        prefix = installation.copy_tree(installed, installation.unused(opt / name))
        installation.configure(prefix, runtime=runtime, local_base=home_base, tempDir=str(temp_dir), **settings)
        return prefix

    return make


@pytest.fixture(scope="session")
def make_rootless_prefix(installed, home_base, temp_dir, user):
    """make_rootless_prefix(name, runtime="crun", **sarus.json keys) -> prefix of a further installation that the user owns."""

    def make(name, runtime="crun", **settings):
        prefix = installation.copy_tree(installed, installation.unused(user.home / name), user)
        installation.configure(prefix, user=user, runtime=runtime, local_base=home_base, tempDir=str(temp_dir), **settings)
        return prefix

    return make


@pytest.fixture(scope="session")
def engines(request, make_rootless_prefix, user):
    """engines(mode, runtime) -> Engine; the installations are made when they are first asked for."""
    prefixes, makers = {}, {"rootless": make_rootless_prefix}
    if ROOT:
        makers["setuid"] = request.getfixturevalue("make_setuid_prefix")
        root = request.getfixturevalue("root")
        root.home.mkdir(exist_ok=True)

    def engine(mode, runtime):
        kind = "rootless" if mode == "rootless" else "setuid"
        if (kind, runtime) not in prefixes:
            prefixes[kind, runtime] = makers[kind](f"sarus-{kind}-{runtime}", runtime)
        sandbox = FUSE[runtime] if ROOT and kind == "rootless" else ()
        return installation.Engine(prefixes[kind, runtime], root if mode == "root" else user, mode, runtime, sandbox)

    return engine


# Whether /dev/fuse can be used differs between nodes, so root does not leave it to the node: with crun it can be used, with runc it cannot.
FUSE = {"crun": ("--fuse",), "runc": ("--closed-fuse",)}

ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc", "root-crun"]
FIRST_PAIRS = {"setuid-runc", "rootless-crun"}
SECOND_PAIRS = {"setuid-crun", "rootless-runc"}


@pytest.fixture(params=ENGINES)
def engine(request, engines):
    """Each way of running containers: who holds the privileges, and which OCI runtime; root's own containers have crun alone."""
    return engines(*request.param.split("-"))


@pytest.fixture(params=["setuid-crun", "rootless-crun"])
def user_engine(request, engines):
    """Both ways in which an unprivileged user runs containers, for rules that the OCI runtime has no part in."""
    return engines(*request.param.split("-"))


@pytest.fixture
def setuid_engine(engines):
    return engines("setuid", "crun")


@pytest.fixture
def rootless_engine(engines):
    return engines("rootless", "crun")


@pytest.fixture
def root_engine(engines):
    return engines("root", "crun")


@pytest.fixture(scope="module")
def any_engine(engines):
    """For rules that privileges have no part in: set-user-ID where root runs the tests, rootless elsewhere."""
    return engines("setuid" if ROOT else "rootless", "crun")


@pytest.fixture(scope="session")
def make_any_prefix(request):
    """make_setuid_prefix or make_rootless_prefix, as any_engine."""
    return request.getfixturevalue("make_setuid_prefix" if ROOT else "make_rootless_prefix")


@pytest.fixture(scope="session")
def images(common):
    return ImageFactory(common / "images")


@pytest.fixture(scope="session")
def load_image(images):
    """load_image(engine, name, image) -> reference; each user loads an image of that name once, and again if a test has removed it."""
    loaded = {}

    def load(engine, name, image):
        key = engine.user.name, name
        if key not in loaded or not (engine.user.home / ".sarus/images" / loaded[key] / "latest.squashfs").exists():
            loaded[key] = engine.load(images.archive(image, name), name)
        return loaded[key]

    return load


@pytest.fixture(scope="session")
def plain_busybox(images):
    return images.busybox()


@pytest.fixture
def busybox(engine, load_image, plain_busybox):
    """Busybox without entrypoint or default command, in the repository of the engine's user."""
    return load_image(engine, "busybox", plain_busybox)


@pytest.fixture(scope="session")
def pullers(request, user):
    """Who talks to registries: the user, and root where there is one."""
    return [user, request.getfixturevalue("root")] if ROOT else [user]


@pytest.fixture(scope="session")
def registry(common, pullers):
    """A registry for everybody, over plain http, which the configuration of root and of the user allows."""
    server = Registry(common / "registry")
    files = [allow_plain_http(puller, server) for puller in pullers]
    yield server
    server.stop()
    for file in files:
        file.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def private_registry(common, pullers):
    """A registry that wants the name "tester" and the password "let me in"."""
    server = Registry(common / "private-registry", password="let me in")
    for puller in pullers:
        allow_plain_http(puller, server)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def token_registry(common, user):
    """As private_registry, but name and password are for a service that gives out tokens, as those of Docker Hub and of GitLab do."""
    service = TokenService(common / "token-service", "let me in")
    server = Registry(common / "token-registry", password="let me in", tokens=service)
    allow_plain_http(user, server)
    yield server
    server.stop()
    service.stop()


@pytest.fixture(scope="session")
def cluster(common, home_base):
    """Four nodes and a login node with Slurm (helpers/cluster.py), for tests of root's: all have the homes, the images and the installations."""
    made = Cluster(shared=home_base, visible=[common])
    yield made
    made.stop()


def things(directories, user):
    """What a container may not leave on the node, as a set of lines, but for processes and cgroups. Looks only at what these tests can have made."""
    roots = [str(directory) for directory in directories]
    found = {f"mount {point}" for point in system.mounts() if point.startswith(tuple(roots))}
    found |= {f"loop device {name} of {file}" for name, file in system.loop_devices().items() if file.startswith(tuple(roots))}
    # Staging below the bundle folder happens in private namespaces: on the node, it stays empty.
    for root in roots:
        for bundle_directory in pathlib.Path(root).glob("*/var/OCIBundleDir"):
            found |= {f"file {path}" for path in bundle_directory.iterdir()}
    for directory, _, files in os.walk(f"/run/sarus/{user.uid}"):  # it goes with the last container, maybe just now
        found |= {f"file {path}" for path in (directory, *(os.path.join(directory, name) for name in files))}
    return found


def processes_left_behind(directories, user, before):
    new = system.processes(ignored=before)
    own = system.processes_of(user, new)
    return {f"process {pid}: {command}" for pid, _, command in new if pid in own or any(str(directory) in command for directory in directories)}


def cgroups_left_behind(user):
    """Those of containers that still run have processes. Other tests have containers of root's at the same time."""
    names = (f"sarus-{user.uid}-", f"sarus-runc-{user.uid}-")
    return {f"cgroup {path}" for path in system.cgroups() if path.name.startswith(names) and system.is_empty_cgroup(path)}


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request):
    """Every test that runs containers is checked for what remains of them."""
    if "engine" not in request.fixturenames and not any(name.endswith("_engine") or name == "engines" for name in request.fixturenames):
        yield
        return
    directories = [request.getfixturevalue("opt"), request.getfixturevalue("home_base")]
    user = request.getfixturevalue("user")
    before, pids = things(directories, user), system.pids()
    yield
    remaining = set()

    def clean():
        nonlocal remaining
        remaining = processes_left_behind(directories, user, pids) or things(directories, user) - before or cgroups_left_behind(user)
        return not remaining

    assert system.eventually(clean), "left behind: " + "; ".join(sorted(remaining))
