"""What a user can do to the lists in which starters find the servers of images, and to the processes that are in them."""

import fcntl
import os
import pathlib
import subprocess

import pytest
from helpers import system

pytestmark = pytest.mark.asroot


@pytest.fixture
def fuse_engine(engines):
    return engines("rootless", "crun").variant(sandbox=("--fuse",))


@pytest.fixture(scope="module")
def fuse_prefix(make_setuid_prefix):
    return make_setuid_prefix("shared-image-hostile", imageMount="fuse")


def start(engine, image):
    container = engine.start("run", image, "sh", "-c", "echo ready; read line")
    assert container.stdout.readline() == "ready\n", container.stderr.read()
    return container


def finish(container):
    container.communicate("\n", timeout=300)
    return container.returncode


@pytest.fixture
def running(fuse_engine, load_image, plain_busybox, temp_dir):
    """(image, the list of those who use it) while a container runs."""
    directory = temp_dir / f"sarus-{fuse_engine.user.uid}" / "namespaces"
    image = load_image(fuse_engine, "busybox", plain_busybox)
    before = set(directory.glob("image-*"))
    container = start(fuse_engine, image)
    file, = set(directory.glob("image-*")) - before
    yield image, file
    finish(container)
    file.unlink(missing_ok=True)


def entry(pid, number=5, server=None):
    return f"{pid} {system.started(pid)} {number} {server or pid}".ljust(63) + "\n"


def test_a_list_that_names_other_processes_is_of_no_use(fuse_engine, running):
    image, file = running
    user = fuse_engine.user
    stranger = subprocess.Popen(["sleep", "1000"], user=user.uid, group=user.gid, extra_groups=[])
    try:
        good = file.read_text()
        for text in ("garbage\n" * 8, "\0" * 64, entry(stranger.pid), entry(stranger.pid, 0), entry(1), entry(1, 0) * 900,
                     f"{stranger.pid} 1 5 {stranger.pid}".ljust(63) + "\n", good.replace(good.split()[2], "0", 1), good * 1024, good * 1025):
            file.write_text(text)
            assert fuse_engine.output(image, "ls", "/bin/sh") == "/bin/sh", text[:80]
            file.write_text(good)
    finally:
        stranger.kill()
        stranger.wait()


def test_a_list_elsewhere_or_of_somebody_else_is_not_written(fuse_engine, running, other_user, tmp_path):
    image, file = running
    target = tmp_path / "target"
    target.write_text("untouched")
    target.chmod(0o666)
    tmp_path.chmod(0o755)
    content = file.read_bytes()
    file.unlink()
    file.symlink_to(target)
    assert fuse_engine.output(image, "ls", "/bin/sh") == "/bin/sh"
    file.unlink()
    file.write_bytes(content)
    os.chown(file, other_user.uid, other_user.gid)
    file.chmod(0o666)
    assert fuse_engine.output(image, "ls", "/bin/sh") == "/bin/sh"
    assert target.read_text() == "untouched" and file.read_bytes() == content


def test_who_keeps_the_lock_delays_a_start_only(fuse_engine, running):
    image, file = running
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert fuse_engine.output(image, "ls", "/bin/sh") == "/bin/sh"


def test_with_privileges_only_root_writes_the_lists(setuid_engine, fuse_prefix, load_image, plain_busybox):
    engine = setuid_engine.variant(prefix=fuse_prefix, sandbox=("--fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    container = start(engine, image)
    try:
        status = os.stat("/run/sarus/images")
        assert (status.st_uid, status.st_mode & 0o777) == (0, 0o700)
        lists = [file for file in pathlib.Path(f"/proc/{container.pid}/fd").iterdir() if os.path.realpath(file).startswith("/run/sarus/images/")]
        assert lists and os.stat(f"/proc/{container.pid}/fd").st_uid == 0  # not dumpable: the user cannot reach its descriptors
        for file in lists:
            flags = (file.parent.parent / "fdinfo" / file.name).read_text().split("flags:")[1].split()[0]
            assert int(flags, 8) & os.O_ACCMODE == os.O_RDONLY
    finally:
        assert finish(container) == 0


def test_a_server_in_the_users_hands_serves_only_this_user(setuid_engine, fuse_prefix, load_image, plain_busybox, other_user):
    """The same installation and the same file, which belongs to somebody else."""
    engine = setuid_engine.variant(prefix=fuse_prefix, sandbox=("--fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    file = engine.user.home / f".sarus/images/{image}/latest.squashfs"
    theirs = engine.variant(user=other_user)
    copy = other_user.home / "same.squashfs"
    container = start(engine, image)
    try:
        server, = (pid for pid, uid, command in system.processes() if uid == engine.user.uid and command.startswith(f"{fuse_prefix}/bin/sarus-squashfs"))
        os.link(file, copy)
        file.chmod(0o644)
        system.stop(server)
        assert theirs.output(copy, "ls", "/bin/sh") == "/bin/sh"
        system.kill(server)
        assert theirs.output(copy, "ls", "/bin/sh") == "/bin/sh"
    finally:
        copy.unlink()
        finish(container)
