"""Containers from a squashed store through the mount program, with the real Podman, as root and rootless."""

import contextlib
import json
import os
import pathlib
import subprocess

import pytest
from helpers import squashed_store, system
from helpers.images import Image, Layer, busybox_layer
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401

pytestmark = pytest.mark.asroot

IMAGE = "localhost/squashed"
BARE = "localhost/bare"
FUSE_OVERLAYFS = ["--storage-opt=mountopt=noacl"]  # an option that the kernel's overlay does not have
DETACHED = ["run", "-d", *RUN[2:]]


def bare_layer():
    """A system that consists of one directory with busybox."""
    layer = Layer()
    layer.directory("bin")
    layer.file("bin/busybox", pathlib.Path("/bin/busybox").read_bytes(), mode=0o755)
    layer.symlink("bin/sh", "busybox")
    return layer.bytes()


def upper_layer():
    layer = Layer()
    layer.directory("data")
    layer.file("data/file", "from below\n")
    layer.directory("data/kept", mode=0o700, uid=33, gid=33)
    layer.file("data/kept/of-33", "of 33\n", mode=0o600, uid=33, gid=33)
    return layer.bytes()


@pytest.fixture(scope="module")
def store(podman_hpc, images):  # noqa: F811
    """The squashed store that podman_hpc uses, with two images that the local store does not have."""
    directory = podman_hpc.directory / "squash"
    for name, image in ((IMAGE, Image([busybox_layer(), upper_layer()], {"Env": ["PATH=/bin"]})), (BARE, Image([bare_layer()], {"Env": ["PATH=/bin"]}))):
        archive = images.archive(image, name.partition("/")[2])
        podman_hpc("load", "-i", archive)
        squashed_store.add(podman_hpc.directory / "graph", directory, f"{name}:latest", lambda _, file, source=archive: squashed_store.squash_archive(source, file))
        podman_hpc("rmi", name)
    squashed_store.own(directory, podman_hpc.user)
    return directory


@pytest.fixture
def hpc(podman_hpc, store):  # noqa: F811
    """Afterwards no server of a file of this store or of a container of this user runs."""
    yield podman_hpc
    assert system.eventually(lambda: not servers(podman_hpc)), servers(podman_hpc)


def server(hpc):
    """Root could do without."""
    return {"SQUASHFUSE_BIN": hpc.prefix / "bin/sarus-squashfs"}


def servers(hpc):
    return squashed_store.servers(hpc.directory)


def run(hpc, *words, options=(), image=IMAGE, **keywords):
    return hpc(*RUN, *options, image, *words, **keywords)


def with_store(hpc, command, *words, **keywords):
    """A command to which podman-hpc does not give the squashed store."""
    return hpc(command, f"--storage-opt=additionalimagestore={hpc.directory}/squash", *words, **keywords)


@contextlib.contextmanager
def container(hpc, *command, options=(), image=IMAGE):
    """A running container: its name."""
    name = f"mount-{os.getpid()}"
    hpc(*DETACHED, f"--name={name}", *options, image, *(command or ["sleep", "1000"]), **server(hpc))
    try:
        yield name
    finally:
        hpc("rm", "-f", "-t", "0", name)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_an_image_of_the_squashed_store_runs(hpc, runtime):
    options = [f"--runtime=/usr/sbin/{runtime}" if os.path.exists(f"/usr/sbin/{runtime}") else f"--runtime=/usr/bin/{runtime}"]
    script = "set -e; cat /data/file; stat -c '%u:%a' / /data/kept; " \
             "echo x > /data/file; rm -r /data/kept; mkdir /data/kept; ls -A /data/kept; mv /data/file /new; cat /new"
    assert hpc(*options, *RUN, IMAGE, "sh", "-c", script) == "from below\n0:755\n33:700\nx\n"
    assert run(hpc, "cat", "/data/file", options=["--read-only"]) == "from below\n"


def test_images_of_both_stores_are_listed(hpc):
    assert {IMAGE, BARE, "localhost/busybox"} <= set(hpc("images", "--format", "{{.Repository}}").split())


def test_a_store_with_files_of_mksquashfs_is_continued(hpc, store):
    """Its images and ours are in one store, and have layers in common."""
    hpc("migrate", "localhost/busybox")
    assert sorted(path.name for path in (store / "overlay/l").glob("*.squash")) != []
    for options in ([], FUSE_OVERLAYFS):
        assert run(hpc, "cat", "/data/file", options=options) == "from below\n"
        assert run(hpc, "echo", "ours", image="localhost/busybox", options=options) == "ours\n"
    hpc("rmsqi", "localhost/busybox")
    assert run(hpc, "cat", "/data/file") == "from below\n"


def test_users(hpc):
    assert run(hpc, "cat", "/data/file", "/data/kept/of-33", options=["--user=33"]) == "from below\nof 33\n"
    assert run(hpc, "sh", "-c", "id -u; ls /etc >/dev/null && touch /tmp/x && cat /data/file", options=["--user=1234:5"]) == "1234\nfrom below\n"


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_keep_id(hpc):
    script = "id -u; cat /data/file; touch /tmp/x; stat -c %u /tmp/x /data/kept"
    assert run(hpc, "sh", "-c", script, options=["--userns=keep-id"]).split("\n") == [str(hpc.user.uid), "from below", str(hpc.user.uid), "33", ""]
    assert run(hpc, "touch", "/etc/x", options=["--userns=keep-id", "--user=0"]) == ""


def test_an_image_without_etc(hpc):
    assert run(hpc, "sh", "-c", "echo works", image=BARE) == "works\n"


def test_many_containers_of_one_image_at_once(hpc):
    argv = hpc.argv(*RUN, IMAGE, "sh", "-c", "cat /data/file; echo x > /data/file")
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=hpc.environment(), cwd="/") for _ in range(12)]
    for process in started:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (0, "from below\n"), err


def test_a_stopped_container_keeps_its_changes(hpc):
    name = f"again-{os.getpid()}"
    script = "ls /data/kept 2>/dev/null; rm -rf /data/kept; mkdir -p /data/kept; echo x >> /data/kept/new"
    with_store(hpc, "create", f"--name={name}", *RUN[2:], IMAGE, "sh", "-c", script)
    try:
        assert with_store(hpc, "start", "-a", name) == "of-33\n"
        assert with_store(hpc, "start", "-a", name) == "new\n"
        changes = with_store(hpc, "diff", name).splitlines()
        assert "A /data/kept/new" in changes and "D /data/kept/of-33" in changes, changes
    finally:
        with_store(hpc, "rm", "-f", name)


def test_commit_and_build(hpc):
    name, image = f"commit-{os.getpid()}", "localhost/committed"
    changes = "rm -r /data/kept /etc/os-release && mkdir /etc/os-release && echo new > /data/new"
    with_store(hpc, "create", f"--name={name}", *RUN[2:], IMAGE, "sh", "-c", changes)
    with_store(hpc, "start", "-a", name)
    with_store(hpc, "commit", "-q", name, image)
    with_store(hpc, "rm", name)
    listing = ["sh", "-c", "ls -F /data /etc/os-release; cat /data/file"]
    expected = "/data:\nfile\nnew\n\n/etc/os-release:\nfrom below\n"
    assert run(hpc, *listing, image=image) == expected
    context = hpc.directory / "context"
    context.mkdir(exist_ok=True)
    (context / "Containerfile").write_text(f"FROM {IMAGE}\nRUN {changes}\nRUN test ! -e /data/kept\n")
    with_store(hpc, "build", "-q", "--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "-t", "built", context)
    assert run(hpc, *listing, image="localhost/built") == expected
    with_store(hpc, "rmi", "-f", "built", image)


def mounts_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/mountinfo").read_text()
    return ""


def namespace_of(hpc, name):
    """A process in Podman's own mount namespace: conmon."""
    return int(with_store(hpc, "inspect", "--format", "{{.State.ConmonPid}}", name))


def test_nobody_sees_the_squash_file_and_it_ends_with_the_container(hpc):
    with container(hpc) as name:
        shown = mounts_of(namespace_of(hpc, name))
        mounted = [line for line in shown.splitlines() if str(hpc.directory) in line]
        assert [line for line in mounted if "/merged " in line] and not [line for line in mounted if "squash" in line], mounted
        assert len(servers(hpc)) == 1
        assert not [line for pid in servers(hpc) for line in mounts_of(pid).splitlines() if f"{hpc.directory}/graph" in line]
    assert system.eventually(lambda: not servers(hpc))


@pytest.mark.parametrize("options", [[], FUSE_OVERLAYFS])
@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_containers_share_the_mount_for_a_while(hpc, options):
    keep = {"PODMANHPC_MOUNT_KEEP": "1000"}
    assert run(hpc, "sh", "-c", "cat /data/file; echo x > /data/file", options=options, **keep) == "from below\n"
    assert system.eventually(lambda: sorted(servers(hpc).values()) == ["fuse-overlayfs-wrap", "sarus-squashfs"])
    kept = servers(hpc)
    try:
        assert run(hpc, "cat", "/data/file", options=options, **keep) == "from below\n"
        assert system.eventually(lambda: servers(hpc) == kept)
    finally:
        for pid, program in kept.items():
            if program == "fuse-overlayfs-wrap":
                system.kill(pid)


def test_an_older_container_ends_beside_a_newer_one(hpc):
    """No server may hold the files of another container."""
    first = f"first-{os.getpid()}"
    hpc(*DETACHED, f"--name={first}", IMAGE, "sleep", "1000", **server(hpc))
    older = set(servers(hpc))
    assert older
    with container(hpc, options=FUSE_OVERLAYFS):
        hpc("rm", "-f", "-t", "0", first)
        assert system.eventually(lambda: older.isdisjoint(servers(hpc)))
        assert servers(hpc)


@pytest.mark.parametrize("through, victim", [("kernel", "squash"), ("kernel", "everything"), ("fuse-overlayfs", "fuse-overlayfs"), ("fuse-overlayfs", "everything")])
def test_nothing_remains_of_what_is_killed(hpc, through, victim):
    is_root = hpc.user.uid == 0
    options = [] if through == "kernel" else FUSE_OVERLAYFS
    name = f"killed-{os.getpid()}"
    hpc(*DETACHED, f"--name={name}", *options, IMAGE, "sleep", "1000", **server(hpc))
    found = servers(hpc)
    assert sorted(program == "fuse-overlayfs" for program in found.values()) == ([False] if through == "kernel" else [False, True])
    conmon = namespace_of(hpc, name)
    inside = int(with_store(hpc, "inspect", "--format", "{{.State.Pid}}", name))
    if victim == "everything":
        # With a rootless user's last process, the mount namespace of Podman is gone.
        targets = [conmon, inside] if is_root else [pid for pid, uid, _ in system.processes() if uid == hpc.user.uid and pid not in found]
    else:
        targets = [pid for pid, program in found.items() if victim in program]
    for pid in targets:
        system.kill(pid)
    if victim == "everything":
        assert system.eventually(lambda: not servers(hpc)), servers(hpc)
    commands = [["rm", "-f", "-t", "0", name]] * 2  # Podman finds out at the first time
    if victim == "everything" and not is_root:
        commands.insert(0, ["system", "migrate"])  # Podman asks for it
    for command in commands:
        with contextlib.suppress(AssertionError):
            hpc(*command)
    assert name not in hpc("ps", "-a")


@pytest.mark.parametrize("options", [[], FUSE_OVERLAYFS])
def test_a_container_outlives_its_killed_client(hpc, options):
    """Its files stay until it ends by itself, as without podman-hpc."""
    name = f"client-{os.getpid()}"
    client = subprocess.Popen(hpc.argv(*RUN, f"--name={name}", *options, IMAGE, "sleep", "1000"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=hpc.environment(**server(hpc)), cwd="/")
    try:
        assert system.eventually(lambda: hpc("exec", name, "cat", "/data/file", status=None) == "from below\n")
        for pid, _, command in system.processes():
            if f"--name={name}" in command and "conmon" not in command:
                system.kill(pid)
        client.wait()
        assert hpc("exec", name, "cat", "/data/kept/of-33") == "of 33\n"
        assert len(servers(hpc)) == (1 if not options else 2)
    finally:
        client.kill()
        hpc("rm", "-f", "-t", "0", name)
    assert system.eventually(lambda: not servers(hpc)), servers(hpc)


@pytest.mark.parametrize("options", [[], FUSE_OVERLAYFS])
def test_a_squash_file_replaced_under_a_container_is_none_of_its_files(hpc, store, options):
    files = sorted((store / "overlay/l").glob("*.squash"))
    with container(hpc, options=options) as name:
        for file in files:
            file.rename(file.with_suffix(".kept"))
            file.write_bytes(bytes(1 << 20))
        try:
            assert hpc("exec", name, "cat", "/data/file") == "from below\n"
            assert "not a squashfs file" in run(hpc, "true", status=None, stream="err")
        finally:
            for file in files:
                file.with_suffix(".kept").rename(file)
    assert run(hpc, "cat", "/data/file") == "from below\n"


def test_variables_of_the_reference(hpc):
    log = hpc.directory / "log"
    log.write_text("")
    hpc.user.own(log)
    recorder = hpc.directory / "recorder"
    recorder.write_text(f"#!/bin/sh\necho \"$0 $*\" >> {log}\necho said\nexec {hpc.prefix}/bin/sarus-squashfs \"$@\"\n")
    recorder.chmod(0o755)
    variables = {"SQUASHFUSE_BIN": recorder, "LOG": log, "UMOUNT_WAIT_RETRIES": "3", "UMOUNT_WAIT_DELAY": "2"}
    assert run(hpc, "cat", "/data/file", **variables) == "from below\n"
    assert log.read_text() == f"{recorder} -f /proc/self/fd/3 /dev/fd/4\nsaid\n"
    message = "exec /usr/bin/false"
    program = hpc.directory / "overlays"
    program.write_text(f"#!/bin/sh\necho \"{message} $*\" >> {log}\nexec /usr/bin/fuse-overlayfs \"$@\"\n")
    program.chmod(0o755)
    hpc.run("true", FUSE_OVERLAYFS_BIN=program)  # an image of the local store
    assert f"{message} -o lowerdir={hpc.directory}/graph/overlay/l/" in log.read_text()


def test_damaged_squash_file(hpc, store):
    squash = pathlib.Path(f"{squashed_store.top_link(store, BARE + ':latest')}.squash")
    content = squash.read_bytes()
    try:
        squash.write_bytes(content[:1000])
        with pytest.raises(AssertionError, match=f"{squash.name}.*(?s:.*)rmsqi"):
            run(hpc, "sh", "-c", "echo works", image=BARE)
    finally:
        squash.write_bytes(content)


def test_version_is_that_of_fuse_overlayfs(hpc):
    text = subprocess.run([hpc.prefix / "bin/fuse-overlayfs-wrap", "--version"], capture_output=True, text=True, check=True)
    assert "fuse-overlayfs: version" in text.stdout + text.stderr
    options = json.loads(hpc("info", "--format=json"))["store"]["graphOptions"]
    assert any(option.get("Executable") == f"{hpc.prefix}/bin/fuse-overlayfs-wrap" for option in options.values() if isinstance(option, dict)), options
