"""Fixtures of the whole-program tests.

The build tree is installed into root-owned folders below /opt (set-user-ID) and into a freshly created user's home (rootless), each once
for crun and once for runc. Every test is followed by a check that it left no mount, loop device, process or file behind.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from helpers import installation, system
from helpers.images import ImageFactory
from helpers.registry import Registry, TokenService, allow_plain_http

TAG = f"sarus{os.getpid()}"


def pytest_configure(config):
    config.addinivalue_line("markers", "asroot: the test needs root")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("asroot") and os.getuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Where skips fail (continuous integration), a skipped test is reported as failed, with its reason."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("SARUS_SKIPS_FAIL") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which counts as failed here: {report.longrepr}"


@pytest.fixture(scope="session")
def source_dir():
    return pathlib.Path(os.environ.get("SARUS_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])


@pytest.fixture(scope="session")
def build_dir(source_dir):
    return pathlib.Path(os.environ.get("SARUS_BUILD_DIR") or source_dir / "build")


@pytest.fixture(scope="session")
def workspace():
    """A folder for files of the tests, open to all users to read."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{TAG}-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def opt():
    """A root-owned folder for installations, on the way to which nobody else can write."""
    directory = pathlib.Path(f"/opt/{TAG}")
    directory.mkdir(mode=0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def home_base():
    """Where the users' homes and image repositories are: localRepositoryBaseDir of all installations."""
    directory = pathlib.Path(f"/home/{TAG}")
    directory.mkdir(mode=0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def user(home_base):
    """An unprivileged user who is a member of two further groups."""
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
def temp_dir(workspace):
    """tempDir of all installations."""
    directory = workspace / "tmp"
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
        prefix = installation.copy_tree(installed, opt / name)
        installation.configure(prefix, runtime=runtime, local_base=home_base, tempDir=str(temp_dir), **settings)
        return prefix

    return make


@pytest.fixture(scope="session")
def make_rootless_prefix(installed, home_base, temp_dir, user):
    """make_rootless_prefix(name, runtime="crun", **sarus.json keys) -> prefix of a further installation that the user owns."""

    def make(name, runtime="crun", **settings):
        prefix = installation.copy_tree(installed, user.home / name, user)
        installation.configure(prefix, user=user, runtime=runtime, local_base=home_base, tempDir=str(temp_dir), **settings)
        return prefix

    return make


@pytest.fixture(scope="session")
def engines(make_setuid_prefix, make_rootless_prefix, user, root):
    """engines(mode, runtime) -> Engine; the installations are made when they are first asked for."""
    prefixes = {}
    root.home.mkdir(exist_ok=True)

    def engine(mode, runtime):
        kind = "rootless" if mode == "rootless" else "setuid"
        if (kind, runtime) not in prefixes:
            make = make_rootless_prefix if kind == "rootless" else make_setuid_prefix
            prefixes[kind, runtime] = make(f"sarus-{kind}-{runtime}", runtime)
        sandbox = FUSE[runtime] if kind == "rootless" else ()
        return installation.Engine(prefixes[kind, runtime], root if mode == "root" else user, mode, runtime, sandbox)

    return engine


# Whether /dev/fuse can be used differs between nodes, so it is never left to the node: with crun it can be used, with runc it cannot.
FUSE = {"crun": ("--fuse",), "runc": ("--closed-fuse",)}

ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc", "root-crun", "root-runc"]


@pytest.fixture(params=ENGINES)
def engine(request, engines):
    """Each way of running containers: who holds the privileges, and which OCI runtime."""
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


@pytest.fixture(scope="session")
def images(workspace):
    return ImageFactory(workspace / "images")


@pytest.fixture(scope="session")
def load_image(images):
    """load_image(engine, name, image) -> reference; each user loads an image of that name once."""
    loaded = {}

    def load(engine, name, image):
        key = engine.user.name, name
        if key not in loaded:
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
def registry(workspace, user, root):
    """A registry for everybody, over plain http, which the configuration of root and of the user allows."""
    server = Registry(workspace / "registry")
    files = [allow_plain_http(user, server)]
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(user.home / ".config")], check=True)
    root.home.mkdir(exist_ok=True)
    files.append(allow_plain_http(root, server))
    yield server
    server.stop()
    for file in files:
        file.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def private_registry(workspace, user, root):
    """A registry that wants the name "tester" and the password "let me in"."""
    server = Registry(workspace / "private-registry", password="let me in")
    for owner in (user, root):
        owner.home.mkdir(exist_ok=True)
        allow_plain_http(owner, server)
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(user.home / ".config")], check=True)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def token_registry(workspace, user):
    """As private_registry, but name and password are for a service that gives out tokens, as those of Docker Hub and of GitLab do."""
    service = TokenService(workspace / "token-service", "let me in")
    server = Registry(workspace / "token-registry", password="let me in", tokens=service)
    allow_plain_http(user, server)
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(user.home / ".config")], check=True)
    yield server
    server.stop()
    service.stop()


def left_behind(directories, uids):
    """What a container may not leave on the node, as a set of lines. Looks only at what these tests can have made."""
    roots = [str(directory) for directory in directories]
    found = {f"mount {point}" for point in system.mounts() if point.startswith(tuple(roots))}
    found |= {f"loop device {name} of {file}" for name, file in system.loop_devices().items() if file.startswith(tuple(roots))}
    found |= {f"process {pid}: {command}" for pid, uid, command in system.processes()
              if uid in uids or any(root in command for root in roots)}
    # Staging below the bundle folder happens in private namespaces: on the node, it stays empty.
    for root in roots:
        for bundle_directory in pathlib.Path(root).glob("*/var/OCIBundleDir"):
            found |= {f"file {path}" for path in bundle_directory.iterdir()}
    for uid in uids:  # the directory itself goes with the last container
        with contextlib.suppress(FileNotFoundError):
            found |= {f"file {path}" for path in pathlib.Path(f"/run/sarus/{uid}").iterdir()}
    return found


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request):
    """Every test that runs containers is checked for what remains of them."""
    if "engine" not in request.fixturenames and not any(name.endswith("_engine") or name == "engines" for name in request.fixturenames):
        yield
        return
    directories = [request.getfixturevalue("opt"), request.getfixturevalue("home_base")]
    uids = {request.getfixturevalue("user").uid}
    before = left_behind(directories, uids)
    yield
    remaining = set()

    def clean():
        nonlocal remaining
        remaining = left_behind(directories, uids) - before
        return not remaining

    assert system.eventually(clean), "left behind: " + "; ".join(sorted(remaining))
