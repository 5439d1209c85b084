"""What an unprivileged user may try with containers that are kept, whose files root's overlay holds on the node."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess

import pytest
from helpers import installation, system
from helpers.compiler import compile_c
from launch_request import ask, memory_file, remove_request, request, save_request, start

pytestmark = pytest.mark.asroot


@pytest.fixture
def image(setuid_engine, load_image, plain_busybox):
    return load_image(setuid_engine, "busybox", plain_busybox)


@pytest.fixture
def kept(setuid_engine, temp_dir):
    """Removes the user's containers in the end, and returns the function for their directory."""
    yield lambda: next(path for path in temp_dir.glob(f"sarus-containers-{setuid_engine.user.uid}*") if path.stat().st_uid == 0)
    setuid_engine.sarus("rm", "--all")


def keep(engine, image, name, script, **keywords):
    return engine.run(image, "sh", "-c", script, options=["--name", name, "--keep"], **keywords)


@pytest.fixture
def evil_image(setuid_engine, tmp_path):
    """A squashfs file of the user's, whose files are root's: a program with the set-user-ID bit that all may write, and devices."""
    tree = tmp_path / "evil"
    shutil.copytree(pathlib.Path(shutil.which("busybox")).parent, tree / "bin", ignore=lambda _, names: [n for n in names if n != "busybox"])
    for name in ("sh", "cat", "chmod", "touch", "ln", "mv", "ls", "stat", "head"):
        (tree / "bin" / name).symlink_to("busybox")
    program = tree / "program"
    shutil.copy(tree / "bin/busybox", program)
    program.chmod(0o4777)
    (tree / "drop").mkdir()
    (tree / "drop").chmod(0o1733)
    (tree / "open").mkdir()
    (tree / "open").chmod(0o777)
    os.mknod(tree / "open/memory", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    file = setuid_engine.user.home / "evil.squashfs"
    file.unlink(missing_ok=True)
    subprocess.run(["mksquashfs", str(tree), str(file), "-quiet", "-no-progress"], check=True, capture_output=True)
    setuid_engine.user.own(file)
    return file


def test_a_set_id_program_of_root_stays_out_of_reach(setuid_engine, evil_image, kept):
    """A file of an image that is opened for writing is copied with its owner and mode."""
    keep(setuid_engine, evil_image, "evil", ": >> /program", check=False)
    directory = kept()
    copied = directory / "evil/upper/program"
    assert copied.stat().st_uid == 0
    tried = subprocess.run(["sh", "-c", f"exec {copied} id -u"], **setuid_engine.user.identity(), capture_output=True, text=True, check=False)
    assert tried.stdout == "" and "Permission denied" in tried.stderr
    listed = subprocess.run(["ls", str(directory)], **setuid_engine.user.identity(), capture_output=True, text=True, check=False)
    assert "Permission denied" in listed.stderr
    inside = keep(setuid_engine, evil_image, "evil", "/program id -u", check=False)
    assert inside.stdout.strip() in ("", str(setuid_engine.user.uid))


def test_devices_of_an_image_stay_closed(setuid_engine, evil_image, kept):
    script = "mv /open/memory /open/moved; head -c 1 /open/moved; head -c 1 /open/memory"
    result = keep(setuid_engine, evil_image, "devices", script, check=False)
    assert result.returncode != 0 and result.stdout == "" and "Permission denied" in result.stderr
    again = keep(setuid_engine, evil_image, "devices", "head -c 1 /open/moved || head -c 1 /open/memory", check=False)
    assert again.returncode != 0 and again.stdout == ""


def test_a_name_that_another_user_has_taken_is_not_used(setuid_engine, other_user, image, temp_dir, make_setuid_prefix):
    taken = installation.unused(temp_dir / "taken")
    taken.mkdir()
    taken.chmod(0o1777)
    engine = setuid_engine.variant(prefix=make_setuid_prefix("kept-taken", containerStorage={"directory": str(taken)}))
    trap = taken / f"sarus-containers-{engine.user.uid}"
    trap.mkdir(mode=0o777)
    other_user.own(trap)
    assert keep(engine, image, "mine", "echo mine > /file; cat /file").stdout == "mine\n"
    assert list(trap.iterdir()) == []
    own = next(path for path in taken.iterdir() if path != trap)
    assert own.stat().st_uid == 0 and own.stat().st_mode & 0o777 == 0o700
    engine.sarus("rm", "--all")


def test_a_directory_that_a_user_can_change_is_refused(setuid_engine, image, make_setuid_prefix):
    users = installation.unused(setuid_engine.user.home / "storage")
    users.mkdir()
    setuid_engine.user.own(users)
    engine = setuid_engine.variant(prefix=make_setuid_prefix("kept-users", containerStorage={"directory": str(users)}))
    result = keep(engine, image, "mine", "true", check=False)
    assert result.returncode != 0 and "is not safe: others than root can replace what root makes there" in result.stderr
    assert list(users.iterdir()) == []


def test_links_in_a_kept_container_lead_nowhere_else(setuid_engine, image, kept, opt):
    """What the container left is the image of the next one: its links decide nothing outside."""
    outside = installation.unused(opt / "outside-kept")
    outside.mkdir()
    (outside / "file").write_text("of root")
    script = f"rm -rf /etc /srv /proc /sys /dev 2>/dev/null; mkdir -p {opt}; ln -s {outside} /srv; ln -s {outside} /etc; ln -s /dev /run; true"
    keep(setuid_engine, image, "links", script, check=False)
    result = keep(setuid_engine, image, "links", "cat /srv/file", check=False)
    assert "of root" not in result.stdout
    assert [path.name for path in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "of root"
    assert setuid_engine.sarus("rm", "links").returncode == 0
    assert (outside / "file").read_text() == "of root"


SET_ATTRIBUTES = """
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
int main(int argc, char **argv) {
    const char *names[] = {"trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy",
                           "user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy"};
    for (int i = 0; i < 6; ++i) {
        const char *value = strstr(names[i], "redirect") ? "/etc" : "y";
        printf("%s %d\\n", names[i], setxattr(argv[1], names[i], value, strlen(value), 0));
    }
}
"""


@pytest.mark.parametrize("engine_name, mode", [("setuid_engine", []), ("setuid_engine", ["--remap-root"]), ("rootless_engine", []),
                                               ("rootless_engine", ["--remap-root"])])
def test_a_container_does_not_set_what_its_overlay_goes_by(request, images, load_image, tmp_path, engine_name, mode):
    """By such attributes, the next container would show another directory in the place of one, or hide what the image has in it."""
    engine = request.getfixturevalue(engine_name)
    program = compile_c(tmp_path / "set", SET_ATTRIBUTES, ["-static", "-O1"])
    image = load_image(engine, "overlay-attributes", images.busybox(extra=lambda layer: (
        layer.directory("tree", mode=0o777), layer.file("tree/file", b"of the image\n"), layer.file("set", program.read_bytes(), mode=0o755))))
    options = ["--name", "attributes", "--keep", *mode]
    try:
        said = engine.run(image, "sh", "-c", "touch /tree/new; /set /tree", options=options).stdout
        assert said.count("\n") == 6 and "trusted.overlay.opaque -1\ntrusted.overlay.redirect -1\ntrusted.overlay.metacopy -1\n" in said
        assert engine.run(image, "sh", "-c", "ls /tree; cat /tree/file", options=options).stdout == "file\nnew\nof the image\n"
    finally:
        engine.sarus("rm", "attributes")


def test_deep_trees_are_removed(setuid_engine, image, kept):
    script = "i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; chmod 0 ."
    keep(setuid_engine, image, "deep", f"mkdir -p /srv && cd /srv && {script}")
    directory = kept() / "deep"
    assert setuid_engine.sarus("rm", "deep").stdout == "deep\n" and not directory.exists()


def test_another_user_has_no_part_in_it(setuid_engine, other_user, image, kept):
    keep(setuid_engine, image, "private", "echo secret > /file; chmod 666 /file")
    stranger = setuid_engine.variant(user=other_user)
    assert "private" not in stranger.sarus("ps", "--all").stdout
    assert stranger.sarus("rm", "private").returncode == 1
    assert "private" in setuid_engine.sarus("ps", "--all").stdout


@pytest.fixture
def launch(setuid_engine, image):
    """launch(fields) -> the result of a request made by hand for the image."""
    file = next((setuid_engine.user.home / ".sarus/images").rglob("busybox/latest.squashfs"))
    with open(file, "rb") as opened:

        def run(**fields):
            channel = memory_file(request(opened.fileno(), command=["echo", "ran"], keep=True, **fields))
            try:
                return start(setuid_engine, [channel], {channel, opened.fileno()})
            finally:
                os.close(channel)

        yield run


@pytest.mark.parametrize("name", ["../private", ".", "..", "a/b", "", "a@1", ".hidden", "x" * 129])
def test_names_of_hostile_requests(setuid_engine, launch, kept, temp_dir, name):
    before = sorted(temp_dir.rglob("container.json"))
    removed = ask(setuid_engine, remove_request(name, force=True))
    assert removed.returncode == 1 and "name" in removed.stderr and removed.stdout == ""
    assert launch(name=name, content="abc").returncode == 1
    assert sorted(temp_dir.rglob("container.json")) == before


@pytest.mark.parametrize("content", ["", "../x", "x" * 257, "line\nbreak", '"'])
def test_contents_of_hostile_requests(launch, kept, temp_dir, content):
    started = launch(name="content", content=content)
    assert started.returncode == 1 and "Invalid request" in started.stderr
    assert not list(temp_dir.rglob("content/container.json"))


def test_killed_at_each_step_it_can_be_entered_and_removed(setuid_engine, image, kept):
    """The calls that make and remove a container, one killed after the other."""
    for call in ("mkdirat", "openat2", "fchownat", "linkat", "renameat", "mount", "flock", "unlinkat"):
        for when in range(1, 4):
            inject = ["strace", "--quiet=all", "--follow-forks", "--output=/dev/null", f"--trace={call}", f"--inject={call}:signal=KILL:when={when}"]
            tampered = setuid_engine.variant(wrapper=inject)
            tampered.sarus("run", "--name", "steps", "--keep", image, "true")
            assert system.eventually(lambda: "running" not in setuid_engine.sarus("ps", "--all").stdout)
            assert keep(setuid_engine, image, "steps", "touch /file; ls /file").stdout == "/file\n"
            if call == "unlinkat":
                tampered.sarus("rm", "steps")
                assert system.eventually(lambda: setuid_engine.sarus("ps", "--all").returncode == 0)
                assert keep(setuid_engine, image, "steps", "ls /srv >/dev/null 2>&1; echo fine").stdout == "fine\n"
            assert setuid_engine.sarus("rm", "steps").returncode == 0


def builder_of(engine):
    """The process that saves a container of the user's."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == engine.user.uid and b"build-container" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            continue
    return None


def test_the_builder_gives_its_user_nothing_of_root(setuid_engine, evil_image, kept, tmp_path):
    """Its process is the user's, who can get at its descriptors."""
    keep(setuid_engine, evil_image, "evil", ": >> /program; : > /open/large; chmod 666 /open/memory; mv /open/memory /open/moved;"
         "i=0; while [ $i -lt 40 ]; do head -c 4000000 /dev/urandom >> /open/large; i=$((i+1)); done", check=False)
    assert (kept() / "evil/upper/program").stat().st_mode & stat.S_ISUID
    user = setuid_engine.user
    saving = setuid_engine.start("save", "evil", user.home / "evil.saved")
    try:
        system.eventually(lambda: builder_of(setuid_engine))
        builder = builder_of(setuid_engine)
        os.kill(builder, signal.SIGSTOP)
        status = pathlib.Path(f"/proc/{builder}/status").read_text()
        assert f"Uid:\t{user.uid}\t{user.uid}\t{user.uid}\t{user.uid}\n" in status and "CapPrm:\t0000000000000000" in status
        script = (f"for d in /proc/{builder}/fd/*; do $d/program id -u; head -c 1 $d/open/moved; echo x > $d/new; echo x >> $d/program; ls $d/..; ls $d/../..;"
                  "done 2>/dev/null")
        tried = subprocess.run(["sh", "-c", script], **user.identity(), capture_output=True, text=True, check=False)
        assert "0" not in tried.stdout.split() and "container.json" not in tried.stdout, tried
        assert not (kept() / "evil/upper/new").exists()
    finally:
        os.kill(builder, signal.SIGCONT)
        saving.wait(timeout=300)
    (user.home / "evil.saved").unlink(missing_ok=True)


def test_what_a_user_may_not_read_is_left_out_and_named(setuid_engine, evil_image, kept):
    """A directory of root's into which all may write, and an image's file that its reader may not read."""
    keep(setuid_engine, evil_image, "drop", "touch /drop/file /written")
    file = setuid_engine.user.home / "drop.saved"
    result = setuid_engine.sarus("save", "drop", file)
    assert result.returncode == 0, result
    assert "You may not read /drop in the container: it is left out, and stays as in the image if that has it" in result.stderr
    listed = subprocess.run(["unsquashfs", "-lln", file], capture_output=True, text=True, check=True).stdout
    file.unlink()
    lines = {line.split()[-1]: line for line in listed.splitlines() if "squashfs-root/" in line}
    assert "squashfs-root/written" in lines and "squashfs-root/drop/file" not in lines
    assert lines["squashfs-root/drop"].startswith("drwx-wx-wt 0/0"), lines["squashfs-root/drop"]
    assert f" {setuid_engine.user.uid}/{setuid_engine.user.gid} " in lines["squashfs-root/written"]


def test_a_full_disk_leaves_no_file(setuid_engine, image, kept, open_directory):
    keep(setuid_engine, image, "large", "head -c 8000000 /dev/urandom > /large")
    small = open_directory / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4m,mode=700,uid={setuid_engine.user.uid}", "none", small], check=True)
    try:
        result = setuid_engine.sarus("save", "large", small / "saved")
        assert result.returncode == 1 and "No space left on device" in result.stderr
        assert os.listdir(small) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_killed_save_leaves_no_file_and_no_lock(setuid_engine, image, kept):
    keep(setuid_engine, image, "large", "i=0; while [ $i -lt 40 ]; do head -c 4000000 /dev/urandom >> /large; i=$((i+1)); done")
    directory = installation.unused(setuid_engine.user.home / "saved")
    directory.mkdir()
    setuid_engine.user.own(directory)
    saving = setuid_engine.start("save", "large", directory / "file")
    assert system.eventually(lambda: builder_of(setuid_engine))
    saving.kill()
    saving.wait()
    assert system.eventually(lambda: builder_of(setuid_engine) is None)
    assert os.listdir(directory) == []
    assert keep(setuid_engine, image, "large", "echo goes on").stdout == "goes on\n"


def test_a_saved_file_is_never_that_of_another(setuid_engine, image, kept, other_user):
    keep(setuid_engine, image, "mine", "touch /file")
    theirs = other_user.home / "theirs"
    theirs.write_text("theirs")
    other_user.own(theirs)
    link = setuid_engine.user.home / "link"
    link.symlink_to(theirs)
    assert setuid_engine.sarus("save", "mine", link).returncode == 1
    assert setuid_engine.sarus("save", "--force", "mine", link).returncode == 0
    assert theirs.read_text() == "theirs" and not link.is_symlink()
    link.unlink()


def test_a_deep_tree_is_refused_in_one_line(setuid_engine, image, kept):
    script = "i=0; while [ $i -lt 300 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done"
    keep(setuid_engine, image, "deep", f"mkdir -p /srv && cd /srv && {script}")
    result = setuid_engine.sarus("save", "deep", setuid_engine.user.home / "deep.saved")
    assert result.returncode == 1 and "more than 256 levels of directories" in result.stderr
    assert not (setuid_engine.user.home / "deep.saved").exists()


@pytest.mark.parametrize("fields", [{"name": "../private"}, {"name": "mine", "content": "of another"}, {"name": "nosuch", "content": "x"}])
def test_hostile_requests_to_save(setuid_engine, image, kept, fields):
    keep(setuid_engine, image, "mine", "touch /file")
    with open("/dev/null", "rb") as opened:
        channel = memory_file(save_request(image=opened.fileno(), **fields))
        try:
            result = start(setuid_engine, [channel], {channel, opened.fileno()})
        finally:
            os.close(channel)
    assert result.returncode == 1 and result.stdout == "", result
