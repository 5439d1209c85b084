"""Hostile images, mounts and payloads: what an unprivileged user may try on the way into a container and from inside of it."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from helpers import installation, system
from helpers.installation import set_configuration

pytestmark = pytest.mark.asroot


@pytest.fixture
def busybox(user_engine, load_image, plain_busybox):
    return load_image(user_engine, "busybox", plain_busybox)


@pytest.fixture
def setuid_busybox(setuid_engine, load_image, plain_busybox):
    return load_image(setuid_engine, "busybox", plain_busybox)


def bind(source, destination):
    return f"--mount=type=bind,source={source},destination={destination}"


def failed(result, *words):
    assert 0 < result.returncode <= 127 and result.stdout == "", result
    for word in words:
        assert word in result.stderr


# Directories that only root can search.


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_commands_tell_nothing_about_closed_directories(engines, load_image, plain_busybox, closed, opt, runtime):
    """A runtime that looks for the program with root's rights knows which is there."""
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    (closed / "program").write_text("#!/bin/sh\n")
    (closed / "program").chmod(0o755)
    with engine.standing(image, "--name=telling", bind(opt, "/h")):
        for search in (None, "/h/closed:/h/closed/exists"):
            messages = set()
            for name in ["program", "exists", "missing"]:
                command = f"/h/closed/{name}" if search is None else name
                result = engine.sarus("exec", *([] if search is None else ["-e", f"PATH={search}"]), "telling", command)
                failed(result)
                messages.add(result.stderr.replace(command, "COMMAND"))
            assert len(messages) == 1, messages


@contextlib.contextmanager
def swapped_link(user):
    """A directory of the user with a link that leads, in turns, to "mine", to a closed directory, and out of the container."""
    place = user.home / "swapped"
    (place / "mine").mkdir(parents=True)
    (place / "mine" / "file").touch()
    user.own(place)
    script = "while :; do ln -sfn mine link; ln -sfn /h/closed/exists link; ln -sfn /proc/1/root link; done"
    swapping = subprocess.Popen(["sh", "-c", script], cwd=place, start_new_session=True, **user.identity())
    try:
        yield place
    finally:
        os.killpg(swapping.pid, signal.SIGKILL)
        swapping.wait()
        shutil.rmtree(place)


@pytest.mark.parametrize("form", ["mount", "workdir"])
def test_destinations_tell_nothing_about_closed_directories(setuid_engine, setuid_busybox, closed, opt, workspace, form):
    messages = set()
    for name in ["exists", "exists/deeper", "file", "link", "missing"]:
        place = f"/h/closed/{name}"
        option = [bind(workspace, place)] if form == "mount" else ["--workdir", place]
        result = setuid_engine.run(setuid_busybox, "ls", "/", options=[bind(opt, "/h"), *option], check=False)
        failed(result)
        messages.add(result.stderr.replace(place, "PLACE"))
    assert len(messages) == 1 and "secret" not in messages.pop()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("covered_by", ["runtime", "hook"])
def test_working_directory_behind_a_link_on_what_is_mounted_later(engines, make_setuid_prefix, load_image, plain_busybox, closed, opt, user,
                                                                  covered_by, runtime):
    """The starter cannot look at it. The runtime would enter it, or create it, with root's rights."""
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    place = pathlib.Path("/dev/shm") if covered_by == "runtime" else user.home / "mounted-by-a-hook"
    links = {f"link-{user.name}": "/h/closed/exists", f"missing-{user.name}": "/h/closed/missing"}
    if covered_by == "hook":
        prefix = make_setuid_prefix(f"mounting-hook-{runtime}", runtime)
        engine = engine.variant(prefix=prefix)
        script = prefix / "bin/mounting"
        script.write_text(f"#!/bin/sh\ncat >/dev/null\nexec mount --bind {place} {prefix}/var/OCIBundleDir/rootfs/data\n")
        script.chmod(0o755)
        (prefix / "etc/hooks.d/50-mounting.json").write_text(json.dumps({
            "version": "1.0.0", "hook": {"path": str(script)}, "when": {"always": True}, "stages": ["createContainer"]}))
        place.mkdir(exist_ok=True)
        user.own(place)
    try:
        for name, target in links.items():
            (place / name).symlink_to(target)
            inside = f"{'/data' if covered_by == 'hook' else place}/{name}"
            failed(engine.run(image, "ls", options=[bind(opt, "/h"), f"--workdir={inside}", "--mount=type=tmpfs,destination=/data"], check=False),
                   "working directory")
        assert not (closed / "missing").exists()
    finally:
        for name in links:
            (place / name).unlink(missing_ok=True)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_working_directory_whose_path_changes_during_the_start(engines, load_image, plain_busybox, closed, opt, user, runtime):
    """The user's own process enters it."""
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    with swapped_link(user) as place:
        for _ in range(40):
            result = engine.run(image, "ls", options=[bind(opt, "/h"), bind(place, "/swapped"), "--workdir=/swapped/link"], check=False)
            assert result.stdout in ("", "file\n"), result
            assert result.stdout or "working directory" in result.stderr, result


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_working_directory_of_exec_in_a_closed_directory(engines, load_image, plain_busybox, closed, opt, runtime):
    """The runtime could enter it with root's rights, and the command would be in it."""
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    with engine.standing(image, "--name=closed", bind(opt, "/h")):
        messages = set()
        for name in ["exists", "exists/deeper", "file", "link", "missing"]:
            result = engine.sarus("exec", "--workdir", f"/h/closed/{name}", "closed", "ls")
            failed(result)
            messages.add(result.stderr.replace(f"/h/closed/{name}", "PLACE"))
        assert len(messages) == 1 and "secret" not in messages.pop()


def test_working_directory_of_exec_whose_path_changes_meanwhile(engines, load_image, plain_busybox, closed, opt, user):
    """It is looked up once, as the user."""
    engine = engines("setuid", "crun")
    image = load_image(engine, "busybox", plain_busybox)
    with swapped_link(user) as place, engine.standing(image, "--name=swapped", bind(opt, "/h"), bind(place, "/swapped")):
        for _ in range(60):
            result = engine.sarus("exec", "--workdir", "/swapped/link", "swapped", "ls")
            assert result.stdout in ("", "file\n"), result
            assert result.stdout or "working directory" in result.stderr, result


INTO_PROC = {"/proc/self/fd/7": "fd", "/proc/self/cwd": "cwd", "/proc/1/root": "one", "proc/self/root": "root", "/proc": "proc"}


@pytest.fixture
def image_with_links_into_proc(load_image, images):
    def extra(layer):
        for place, name in INTO_PROC.items():
            layer.symlink(f"to-{name}", place)

    return lambda engine: load_image(engine, "workdirs", images.busybox(extra=extra))


@pytest.mark.parametrize("target", INTO_PROC)
def test_working_directory_that_leads_into_proc(user_engine, image_with_links_into_proc, target):
    image = image_with_links_into_proc(user_engine)
    failed(user_engine.run(image, "ls", options=["--workdir", f"/to-{INTO_PROC[target]}"], check=False),
           "must not be below /proc" if target == "/proc" else "belongs to the kernel")


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_working_directory_of_exec_that_leads_into_proc(engines, image_with_links_into_proc, mode, runtime):
    engine = engines(mode, runtime)
    with engine.standing(image_with_links_into_proc(engine), "--name=links"):
        for name in INTO_PROC.values():
            result = engine.sarus("exec", "--workdir", f"/to-{name}", "links", "pwd")
            failed(result, "orking directory", f"/to-{name}")
        result = engine.sarus("exec", "--workdir", "/tmp", "links", "pwd")
        assert (result.stdout, result.stderr) == ("/tmp\n", "")


# Mount destinations that are the engine's or the runtime's own.


@pytest.mark.parametrize("destination", ["/", "/dev", "/dev/../dev", "//proc", "/proc/self", "/sys", "/etc/..", "/proc/sys/kernel",
                                         "/dev/null", "/dev/pts", "/dev/fd", "/dev/x/../zero", "/dev/ptmx/below", "/dev/null/../x"])
def test_destinations_of_the_engine(user_engine, busybox, workspace, destination):
    failed(user_engine.run(busybox, "true", options=[bind(workspace, destination)], check=False))


def test_the_engines_own_program_is_covered_by_nothing(user_engine, busybox, workspace):
    """It becomes the user's command, and hooks read what it was told."""
    program = workspace / "no-helper"
    program.write_text("#!/bin/sh\necho covered\n")
    program.chmod(0o755)
    for destination in ("/dev/.sarus-enter", "/dev/x/../.sarus-enter"):
        failed(user_engine.run(busybox, "true", options=[bind(program, destination)], check=False), "the engine needs that place")


@pytest.mark.parametrize("destination", ["/dev/init", "/dev/shm", "/dev/mqueue", "/etc/passwd", "/dev/x/y"])
def test_destinations_beside_the_engines_give_nothing(user_engine, busybox, workspace, destination):
    script = "id -u; grep -c . /proc/self/status >/dev/null; head -c1 /dev/zero | wc -c"
    source = workspace / "mounted-file"
    source.write_text("nothing\n")
    for place in (source, workspace):
        result = user_engine.run(busybox, "sh", "-c", script, options=[bind(place, destination)], check=False)
        assert result.returncode <= 127
        assert result.stdout in ("", f"{user_engine.user.uid}\n1\n"), result


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("way", ["mount", "device", "mount through a link", "site mount through a link"])
def test_nothing_takes_the_place_of_dev_null(engines, make_setuid_prefix, load_image, images, workspace, runtime, way):
    """Runtimes open it for writing as root, and put it in the place of standard streams that have its device number."""
    secret = workspace / "secret"
    secret.write_text("TOP SECRET\n")
    secret.chmod(0o600)
    engine = engines("setuid", runtime)
    source = secret if way == "mount" else "/dev/zero"
    options = {"mount": [bind(source, "/dev/null")], "device": ["--device=/dev/zero:/dev/null"], "mount through a link": [bind(secret, "/to-null")],
               "site mount through a link": []}[way]
    if way.startswith("site"):
        engine = engine.variant(prefix=make_setuid_prefix(f"site-null-{runtime}", runtime, siteMounts=[
            {"type": "bind", "source": str(secret), "destination": "/to-null"}]))
    image = load_image(engine, "null-links", images.busybox(extra=lambda layer: layer.symlink("to-null", "/dev/null")))
    with open("/dev/zero", "rb") as zero:
        result = engine.run(image, "sh", "-c", "cat <&1 >&2; echo changed >&1", options=options, check=False, stdin=zero)
    failed(result, "/dev/null")
    assert "TOP SECRET" not in result.stderr and secret.read_text() == "TOP SECRET\n"


@pytest.mark.parametrize("source", ["/proc/self/root", "/proc/self/root/dev", "/proc/self/cwd", "/proc/thread-self/root", "/proc/self/task/../root",
                                    "/proc/self/fd", "/dev/stdin", "link"])
def test_mount_sources_that_are_the_starters_own(user_engine, busybox, workspace, source):
    """Links in /proc lead to what the process has open that follows them."""
    if source == "link":
        source = workspace / "to-the-starters-root"
        source.unlink(missing_ok=True)
        source.symlink_to("/proc/self/root")
    sources = [f"{source}/{number}" for number in range(24)] if source == "/proc/self/fd" else [source]
    for one in sources:
        failed(user_engine.run(busybox, "true", options=[bind(one, "/m")], check=False), "real path for mount source")


def test_container_cannot_be_mounted_in_itself(setuid_engine, setuid_busybox, workspace):
    """Each such mount would double the number of mounts."""
    root = f"{setuid_engine.prefix}/var/OCIBundleDir/rootfs"
    for source in (root, f"{root}/dev", f"{root}/m", f"{root}/../rootfs/m"):
        options = [bind(workspace, "/m"), *(bind(source, f"/n{number}") for number in range(8))]
        failed(setuid_engine.run(setuid_busybox, "true", options=options, check=False), "part of the container itself")


def test_a_hundred_mounts(user_engine, busybox, workspace):
    """Of a folder below which the container is built (rootless): no mount carries the earlier ones along."""
    options = [bind(workspace, f"/m/{number}") for number in range(100)]
    assert user_engine.output(busybox, "sh", "-c", "ls -d /m/* | wc -l", options=options) == "100"


def test_destination_swapped_during_the_start_stays_inside(setuid_engine, setuid_busybox, workspace, user):
    """Another process exchanges a directory of a mounted folder for a link while containers start."""
    place = workspace / "swapped"
    outside = workspace / "victim"
    for directory in (place, outside):
        directory.mkdir(exist_ok=True)
    os.chown(place, user.uid, user.gid)
    outside.chmod(0o755)
    swapper = subprocess.Popen(["sh", "-c", f"cd {place}; while :; do mkdir d 2>/dev/null; rm -rf d; ln -s {outside} d; rm d; done"],
                               user=user.uid, group=user.gid, stderr=subprocess.DEVNULL)
    try:
        for _ in range(15):
            result = setuid_engine.run(setuid_busybox, "true", options=[bind(place, "/s"), bind("/etc", "/s/d/x"), "--workdir=/s/d/y"], check=False)
            assert 0 <= result.returncode <= 127
            assert list(outside.iterdir()) == []
    finally:
        swapper.kill()
        swapper.wait()


# From inside.


def test_starter_and_runtime_are_closed_to_the_payload(user_engine, busybox):
    """Without privileges they are processes of the same user; what shows is how many descriptors they have, not what those are."""
    script = """
    for pid in $PPID $(awk '/^PPid/{print $2}' /proc/$PPID/status); do
        for file in root/. cwd/.; do ls /proc/$pid/$file >/dev/null 2>&1 && echo OPEN $pid $file; done
        for file in exe root cwd fd/0 fd/1 fd/2 fd/3 fd/4 fd/5 fd/6; do readlink /proc/$pid/$file 2>/dev/null && echo OPEN $pid $file; done
        for file in environ maps mem auxv; do head -c 1 /proc/$pid/$file 2>/dev/null | grep -q . && echo READ $pid $file; done
    done
    echo done"""
    assert user_engine.output(busybox, "sh", "-c", script) == "done"


@pytest.mark.parametrize("pid", ["host", "private"])
def test_nothing_of_the_kernel_can_be_written(user_engine, busybox, pid):
    script = """
    for file in /proc/sys/kernel/hostname /proc/sysrq-trigger /sys/kernel/uevent_helper /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs \
                /sys/fs/cgroup/*/release_agent /proc/sys/kernel/core_pattern; do
        [ -e $file ] && (echo 0 > $file) 2>/dev/null && echo WRITTEN $file
    done
    mknod /tmp/node b 7 0 2>/dev/null && echo NODE
    mount -t tmpfs none /mnt 2>/dev/null && echo MOUNT
    chroot / true 2>/dev/null && echo CHROOT
    umount /etc 2>/dev/null && echo UMOUNT
    echo done"""
    assert user_engine.output(busybox, "sh", "-c", script, options=[f"--pid={pid}"]).splitlines() == ["done"]


@pytest.mark.parametrize("mode", ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def test_processes_that_the_node_hides_stay_hidden(engines, load_image, plain_busybox, mode):
    engine = engines(*mode.split("-"))
    image = load_image(engine, "busybox", plain_busybox)
    script = 'mount -t proc -o hidepid=2,gid=$1 proc /proc; shift; exec "$@"'
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        show = f"cat /proc/{stranger.pid}/cmdline | tr '\\0' ' '; ls -d /proc/$$; grep '^Pid' /proc/self/status | wc -l"
        for gid, sees in ((4242, False), (engine.user.gid, True)):
            hiding = engine.variant(wrapper=("unshare", "--mount", "sh", "-c", script, "-", gid))
            lines = hiding.run(image, "sh", "-c", show, check=False).stdout.splitlines()
            assert ("sleep 1000" in lines[0]) == sees, lines
            assert len(lines) == 2 and "/proc/" in lines[0] and lines[1] == "1", lines
    finally:
        stranger.kill()
        stranger.wait()


def test_device_nodes_of_mounted_folders_are_dead(user_engine, busybox, workspace):
    """But for those which every container has, where one of them itself is mounted."""
    for name, number in (("null", os.makedev(1, 3)), ("fuse", os.makedev(10, 229))):
        node = workspace / name
        if not node.exists():
            os.mknod(node, 0o020666, number)
            node.chmod(0o666)
        subprocess.run(["sh", "-c", f": < {node}"], check=True, user=user_engine.user.uid)
    script = "for node in /d/null /d/fuse /one; do (: < $node) && echo $node; done; (: < /usual) && echo usual"
    options = [bind(workspace, "/d"), bind(workspace / "fuse", "/one"), bind(workspace / "null", "/usual")]
    assert user_engine.output(busybox, "sh", "-c", script, options=options) == "usual"


def test_container_is_closed_from_outside_while_a_server_provides_its_image(make_setuid_prefix, setuid_engine, load_image, plain_busybox, user):
    """The server is a process of the user's, who can look into its mount namespace."""
    engine = setuid_engine.variant(prefix=make_setuid_prefix("image-mount-fuse", imageMount="fuse"))
    with engine.standing(load_image(engine, "busybox", plain_busybox)):
        servers = [pid for pid, uid, command in system.processes() if uid == user.uid and "sarus-squashfs" in command]
        assert servers
        for pid in servers:
            bundle = f"/proc/{pid}/root{engine.prefix}/var/OCIBundleDir"
            script = f"ls -d {bundle}/.. >/dev/null && ls -A {bundle}; touch {bundle}/overlay/rootfs-upper/x 2>/dev/null && echo written"
            seen = subprocess.run(["sh", "-c", script], user=user.uid, group=user.gid, extra_groups=[], capture_output=True, text=True)
            assert (seen.stdout, seen.stderr) == ("", "")


@pytest.fixture(scope="module")
def image_with_nodes(workspace):
    """A squashfs file of the user's own with a device node and a set-user-ID program, both for everybody."""
    tree = workspace / "node-tree"
    for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        (tree / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin" / "busybox")
    shutil.copy("/bin/busybox", tree / "bin" / "su")
    (tree / "bin" / "su").chmod(0o4755)
    for name in ("sh", "head", "cat", "id"):
        (tree / "bin" / name).symlink_to("busybox")
    image = workspace / "nodes.squashfs"
    subprocess.run(["mksquashfs", tree, image, "-quiet", "-no-progress", "-all-root", "-p", "zero c 666 0 0 1 5"], check=True, capture_output=True)
    image.chmod(0o644)
    return image


@pytest.mark.parametrize("options", [[], ["--read-only"], ["--read-only", "--pid=private"]], ids=" ".join)
def test_device_nodes_and_set_id_bits_of_an_image_are_dead(engine, image_with_nodes, options):
    script = """
    while read -r id parent device root point flags rest; do [ "$point" = / ] && echo "$flags"; done < /proc/self/mountinfo
    head -c1 /zero >/dev/null 2>&1 && echo "the node works"
    exit 0"""
    lines = engine.output(image_with_nodes, "/bin/sh", "-c", script, options=options).splitlines()
    assert len(lines) == 1, lines
    assert {"nosuid", "nodev", "ro" if options else "rw"} <= set(lines[0].split(","))


# Environment.


def test_odd_environments(user_engine, busybox):
    argv, identity = user_engine.command("run", busybox, "sh", "-c", 'echo "$A"; env | wc -c')
    script = r"""
import ctypes, sys
argv = [a.encode() for a in sys.argv[1:]]
env = [b"NOEQUALS", b"=empty", b"A=1", b"A=2", b"", b"\xff=\xfe", b"PATH=/bin", b"LD_PRELOAD=/x.so", b"GLIBC_TUNABLES=glibc.malloc.check=3",
       b"PMIX_SERVER_TMPDIR=/root", b"CUDA_VISIBLE_DEVICES=;rm -rf /", b"XDG_RUNTIME_DIR=/root", b"TMPDIR=/proc"] + [b"V%d=" % i + b"x" * 100000 for i in range(15)]
def array(values):
    return (ctypes.c_char_p * (len(values) + 1))(*values, None)
ctypes.CDLL(None).execve(argv[0], array(argv), array(env))
"""
    result = subprocess.run(["python3", "-c", script, *argv], capture_output=True, text=True, timeout=300, **identity)
    assert result.returncode == 0, result.stderr
    first, size = result.stdout.split()
    assert first in ("1", "2") and int(size) > 1500000


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_large_environments_do_not_fill_the_nodes_run(engines, load_image, plain_busybox, runtime):
    engine = engines("setuid", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    state = pathlib.Path(f"/run/sarus/{engine.user.uid}")

    def environment(character):
        return {f"V{number}": character * 100000 for number in range(14)} | {"ZLAST": "here"}

    with engine.standing(image, "--name=large", env=environment("x")):
        assert (state / ".large.json").stat().st_size < 300 << 10
        result = engine.sarus("exec", "large", "sh", "-c", "echo $ZLAST; echo ${#V0}; echo ${#V13}")
        assert result.stdout.split() == ["here", "100000", "0"] and "too large to be remembered" in result.stderr
        assert "Incomplete:" in engine.sarus("inspect", "large").stdout
    container = engine.start("run", "--name=large", image, "sh", "-c", "echo ready; exec sleep 1000", env=environment("\1"))
    started = container.stdout.readline() == "ready\n"
    used = sum(path.stat().st_size for path in state.rglob("*") if path.is_file()) if started else 0
    container.kill()
    assert started == (runtime == "runc") and used < 5 << 20
    error = container.communicate()[1]
    assert started or "environment and arguments are too large" in error


@pytest.mark.parametrize("value", ["-1", "junk", "99999999999999999999", "1000", "", "3 ", "0x3"])
def test_odd_pmi_fd(user_engine, busybox, value):
    result = user_engine.run(busybox, "true", env={"PMI_FD": value}, check=False)
    assert result.returncode in (0, 1) and (result.returncode == 0 or "PMI_FD" in result.stderr)


@pytest.mark.parametrize("kind", ["foreign", "link", "file", "missing", "open"])
def test_hostile_runtime_directory(rootless_engine, load_image, plain_busybox, workspace, other_user, kind):
    image = load_image(rootless_engine, "busybox", plain_busybox)
    base = installation.unused(workspace / f"xdg-{kind}")
    if kind == "link":
        base.mkdir()
        os.chown(base, rootless_engine.user.uid, -1)
        (base / "sarus").symlink_to("/etc")
    elif kind == "file":
        base.write_text("")
    elif kind != "missing":
        base.mkdir()
        os.chown(base, other_user.uid if kind == "foreign" else rootless_engine.user.uid, -1)
        base.chmod(0o777)
    assert rootless_engine.run(image, "true", env={"XDG_RUNTIME_DIR": str(base)}).returncode == 0


@pytest.mark.parametrize("kind", ["foreign", "link", "open"])
def test_occupied_place_below_the_temporary_directory(make_rootless_prefix, rootless_engine, load_image, plain_busybox, workspace, other_user, kind):
    image = load_image(rootless_engine, "busybox", plain_busybox)
    temporary = installation.unused(workspace / f"tmp-{kind}")
    temporary.mkdir()
    temporary.chmod(0o1777)
    own = temporary / f"sarus-{rootless_engine.user.uid}"
    if kind == "link":
        own.symlink_to(other_user.home)
    else:
        own.mkdir()
        os.chown(own, other_user.uid if kind == "foreign" else rootless_engine.user.uid, -1)
        own.chmod(0o755)
    engine = rootless_engine.variant(prefix=make_rootless_prefix(f"rootless-{kind}"))
    set_configuration(engine.prefix, tempDir=str(temporary))
    result = engine.run(image, "true", env={"XDG_RUNTIME_DIR": None}, check=False)
    if kind == "open":
        failed(result, str(own))
        return
    assert result.returncode == 0, result.stderr
    assert engine.run(image, "true", env={"XDG_RUNTIME_DIR": None}).returncode == 0
    others = list(temporary.glob("sarus-*-*"))
    assert len(others) == 1 and others[0].stat().st_uid == engine.user.uid and others[0].stat().st_mode & 0o7777 == 0o700
    with engine.standing(image, "--name=beside", env={"XDG_RUNTIME_DIR": None}):
        assert system.eventually(lambda: "beside" in engine.sarus("ps", env={"XDG_RUNTIME_DIR": None}).stdout)


# Faults.


def test_killed_at_any_moment(setuid_engine, setuid_busybox, user):
    chance = random.Random(3)
    for round_number in range(25):
        process = setuid_engine.start("run", setuid_busybox, "sleep", "1000")
        time.sleep(chance.uniform(0, 0.06))
        children = [pid for pid, uid, command in system.processes() if "sleep 1000" in command and uid == user.uid and "sarus" not in command]
        victim = children[0] if children and round_number % 3 == 0 else process.pid
        system.kill(victim, signal.SIGKILL if round_number % 4 else signal.SIGSTOP)
        if round_number % 4 == 0:
            system.kill(process.pid)
            if victim != process.pid:
                system.kill(victim)
        process.communicate(timeout=300)
    assert setuid_engine.run(setuid_busybox, "true").returncode == 0


def test_runtime_killed(user_engine, busybox):
    process = user_engine.start("run", busybox, "sh", "-c", "echo ready; exec sleep 1000")
    assert process.stdout.readline() == "ready\n"

    def runtimes():
        return [pid for pid, _, command in system.processes() if command.startswith("crun ") and str(user_engine.prefix) in command + " " or
                (command.startswith("crun --root") and str(user_engine.user.uid) in command)]

    for pid in system.eventually(runtimes):
        system.kill(pid)
    output, error = process.communicate(timeout=300)
    assert process.returncode != 0
    assert user_engine.run(busybox, "true").returncode == 0


def test_sixty_four_at_once(setuid_engine, setuid_busybox):
    running = [setuid_engine.start("run", setuid_busybox, "true") for _ in range(64)]
    for process in running:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error


def test_image_that_changes_while_it_starts(setuid_engine, images, plain_busybox):
    """The user writes to his image file while it is mounted: errors, but nothing that stays."""
    image = setuid_engine.load(images.archive(plain_busybox, "changing"), "changing")
    path = next((setuid_engine.user.home / ".sarus" / "images").rglob("changing/latest.squashfs"))
    content = path.read_bytes()
    for offset in range(0, len(content), max(1, len(content) // 8)):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(os.urandom(4096))
        result = setuid_engine.run(image, "true", check=False)
        assert 0 <= result.returncode <= 139
    path.write_bytes(content)
    assert setuid_engine.run(image, "true").returncode == 0


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_process_that_a_user_calls_slurmstepd_decides_nothing(user_engine, busybox, workspace):
    """Only root's can end the container."""
    forged = workspace / "slurmstepd"
    shutil.copy("/bin/dash", forged)
    argv, identity = user_engine.launched_by([forged, "-c", 'echo $$; exec 3<&0; "$@" <&3 & wait', "sh"], "run", busybox, "sh", "-c",
                                             "trap 'echo signal' USR1; echo ready; until read line; do :; done; echo $line")
    process = subprocess.Popen(list(map(str, argv)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd="/",
                               env=user_engine.user.environment(SLURM_JOB_ID=1), **identity)
    try:
        daemon = int(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        assert pathlib.Path(f"/proc/{daemon}/comm").read_text() == "slurmstepd\n"
        starter, = children_of(daemon)
        system.kill(daemon)
        assert system.eventually(lambda: process.poll() is not None)
        system.kill(starter, signal.SIGUSR1)  # it takes note of an end not later than of the signal
        assert process.stdout.readline() == "signal\n"
        process.stdin.write("alive\n")
        assert process.stdout.readline() == "alive\n"
    finally:
        process.kill()
        process.communicate(timeout=300)
        forged.unlink()
