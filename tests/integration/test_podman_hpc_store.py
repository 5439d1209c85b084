"""The squash store of podman-hpc with the real Podman, as root and rootless."""

import concurrent.futures
import contextlib
import ctypes
import errno
import fcntl
import io
import json
import os
import pathlib
import random
import signal
import stat
import struct
import subprocess
import tarfile
import tempfile
import time

import pytest
from helpers import system
from helpers.faulty_registry import FaultyRegistry
from helpers.images import Image, Layer, busybox_layer
from helpers.podman_hpc import RUN, podman_hpc, podman_hpc_of  # noqa: F401
from helpers.registry import allow_plain_http

pytestmark = pytest.mark.asroot

# As the mount program of the reference: one squashfuse for each container, over the link of the layer, until the container has ended.
MOUNT_PROGRAM = """#!/bin/sh
if [ "$1" = wait ]; then
    while mountpoint -q "$2"; do sleep 0.1; done
    exec umount "$3"
fi
lower=${2#*lowerdir=}; lower=${lower%%,*}; last=${lower##*:}
[ -e "$last.squash" ] || exec fuse-overlayfs "$@"
echo "$last" >>"$0.log"
squashfuse "$last.squash" "$last" && fuse-overlayfs -o "$2,noacl" "$3" && chmod a+rx "$3" || exit 1
"$0" wait "$3" "$last" </dev/null >/dev/null 2>&1 &
"""

LISTING = r"""{ find . -mindepth 1 -type d -printf '%p d %m %U:%G %T@\n'; find . ! -type d -printf '%p %y %m %U:%G %n %T@ %s %l\n'
find . -type f -exec md5sum {} +; } | sed -E 's/\.[0-9]{10}( |$)/\1/' | LC_ALL=C sort"""
CAPABILITY = "\1\0\0\2\0\x20" + 14 * "\0"  # cap_net_raw, in effect


def rich_image(label=""):
    """Whiteouts, an opaque directory, replaced types, links, owners, set-id bits and attributes in several layers."""

    def extra(lowest):
        lowest.directory("home/app", 0o750, uid=1000, gid=1001).file("home/app/data", "mine\n", 0o640, uid=1000, gid=1001)
        lowest.directory("keep").file("keep/a", "a").file("keep/b", "b")
        lowest.directory("gone").directory("gone/x").file("gone/x/y", "x").directory("opaque").file("opaque/old", "old")
        lowest.file("was-file", "f").directory("was-directory")
        lowest.file("was-directory/inside", "i").file("linked", "two names").hardlink("also-linked", "linked").symlink("dangling", "/no/such")
        lowest.file("set-id", "s", 0o6755, uid=7, gid=8).file("big", b"0123456789abcdef" * 40000, mtime=1234567890)
        attributes = {"SCHILY.xattr.user.color": "blue", "SCHILY.xattr.security.capability": CAPABILITY}
        lowest.file("attributes", "x", pax_headers=attributes).add("pipe", b"6", mode=0o600)

    upper = Layer().file(".wh.gone").directory("keep").file("keep/.wh.a").directory("opaque").file("opaque/.wh..wh..opq").file("opaque/new", "new")
    upper.directory("was-file").file("was-file/below", "b").file("was-directory", "now a file")
    top = Layer().directory("keep").file("keep/c", "c", uid=1000, gid=1001).file("keep/b", "changed").directory("empty", 0o1777)
    config = {"User": "1000:1001", "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["id -u"], "WorkingDir": "/home/app", "Env": ["PATH=/bin", "COLOR=blue"],
              "Labels": {"for": label}}
    return Image([busybox_layer(extra=extra), upper.bytes(), top.bytes()], config)


def refuse_record_locks():
    """Record locks of fcntl(2) answer ENOLCK, in this process and those below."""
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
    commands = (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, 36, 37, 38)  # those of open files come last
    steps = [(load, 0, 0, 0), (equal, 0, len(commands) + 1, {"x86_64": 72, "aarch64": 25}[os.uname().machine]), (load, 0, 0, 24)]
    steps += [(equal, len(commands) - number, 0, command) for number, command in enumerate(commands)]
    steps += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | errno.ENOLCK)]  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    if ctypes.CDLL(None, use_errno=True).prctl(22, 2, program, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "prctl")


class Store:
    """The squash store of a podman_hpc, and what tests ask about it."""

    def __init__(self, podman_hpc, directory):
        self.podman_hpc = podman_hpc
        self.directory = directory

    def __call__(self, *words, **keywords):
        return self.podman_hpc(*words, **{"SQUASH_DIR": self.directory, **keywords})

    def list(self, kind):
        """A missing list has no entries."""
        file = self.directory / f"overlay-{kind}/{kind}.json"
        return json.loads(file.read_text()) if file.exists() else []

    def names(self):
        return {name: image["id"] for image in self.list("images") for name in image.get("names", [])}

    def squash_files(self):
        return sorted(path.name for path in (self.directory / "overlay/l").iterdir() if "squash" in path.name)

    def check(self):
        """Each image has its files, and each name one image."""
        layers = {layer["id"]: layer for layer in self.list("layers")}
        images = self.list("images")
        assert len(layers) == len(self.list("layers"))
        names = [name for image in images for name in image.get("names", [])]
        assert len(names) == len(set(names)) and len({image["id"] for image in images}) == len(images)
        for image in images:
            link = (self.directory / "overlay" / image["layer"] / "link").read_text()
            squash = self.directory / f"overlay/l/{link}.squash"
            assert subprocess.run(["unsquashfs", "-s", squash], capture_output=True).returncode == 0
            assert os.readlink(self.directory / "overlay/l" / link) == f"../{image['layer']}/diff"
            layer = image["layer"]
            while layer:
                assert (self.directory / "overlay" / layer / "diff").is_dir() and not (self.directory / "overlay" / layer / "lower").exists()
                layer = layers[layer].get("parent")
            assert (self.directory / "overlay-images" / image["id"] / "manifest").stat().st_size > 0
        return images


@pytest.fixture(scope="module")
def store(podman_hpc):  # noqa: F811
    yield Store(podman_hpc, podman_hpc.directory / "squash")
    for pid, _, command in system.processes():
        if str(podman_hpc.directory) in command and "fuse" in command:
            system.kill(pid)


@pytest.fixture
def fresh(store, tmp_path_factory):
    """An empty squash store."""
    return Store(store.podman_hpc, store.podman_hpc.directory / f"squash-{random.randrange(10**9)}")


@pytest.fixture(scope="module")
def reader(other_user, build_dir):
    """The podman-hpc of another user."""
    made = podman_hpc_of(other_user, build_dir)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def rich(store, images):
    store("load", "-i", images.archive(rich_image(), "rich"))
    return "localhost/rich:latest"


@pytest.fixture(scope="module")
def many(store, images):
    """Names of 12 images over one lowest layer, from one archive."""
    path, manifest, members = images.directory / "many.tar", [], set()
    with tarfile.open(path, "w") as archive:
        for number in range(12):
            layers = [Layer().file(f"number-{number}", str(number)).bytes(), Layer().file("data", os.urandom(1 << 20)).bytes()]
            with tarfile.open(images.archive(Image([busybox_layer(), *layers], {"Env": ["PATH=/bin"]}), f"many{number}")) as single:
                for member in single:
                    if member.name == "manifest.json":
                        manifest += json.load(single.extractfile(member))
                    elif member.name not in members:
                        members.add(member.name)
                        archive.addfile(member, single.extractfile(member))
        info = tarfile.TarInfo("manifest.json")
        text = json.dumps(manifest).encode()
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    path.chmod(0o644)
    store("load", "-i", path)
    return [f"localhost/many{number}:latest" for number in range(12)]


@contextlib.contextmanager
def tree_of(store, image):
    """The directory with the files of a squashed image."""
    link = (store.directory / "overlay" / image["layer"] / "link").read_text()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["unsquashfs", "-q", "-n", "-d", f"{directory}/tree", store.directory / f"overlay/l/{link}.squash"], check=True, capture_output=True)
        yield f"{directory}/tree"


def listing_of(store, image):
    with tree_of(store, image) as tree:
        return subprocess.run(LISTING, shell=True, cwd=tree, capture_output=True, text=True, check=True).stdout.splitlines()


def test_squash_has_what_podman_shows(store, rich):
    """The tree is the one of `podman image mount`, with owners as seen inside of the container."""
    store("migrate", rich)
    image, = [image for image in store.check() if rich in image["names"]]
    program = store.podman_hpc.argv()
    begin = program.index("--") + 1
    script = f"""cd "$({' '.join(program[begin:])} image mount {rich})" && {LISTING}"""
    unshare = [*program[begin:], "unshare"] if store.podman_hpc.user.uid else []
    shown = subprocess.run([*program[:begin], *unshare, "sh", "-c", script], env=store.podman_hpc.environment(), capture_output=True, text=True, check=True)
    assert sorted(set(listing_of(store, image)) ^ set(shown.stdout.splitlines())) == [] and shown.stdout


def test_attributes_and_capabilities_stay(store, rich):
    store("migrate", rich)
    image, = [image for image in store.list("images") if rich in image["names"]]
    with tree_of(store, image) as tree:
        assert os.getxattr(f"{tree}/attributes", "user.color") == b"blue"
        assert os.getxattr(f"{tree}/attributes", "security.capability") == CAPABILITY.encode()


def test_layout_is_that_of_the_reference(store, rich):
    store("migrate", rich)
    image, = [image for image in store.list("images") if rich in image["names"]]
    local = json.loads((store.podman_hpc.directory / "graph/overlay-images/images.json").read_text())
    assert image == next(record for record in local if record["id"] == image["id"])
    files = {path.name: path.read_bytes() for path in (store.podman_hpc.directory / "graph/overlay-images" / image["id"]).iterdir()}
    assert files == {path.name: path.read_bytes() for path in (store.directory / "overlay-images" / image["id"]).iterdir()}
    local_layers = {layer["id"]: layer for layer in json.loads((store.podman_hpc.directory / "graph/overlay-layers/layers.json").read_text())}
    chain = [layer for layer in store.list("layers") if layer["id"] in local_layers]
    assert len(chain) >= 3 and all(layer == local_layers[layer["id"]] for layer in chain)
    for layer in chain:
        here, there = store.directory / "overlay" / layer["id"], store.podman_hpc.directory / "graph/overlay" / layer["id"]
        assert (here / "link").read_text() == (there / "link").read_text()
        assert {path.name for path in here.iterdir()} == {path.name for path in there.iterdir()} - {"lower"}
        assert (store.directory / f"overlay-layers/{layer['id']}.tar-split.gz").exists()
    for lock in ("overlay-images/images.lock", "overlay-layers/layers.lock"):
        status = (store.directory / lock).stat()
        assert status.st_size == 64 and stat.S_IMODE(status.st_mode) == 0o644


def test_containers_start_from_the_squash_store(store, images):
    """The image is in the squash store alone: its user, entrypoint, directory and files count."""
    store("load", "-i", images.archive(rich_image(), "alone"))
    store("migrate", "alone")
    store("rmi", "-f", "localhost/alone", "localhost/rich:latest", status=None)
    assert "localhost/alone" in store("images", "--format", "{{.Repository}} {{.ReadOnly}}", "--filter", "readonly=true")

    def run(*words, options=()):
        return store(*RUN, *options, "localhost/alone", *words)

    assert run() == "1000\n"
    assert run("echo $(id -u):$(id -g) $COLOR $PWD; cat data; ls /keep /opaque; test -e /gone || echo gone; cat /was-file/below /was-directory") == (
        "1000:1001 blue /home/app\nmine\n/keep:\nb\nc\n\n/opaque:\nnew\ngone\nbnow a file")
    assert run("id -u; echo x >/new; cat /new", options=["--user=0"]) == "0\nx\n"
    assert run("id -u; cat /keep/b", options=["--user=55:66"]) == "55\nchanged"
    if store.podman_hpc.user.uid:
        assert run("id -u; stat -c %u:%g /set-id", options=["--userns=keep-id", "--user=1000"]).endswith("7:8\n")


def test_a_second_migration_carries_names_over(fresh, many):
    image = many[0]
    fresh("migrate", image.split("/")[1].split(":")[0])
    identity = fresh.names()[image]
    before = fresh.squash_files()
    fresh("tag", image, "docker.io/library/second:1")
    assert "has new names" in fresh("migrate", "second:1")
    assert fresh.names() == {image: identity, "docker.io/library/second:1": identity} and fresh.squash_files() == before
    assert "is already in" in fresh("migrate", identity[:12])
    # A name that moves to another image leaves the first one.
    fresh("tag", many[1], "docker.io/library/second:1")
    fresh("migrate", "docker.io/second:1")
    assert fresh.names()["docker.io/library/second:1"] != identity and fresh.names()[image] == identity
    fresh.check()
    fresh("rmi", "docker.io/library/second:1")


def test_rmsqi_removes_every_record(fresh, many):
    for image in many[:2]:
        fresh("migrate", image)
    fresh("tag", many[0], "localhost/other:1")
    fresh("migrate", many[0])
    assert fresh("rmsqi", "other:1") == "Untagged: localhost/other:1\n"
    assert many[0] in fresh.names()
    fresh("rmsqi", many[0])
    assert list(fresh.names()) == [many[1]] and len(fresh.squash_files()) == 1 and len(fresh.list("layers")) == 3
    fresh.check()
    fresh("rmsqi", fresh.names()[many[1]])
    assert fresh.list("images") == fresh.list("layers") == []
    left = {str(path.relative_to(fresh.directory)) for path in fresh.directory.rglob("*") if not path.is_dir()}
    assert left == {"migrate.lock", *(f"overlay-{kind}/{kind}.{end}" for kind in ("images", "layers") for end in ("json", "lock"))}
    assert [path.name for path in (fresh.directory / "overlay").iterdir()] == ["l"]
    fresh("rmsqi", many[1], status=1)
    fresh("rmi", "localhost/other:1")


def test_twelve_migrations_at_once_beside_containers(fresh, many):
    fresh("migrate", many[0])
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        runs = [pool.submit(fresh, *RUN, many[0], "cat", "/number-0") for _ in range(4)]
        list(pool.map(lambda image: fresh("migrate", image), many + many[1:6]))  # some twice
        assert [run.result() for run in runs] == ["0"] * 4
    assert sorted(fresh.names()) == sorted(many)
    fresh.check()
    assert len(fresh.list("layers")) == 25 and len(fresh.squash_files()) == 12


def test_killed_migrations_are_never_visible(fresh, many):
    generator = random.Random(14)
    for image in many[:6]:
        process = subprocess.Popen(fresh.podman_hpc.argv("migrate", image), env=fresh.podman_hpc.environment(SQUASH_DIR=fresh.directory),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(generator.uniform(0.02, 0.6))
        if image in many[:3]:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.terminate()  # the processes that it has started end, too
        process.wait()
        mine = str(fresh.podman_hpc.directory)
        assert system.eventually(lambda: not [command for _, _, command in system.processes() if mine in command])
        fresh.check()
    for image in many[:6]:
        fresh("migrate", image)
    assert sorted(fresh.names()) == sorted(many[:6])
    fresh.check()
    assert len(fresh.squash_files()) == 6


def test_an_unrecorded_squash_file_is_not_trusted(fresh, many):
    """The reference leaves such a file when it is interrupted, and accepts it then."""
    link = fresh.podman_hpc.link_of(many[2])
    fresh("images")
    target = fresh.directory / f"overlay/l/{link}.squash"
    target.write_bytes(b"hsqs, but no more")
    fresh.podman_hpc.user.own(target)
    fresh("migrate", many[2])
    fresh.check()


@pytest.mark.thorough
def test_no_failure_to_list_a_directory_is_its_end(fresh, many):
    def attempt(*inject):
        argv = fresh.podman_hpc.argv("migrate", many[7])
        at = argv.index("--") + 1
        strace = ["strace", "-qq", f"--output={fresh.podman_hpc.directory}/listed", "--trace=getdents64", *inject]
        return subprocess.run([*argv[:at], *strace, *argv[at:]], env=fresh.podman_hpc.environment(SQUASH_DIR=fresh.directory), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=300, cwd="/")

    expected = attempt()
    assert expected.returncode == 0, expected.stderr
    calls = (fresh.podman_hpc.directory / "listed").read_text().count("getdents64(")
    assert calls > 0
    for number in range(1, calls + 1):
        fresh("rmsqi", many[7])
        result = attempt(f"--inject=getdents64:error=EIO:when={number}")
        assert (many[7] in fresh.names()) == (result.returncode == 0), (number, result.stderr)
        assert result.returncode == 0 or "Input/output error" in result.stderr, (number, result.stderr)
        assert fresh("migrate", many[7]) is not None
        fresh.check()


@contextlib.contextmanager
def small_store(store, size):
    """A squash store on a file system of its own."""
    directory = store.podman_hpc.directory / "small"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], check=True)
    try:
        os.chown(directory, store.podman_hpc.user.uid, store.podman_hpc.user.uid)
        yield Store(store.podman_hpc, directory)
    finally:
        subprocess.run(["umount", directory], check=True)
        directory.rmdir()


def test_disk_full(store, many):
    with small_store(store, "1500k") as small:
        error = small.podman_hpc("migrate", many[3], status=1, SQUASH_DIR=small.directory, stream="err")
        assert "No space left on device" in error and "Failed to squash the image" in error
        assert small.list("images") == small.list("layers") == [] and small.squash_files() == []


@pytest.mark.parametrize("pages", [0, 1, 2])
def test_images_of_a_full_store_can_be_removed(store, many, pages):
    """However little space is left. The images have their lowest layer in common."""
    with small_store(store, "16m") as full:
        for image in many[3:6]:
            full("migrate", image)
        with open(full.directory / "much", "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            file.truncate(file.tell() // 4096 * 4096 - pages * 4096)
        assert os.statvfs(full.directory).f_bavail == pages
        for image in many[3:6]:
            full("rmsqi", image)
            assert image not in full.names()
            full.check()
        assert full.squash_files() == [] and full.list("layers") == []
        assert [path.name for path in (full.directory / "overlay-images").iterdir() if path.is_dir()] == []


def test_additional_stores_are_read_by_others(fresh, many, reader):
    """A store of the site, which its owner makes with the usual umask."""
    fresh("migrate", many[4])
    site = [f"--additional-stores={fresh.directory}"]
    assert "many4" in reader("images", options=site)
    assert reader(*RUN, many[4], "cat", "/number-4", options=site) == "4"
    reader("--squash-dir", fresh.directory, "rmsqi", many[4], status=1)
    assert many[4] in fresh.names()


def test_the_mount_program_of_the_reference(fresh, registry):
    reference = registry.push(rich_image("mounted"), f"mounted{fresh.podman_hpc.user.uid}:1")
    fresh("migrate", f"docker://{reference}")
    program = fresh.podman_hpc.directory / "mount-program"
    program.write_text(MOUNT_PROGRAM)
    program.chmod(0o755)
    for _ in range(2):
        output = fresh(*RUN, reference, "id -u; cat data; ls /keep; echo x >new; cat new", PODMANHPC_MOUNT_PROGRAM=program)
        assert output == "1000\nmine\nb\nc\nx\n"
        assert system.eventually(lambda: not any(command.startswith(f"squashfuse {fresh.directory}") for _, _, command in system.processes()))
    link, = (path for path in (fresh.directory / "overlay/l").iterdir() if path.with_name(f"{path.name}.squash").exists())
    assert pathlib.Path(f"{program}.log").read_text() == f"{link}\n" * 2
    fresh.check()


def test_a_file_system_without_locks(fresh, registry):
    """Podman has no part in this migration: it would wait for ever."""
    content = Layer().file("own", os.urandom(9)).bytes()  # sarus has converted no such image
    reference = registry.push(Image([busybox_layer(), content], {"Env": ["PATH=/bin"]}), f"unlocked{fresh.podman_hpc.user.uid}:1")
    result = subprocess.run(fresh.podman_hpc.argv("migrate", f"docker://{reference}"), env=fresh.podman_hpc.environment(SQUASH_DIR=fresh.directory),
                            preexec_fn=refuse_record_locks, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd="/")
    assert result.returncode == 0, result.stderr
    assert result.stderr == (f"WARNING: The filesystem of {fresh.directory} has no file locks: Podman may fail or wait for ever there. "
                             "Choose another squash store\n")
    assert list(fresh.names()) == [reference]
    fresh.check()
    assert fresh(*RUN, reference, "echo", "runs") == "runs\n"


@pytest.mark.parametrize("image, container", [([], ["container"]), pytest.param(["image"], [], marks=pytest.mark.thorough)])
def test_commands_find_images_of_the_squash_store(fresh, registry, image, container):
    """An image that is there alone, and a container of it that has ended."""
    content = Layer().file("own", os.urandom(9)).bytes()  # no other image has such a layer
    reference = registry.push(Image([busybox_layer(), content], {"Env": ["PATH=/bin"]}), f"found{fresh.podman_hpc.user.uid}:1")
    fresh("migrate", f"docker://{reference}")
    identity, = fresh.names().values()
    archive = fresh.podman_hpc.directory / "exported.tar"
    assert fresh(*image, "inspect", "--format", "{{.Id}}", reference) == f"{identity}\n"
    assert identity[:12] in fresh(*image, "history", reference)
    assert "image not known" in fresh(*image, "save", reference, status=125, stream="err")  # its layers are not there
    fresh("image", "exists", reference)
    assert reference.split(":1")[0] in fresh("image", "ls")
    name = f"hpc-{os.getpid()}"
    fresh(*container, "create", f"--name={name}", *RUN[2:], reference, "sh", "-c", "echo $PATH; echo x >/new")
    assert fresh(*container, "start", "-a", name) == "/bin\n"
    assert fresh(*container, "inspect", "--format", "{{.ImageName}} {{.State.ExitCode}}", name) == f"{reference} 0\n"
    assert "A /new" in fresh(*container, "diff", name)
    assert "new" in fresh(*container, "cp", f"{name}:/new", "-")
    fresh(*container, "export", "-o", archive, name)
    with tarfile.open(archive) as exported:
        assert {"own", "new", "bin/sh"} <= set(exported.getnames())
    fresh(*container, "commit", "-q", name, "localhost/committed")
    assert fresh(*RUN, "localhost/committed", "cat", "/new") == "x\n"
    fresh("rmi", "localhost/committed")
    fresh(*container, "restart", "-t", "0", name)
    fresh("wait", name)
    fresh("rm", name)


def test_pull_migrates(fresh, registry, plain_busybox):
    reference = registry.push(plain_busybox, f"squash{fresh.podman_hpc.user.uid}:1")
    output = fresh("pull", f"docker://{reference}", "-q")
    assert f"INFO: Migrating image to {fresh.directory}\n" in output
    assert reference in fresh.names()
    several = [registry.push(Image([busybox_layer(), Layer().file("own", os.urandom(9)).bytes()], {}), f"squash{name}{fresh.podman_hpc.user.uid}:1") for name in "ab"]
    fresh("pull", "-q", *several)
    assert {*several} <= {*fresh.names()}
    error = fresh("pull", "-q", f"{registry.host}/no/such:1", status=125, stream="err")
    assert error.endswith("Pull failed.\n")


def test_migration_from_a_registry(fresh, registry):
    """Nothing passes through Podman's own store, and the records are those that a pull makes."""
    reference = registry.push(rich_image("registry"), f"direct{fresh.podman_hpc.user.uid}:1")
    output = fresh("migrate", f"docker://{reference}")
    assert f"INFO: {reference} is now in {fresh.directory}\n" in output
    image, = fresh.check()
    assert image["names"] == [reference] and not any(fresh.podman_hpc.directory.glob("graph/migrate-*"))
    assert reference not in (fresh.podman_hpc.directory / "graph/overlay-images/images.json").read_text()
    assert fresh(*RUN, reference, "id -u; cat data; ls /keep") == "1000\nmine\nb\nc\n"
    assert "is already in" in fresh("migrate", f"docker://{reference}")
    other = Store(fresh.podman_hpc, fresh.directory.with_name(fresh.directory.name + "-pulled"))
    other("pull", "-q", reference)
    pulled, = [image for image in other.list("images") if reference in image["names"]]
    for key in ("id", "digest", "layer"):
        assert pulled[key] == image[key]
    assert {layer["id"]: layer.get("parent") for layer in other.list("layers")} == {layer["id"]: layer.get("parent") for layer in fresh.list("layers")}
    trees = [listing_of(store, image) for store in (fresh, other)]
    assert trees[0] == trees[1]
    assert "Failed to get image" in fresh("migrate", f"docker://{reference}-no", status=1, stream="err")


def test_migration_of_a_private_image_suggests_podmans_login(fresh, tmp_path):
    server = FaultyRegistry(rich_image("private"), tmp_path / "layout")
    server.answer("manifests", 403, '{"errors": [{"code": "DENIED", "message": "denied"}]}', Content_Type="application/json")
    file = allow_plain_http(fresh.podman_hpc.user, server)
    try:
        error = fresh("migrate", f"docker://{server.reference}", status=1, stream="err")
    finally:
        server.stop()
        file.unlink()
    assert "The image may be private or not present in the remote registry." in error
    assert f"Run: podman-hpc login {server.host}" in error and "sarus" not in error


def test_an_image_without_a_name(fresh, images):
    image = Image([busybox_layer(), Layer().file("own", os.urandom(9)).bytes()], {"Env": ["PATH=/bin"]})
    fresh("load", "-i", images.archive(image, "unnamed"))
    identity = fresh("image", "inspect", "--format", "{{.Id}}", "localhost/unnamed").strip()
    fresh("untag", "localhost/unnamed:latest")
    fresh("migrate", identity[:12])
    assert [record["id"] for record in fresh.check()] == [identity] and fresh.names() == {}
    fresh("rmi", identity)
    assert fresh(*RUN, identity[:12], "echo", "runs") == "runs\n"
    fresh("rmsqi", identity[:12])
    assert fresh.list("images") == fresh.list("layers") == []


def test_unknown_image(fresh):
    error = fresh("migrate", "no-such-image", status=1, stream="err")
    assert "Error: Image no-such-image not found in" in error and "podman-hpc pull no-such-image" in error
    assert "Missing argument 'IMAGE'" in fresh("migrate", status=2, stream="err")
    assert "Got unexpected extra argument (b)" in fresh("rmsqi", "a", "b", status=2, stream="err")
