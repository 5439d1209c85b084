"""Stores, servers and moments that the mount program of podman-hpc must survive. It is called as containers/storage calls it."""

import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest
from helpers import squashed_store, system
from helpers.installation import SANDBOX

pytestmark = pytest.mark.asroot

only_users = pytest.mark.parametrize("node", ["user"], indirect=True)  # for root, the kernel mounts the file

FUSE_OVERLAYFS = "noacl"  # an option that the kernel's overlay does not have


class Node:
    """A mount namespace like that of a user's Podman, with a store of an image and directories of containers."""

    def __init__(self, user, directory, build_dir):
        self.user = user
        self.directory = directory
        self.program = directory / "bin/fuse-overlayfs-wrap"
        self.program.parent.mkdir()
        shutil.copy2(build_dir / "fuse-overlayfs-wrap", self.program)
        shutil.copy2(build_dir / "sarus-squashfs", self.program.parent)
        self.server = {"SQUASHFUSE_BIN": self.program.parent / "sarus-squashfs", "PODMANHPC_MOUNT_KEEP": "0"}  # root could do without
        self.graph = directory / "graph/overlay"
        self.store = directory / "squash/overlay"
        for made in (self.graph, self.store / "l", self.store / "top/diff", self.store / "top/empty", self.store / "top/merged"):
            made.mkdir(parents=True)
        (self.store / "top/link").write_text("LINK")
        self.link = self.store / "l/LINK"
        self.link.symlink_to("../top/diff")
        self.squash = self.store / "l/LINK.squash"
        with tempfile.TemporaryDirectory() as tree:
            pathlib.Path(tree).chmod(0o755)
            (pathlib.Path(tree) / "file").write_text("of the image\n")
            subprocess.run(["mksquashfs", tree, self.squash, "-quiet", "-no-progress", "-all-root"], check=True, stdout=subprocess.DEVNULL)
        self.own()

    def own(self):
        squashed_store.own(self.directory, self.user)

    def call(self, *options, container="one", program=None):
        """The command line for a container."""
        for name in ("diff", "work", "merged"):
            made = self.graph / container / name
            if not made.is_symlink():
                made.mkdir(parents=True, exist_ok=True)
        squashed_store.own(self.graph / container, self.user)
        text = ",".join([f"lowerdir={self.link}", f"upperdir={self.graph}/{container}/diff", f"workdir={self.graph}/{container}/work", *options])
        return f"{program or self.program} -o {text} {self.graph}/{container}/merged"

    def command(self, script, sandbox=("--fuse",)):
        inside = ["unshare", "--mount", *(["--map-root-user"] if self.user.uid else []), "sh", "-c", f"cd {self.graph}\n{script}"]
        return [str(SANDBOX), *sandbox, "--user", self.user.name, "--", *inside]

    def run(self, script, sandbox=("--fuse",), **variables):
        return subprocess.run(self.command(script, sandbox), capture_output=True, text=True, timeout=300, env=self.user.environment(**{**self.server, **variables}), cwd="/")

    def start(self, script):
        return subprocess.Popen(self.command(script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.user.environment(**self.server), cwd="/")

    def servers(self):
        return squashed_store.servers(self.directory)

    def wait_for_servers(self, number):
        assert system.eventually(lambda: len(self.servers()) == number), self.servers()

    def add_program(self, name, text):
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
        return path


@pytest.fixture(params=["root", "user"])
def node(request, build_dir):
    user = request.getfixturevalue(request.param)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))
    directory.chmod(0o755)
    yield Node(user, directory, build_dir)
    remaining = system.eventually(lambda: not squashed_store.servers(directory)) or squashed_store.servers(directory)
    shutil.rmtree(directory, ignore_errors=True)
    assert remaining is True, remaining


def fails(node, script, *expected, **keywords):
    """The script fails with this message, soon, and nothing is mounted on the directory of the container."""
    result = node.run(f"{script}; status=$?; grep ' {node.graph}/one/merged ' /proc/self/mountinfo; exit $status", **keywords)
    assert result.returncode not in (0, 124) and result.stdout == "", result
    for text in expected:
        assert text in result.stderr, result.stderr
    return result


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_the_image_is_there_and_can_be_changed(node, options):
    script = f"set -e; {node.call(*options)}; cd one/merged; cat file; rm file; echo new > file; cat file; cd ..; umount merged; ls diff"
    result = node.run(script)
    assert (result.returncode, result.stdout) == (0, "of the image\nnew\nfile\n"), result


def test_no_failure_to_list_a_directory_is_its_end(node):
    """Of the program itself; its servers go on."""
    def attempt(number):
        inject = f"--inject=getdents64:error=EIO:when={number}" if number else ""
        strace = f"strace -f --detach-on=execve -qq --output={node.directory}/log --trace=getdents64 {inject}"
        return node.run(f"{strace} {node.call()}; status=$?; ls one/merged; umount one/merged 2>/dev/null; exit $status")

    expected = attempt(0)
    assert (expected.returncode, expected.stdout) == (0, "file\n"), expected.stderr
    calls = (node.directory / "log").read_text().count("getdents64(")
    assert calls > 0
    for number in range(1, calls + 1):
        node.wait_for_servers(0)
        result = attempt(number)
        assert (result.returncode, result.stdout) == (0, "file\n") or (result.stdout == "" and "Input/output error" in result.stderr), (number, result)


def test_a_layer_that_is_only_read(node):
    merged = node.store / "top/merged"
    result = node.run(f"set -e; {node.program} -o lowerdir={node.store}/top/diff:{node.store}/top/empty {merged}; cat {merged}/file; touch {merged}/x")
    assert result.stdout == "of the image\n" and "Read-only file system" in result.stderr, result


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_the_kernel_mounts_files_of_root(node, options):
    """Although there is a server, and without a loop device that stays. A file that somebody else can change is not for the kernel's parser."""
    script = f"set -e; {node.call(*options)}; cat one/merged/file; grep -Hc {node.squash} /sys/block/loop*/loop/backing_file || true; umount one/merged"
    result = node.run(script, SQUASHFUSE_BIN=None)
    used = [line for line in result.stdout.splitlines()[1:] if line.endswith(":1")]
    assert result.stdout.startswith("of the image\n") and len(used) == (1 if node.user.uid == 0 else 0), result
    assert system.eventually(lambda: str(node.squash) not in system.loop_devices().values())
    node.squash.chmod(0o666)
    result = node.run(script, SQUASHFUSE_BIN=None)
    assert result.stdout.startswith("of the image\n") and ":1\n" not in result.stdout, result


@pytest.mark.parametrize("node", ["root"], indirect=True)
def test_the_kernel_mounts_no_file_that_a_server_calls_roots(node):
    """The store is on FUSE, and the kernel would wait for its server, which may be anybody's process."""
    outer, fuse = node.directory / "outer.squashfs", node.directory / "fuse"
    subprocess.run(["mksquashfs", node.directory / "squash", outer, "-quiet", "-no-progress", "-all-root"], check=True, stdout=subprocess.DEVNULL)
    fuse.mkdir()
    node.link = fuse / "overlay/l/LINK"
    script = f"""set -e; squashfuse {outer} {fuse}; {node.call()}; cat one/merged/file
cat /sys/block/loop*/loop/backing_file | grep -c overlay/l/LINK.squash || true; umount one/merged; umount --lazy {fuse}"""
    result = node.run(script, SQUASHFUSE_BIN=None)
    assert (result.returncode, result.stdout) == (0, "of the image\n0\n"), result


def loop_devices_of(node):
    return [name for name, file in system.loop_devices().items() if file == str(node.squash)]


def test_containers_of_a_file_share_the_kernels_mount(node):
    """Also after each other, for a while; and nobody but the file's users."""
    if node.user.uid != 0:
        return
    variables = {"SQUASHFUSE_BIN": None, "PODMANHPC_MOUNT_KEEP": "1000"}
    script = f"set -e; {node.call()}; cat one/merged/file; umount one/merged; {node.call(container='two')}; {node.call(container='three')}"
    result = node.run(f"{script}; cat two/merged/file three/merged/file; umount two/merged three/merged", **variables)
    assert (result.returncode, result.stdout) == (0, "of the image\n" * 3), result
    assert len(loop_devices_of(node)) == 1
    other = node.squash.with_name("OTHER.squash")
    shutil.copy2(node.squash, other)
    other.rename(node.squash)  # the same name, and another file
    result = node.run(f"{node.call()} && cat one/merged/file && umount one/merged", **{**variables, "PODMANHPC_MOUNT_KEEP": "0"})
    assert (result.returncode, result.stdout) == (0, "of the image\n"), result
    assert system.eventually(lambda: not loop_devices_of(node))  # that of the first file has none of this name any more
    [keeper] = node.servers()
    descriptors = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{keeper}/fd").iterdir()}
    assert len(descriptors) == 2 and "/dev/null" in descriptors, descriptors
    system.kill(keeper)
    assert system.eventually(lambda: not [file for file in system.loop_devices().values() if str(node.squash) in file])


class Sharing:
    """A shell in a user's namespaces whose containers share a server, for as long as a keeper lives."""

    def __init__(self, node, keep=1000):
        self.node = node
        script = 'while read -r line; do eval "$line"; echo "($?)"; done'
        self.shell = subprocess.Popen(node.command(script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env=node.user.environment(PODMANHPC_MOUNT_KEEP=keep), cwd="/")

    def __call__(self, script):
        """The output, with the status at its end."""
        self.shell.stdin.write(f"{script}\n")
        self.shell.stdin.flush()
        lines = []
        while not lines or not lines[-1].startswith("("):
            lines.append(self.shell.stdout.readline())
            assert lines[-1], lines
        return "".join(lines)

    def mounts(self, *containers, options=()):
        """Each one reads its own copy of the file and changes it."""
        calls = (f"{self.node.call(*options, container=name)} && cat {name}/merged/file && echo {name} > {name}/merged/file" for name in containers)
        assert self(" && ".join(calls)) == "of the image\n" * len(containers) + "(0)\n"

    def unmounts(self, *containers):
        assert self("umount " + " ".join(f"{name}/merged" for name in containers)) == "(0)\n"

    def running(self, program):
        return [pid for pid, name in self.node.servers().items() if name == program]

    def keepers(self):
        def is_ready(pid):
            return len(pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()) == 1

        return [pid for pid in self.running("fuse-overlayfs-wrap") if system.eventually(lambda: is_ready(pid))]


@pytest.fixture
def sharing(node):
    shell = Sharing(node)
    yield shell
    for pid in shell.running("fuse-overlayfs-wrap"):
        system.kill(pid)
    shell.shell.communicate("", timeout=300)


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
@only_users
def test_containers_of_a_user_share_a_server(sharing, options):
    """Also after each other, for a while; and nothing but the image is held for that."""
    sharing.mounts("one", options=options)
    [keeper] = sharing.keepers()
    sharing.unmounts("one")
    sharing.mounts("two", "three", options=options)
    [server] = sharing.running("sarus-squashfs")
    assert sharing.running("fuse-overlayfs-wrap") == [keeper]
    held = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{keeper}/fd").iterdir()}
    assert held == {"/dev/null", str(sharing.node.graph), str(sharing.node.squash), "anon_inode:[pidfd]"}, held
    sharing.unmounts("two", "three")
    system.kill(keeper)
    assert system.eventually(lambda: not pathlib.Path(f"/proc/{server}/exe").exists())


@only_users
def test_a_shared_server_ends_in_time(node):
    shell = Sharing(node, keep=1)
    shell.mounts("one")
    shell.unmounts("one")
    node.wait_for_servers(0)
    shell.shell.communicate("", timeout=300)


@only_users
def test_a_keeper_that_begins_late_holds_no_container(node):
    """It stops when it opens /dev/null, as the server does first."""
    log = node.directory / "log"
    result = node.run(f"""strace -f --detach-on=execve -q --output={log} --trace-path=/dev/null --inject=openat:signal=SIGSTOP {node.call()} &
stopped() {{ sed -n 's/ .*stopped by SIGSTOP.*//p' {log}; }}
until [ "$(stopped | wc -l)" = 1 ]; do sleep 0.02; done
kill -CONT $(stopped)
until [ "$(stopped | wc -l)" = 2 ] && grep -q 'exited with 0' {log}; do sleep 0.02; done
umount one/merged; echo $?; kill -CONT $(stopped | tail -n 1); wait""", SQUASHFUSE_BIN=None, PODMANHPC_MOUNT_KEEP="1")
    assert (result.returncode, result.stdout) == (0, "0\n"), result


@only_users
def test_another_file_has_another_server(sharing):
    sharing.mounts("one")
    assert sharing.keepers()
    other = sharing.node.squash.with_name("OTHER.squash")
    shutil.copy2(sharing.node.squash, other)
    sharing.node.user.own(other)
    other.rename(sharing.node.squash)
    sharing.mounts("two")
    assert len(sharing.running("sarus-squashfs")) == 2
    sharing.unmounts("one", "two")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@only_users
def test_a_shared_server_that_does_not_answer_gets_no_containers(sharing, number):
    sharing.mounts("one")
    [keeper], [server] = sharing.keepers(), sharing.running("sarus-squashfs")
    system.kill(server, number)
    assert system.eventually(lambda: system.state(server) in ("", "T", "Z"))
    sharing.mounts("two")
    sharing.unmounts("two")
    if number == signal.SIGKILL:
        assert system.eventually(lambda: not pathlib.Path(f"/proc/{keeper}/exe").exists())
    else:
        system.kill(server, signal.SIGCONT)
    sharing.unmounts("one")


@only_users
def test_what_a_cgroup_ends_belongs_to_its_containers_only(sharing):
    """A workload manager ends a job's processes by their cgroup."""
    group = pathlib.Path(next(path for path in ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup") if os.path.exists(f"{path}/cgroup.procs")),
                         f"test-{os.getpid()}")
    sharing.mounts("one")
    assert sharing.keepers()
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(sharing("echo $$").split()[0])
        sharing.mounts("two")
        assert len(sharing.running("sarus-squashfs")) == 2
        sharing.unmounts("one", "two")
    finally:
        for pid in (*sharing.node.servers(), sharing.shell.pid):
            (group.parent / "cgroup.procs").write_text(str(pid))
        assert system.eventually(lambda: not (group / "cgroup.procs").read_text().split())
        group.rmdir()


@pytest.mark.parametrize("offers", ["nothing", "another file", "another mount namespace"])
@only_users
def test_a_lock_of_somebody_else_is_no_keeper(sharing, offers):
    """The place of a lock is a hash: the file counts, and the server."""
    program = sharing.node.add_program("locker", f"""#!/usr/bin/env python3
import fcntl, os, time
directory = os.open("{sharing.node.graph}", os.O_RDONLY)
fcntl.lockf(directory, fcntl.LOCK_SH, 0)
if "{offers}" != "nothing":
    os.dup2(os.open("/etc/passwd" if "{offers}" == "another file" else "{sharing.node.squash}", os.O_RDONLY), 4)
    os.dup2(os.pidfd_open(os.getppid()), 5)
print("locked", flush=True)
time.sleep(1000)
""")
    # What is at the root of its mount namespace is no image.
    assert sharing(f"unshare --mount {program} > locked & locker=$!; until grep -s locked locked; do sleep 0.1; done") == "locked\n(0)\n"
    sharing.mounts("one", "two")
    sharing.unmounts("one", "two")
    sharing("kill $locker")


@only_users
def test_thirty_containers_that_share(node):
    """Whoever comes first has servers of their own; one of them is kept."""
    shell = Sharing(node, keep=3)
    names = [f"c{number}" for number in range(30)]
    assert shell("; ".join(f"{node.call(container=name)} & true" for name in names) + "; wait").endswith("(0)\n")
    assert shell("cat c*/merged/file | sort | uniq -c | tr -s ' '") == " 30 of the image\n(0)\n"
    assert system.eventually(lambda: len(shell.running("fuse-overlayfs-wrap")) <= 1)  # those that are not needed end by themselves
    shell.unmounts(*names)
    node.wait_for_servers(0)
    shell.shell.communicate("", timeout=300)


@only_users
def test_sharing_containers_killed_at_any_moment(node):
    shell = Sharing(node, keep=2)
    for number in range(20):
        name = f"c{number}"
        shell(f"{node.call(container=name)} & sleep {random.uniform(0, 0.04):.4f}; kill -9 $!; wait $!; umount -l {name}/merged 2>/dev/null")
    shell.mounts("last")
    shell.unmounts("last")
    node.wait_for_servers(0)
    shell.shell.communicate("", timeout=300)


@pytest.mark.parametrize("store", ["squashed", "plain"])
@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_devices_of_an_image_do_not_work(node, options, store):
    """For root they would be those of the node; user namespaces have none."""
    if node.user.uid == 0:
        if store == "plain":
            node.squash.unlink()
        script = "mknod one/merged/zero c 1 5; head -c 1 one/merged/zero | wc -c; umount one/merged"
        result = node.run(f"{node.call(*options)}; {script}; {node.call(*options, 'dev', container='two')}; {script.replace('one', 'two')}")
        assert result.stdout == "0\n1\n" and result.stderr.count("Permission denied") == 1, result


def other_squash(node):
    shutil.move(node.squash, node.directory / "other")
    node.squash.symlink_to(node.directory / "other")


def truncated(node):
    os.truncate(node.squash, 200)


@pytest.mark.parametrize("change, message", [
    (other_squash, "it is a symbolic link"),
    (lambda node: (node.squash.unlink(), os.mkfifo(node.squash)), ""),
    (lambda node: (node.squash.unlink(), node.squash.mkdir()), ""),
    (lambda node: (node.squash.unlink(), os.mknod(node.squash, stat.S_IFBLK | 0o666, os.makedev(7, 200))), ""),
    (lambda node: node.squash.write_bytes(b""), ""),
    (lambda node: node.squash.write_bytes(b"#!/bin/sh\n" * 100), ""),
    (truncated, ""),
    (lambda node: node.squash.write_bytes(node.squash.read_bytes()[:96] + b"\xff" * 8000), "")])
def test_a_squash_file_that_is_none(node, change, message):
    change(node)
    fails(node, f"timeout 20 {node.call()}", str(node.squash), message)


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
@pytest.mark.parametrize("place", ["/usr", "/", "nowhere"])
def test_links_of_a_store_hide_nothing_of_the_node(node, place, options):
    """An image over /usr would give its own programs to the mount program."""
    node.link.unlink()
    node.link.symlink_to(place)
    result = node.run(f"set -e; {node.call(*options)}; cat one/merged/file; test ! -e one/merged/bin; test -e /usr/bin/env -a -e /etc/passwd -a -c /dev/null")
    assert (result.returncode, result.stdout) == (0, "of the image\n"), result


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_the_target_is_no_link(node, options):
    outside = node.directory / "outside"
    outside.mkdir()
    (node.graph / "one").mkdir()
    (node.graph / "one/merged").symlink_to(outside)
    node.own()
    result = node.run(f"{node.call(*options)}; status=$?; grep ' {outside} ' /proc/self/mountinfo; exit $status")
    assert result.returncode == 1 and result.stdout == "" and "Not a directory" in result.stderr, result


SILENT = {"that takes nothing": "exec sleep 1000", "that answers nothing": "exec cat <&{fuse} >/dev/null"}


@pytest.mark.parametrize("kind", SILENT)
@pytest.mark.parametrize("variable, fuse, options", [("SQUASHFUSE_BIN", 4, []), ("FUSE_OVERLAYFS_BIN", 3, [FUSE_OVERLAYFS])])
def test_a_silent_server(node, kind, variable, fuse, options):
    server = node.add_program("server", f"#!/bin/sh\necho $$ > {node.directory}/pid\n{SILENT[kind].format(fuse=fuse)}\n")
    fails(node, node.call(*options), f"{server} did not answer within 5 s", **{variable: server, "PODMANHPC_MOUNT_TIMEOUT": "5"})
    assert not pathlib.Path(f"/proc/{(node.directory / 'pid').read_text().strip()}/exe").exists()


@pytest.mark.parametrize("text, message", [
    ("exit 3", "it ended without a message"), ("yes x | head -c 1000000", "x x x x"), ("echo a; printf 'b\\033[2J' >&2; kill -9 $$", "a b\\x1b[2J")])
def test_a_server_that_ends(node, text, message):
    server = node.add_program("server", f"#!/bin/sh\n{text}\n")
    result = fails(node, node.call(), message, SQUASHFUSE_BIN=server)
    assert len(result.stderr) < 6000
    fails(node, node.call(FUSE_OVERLAYFS), message, FUSE_OVERLAYFS_BIN=server)


def test_a_program_that_does_not_exist(node):
    fails(node, node.call(), "/nonexistent: No such file or directory", SQUASHFUSE_BIN="/nonexistent")
    fails(node, node.call(FUSE_OVERLAYFS), "/nonexistent: No such file or directory", FUSE_OVERLAYFS_BIN="/nonexistent")


def test_without_fuse(node):
    message = "/dev/fuse cannot be used" if node.user.uid else "the kernel refuses a FUSE mount"  # root can open what takes its place
    fails(node, node.call(), message, sandbox=("--no-fuse",))


@pytest.mark.parametrize("group", ["own", "root"])
def test_the_server_has_the_rights_of_the_files_owner(node, user, group):
    """The parser of a file that a user can change does not run as root, nor with root's group."""
    squashed_store.own(node.store, user)
    if group == "root":
        os.chown(node.squash, user.uid, 0)
    process = node.start(f"{node.call()} && echo mounted && read line")
    assert process.stdout.readline() == "mounted\n"
    [server] = node.servers()
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{server}/status").read_text().splitlines())
    assert status["Uid"].split() == [str(user.uid)] * 4 and status["NoNewPrivs"] == "1"
    if node.user.uid == 0:
        assert status["Gid"].split() == [str(user.gid if group == "own" else 65534)] * 4
        assert status["CapEff"] == status["CapPrm"] == "0" * 16 and status["Groups"].strip() == ""
    process.communicate("", timeout=300)


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_killed_at_any_moment(node, options):
    moments = [random.uniform(0, 0.04) for _ in range(20)]
    script = "".join(f"{node.call(*options, container=f'c{number}')} & sleep {moment:.4f}; kill -9 $!; wait $!; umount -l c{number}/merged 2>/dev/null\n"
                     for number, moment in enumerate(moments))
    process = node.start(f"{{ {script} }} >/dev/null 2>&1; echo done; read line")
    assert process.stdout.readline() == "done\n"
    node.wait_for_servers(0)
    process.communicate("", timeout=300)


@pytest.mark.parametrize("options", [[], [FUSE_OVERLAYFS]])
def test_thirty_at_once(node, options):
    """Each has a server of its own, which ends with it; none holds the files of another."""
    names = [f"c{number}" for number in range(30)]
    calls = "".join(f"{node.call(*options, container=name)} &\n" for name in names)
    first, second = (" ".join(f"{name}/merged" for name in half) for half in (names[:15], names[15:]))
    script = (f"{calls} wait; cat c*/merged/file | sort | uniq -c | tr -s ' '; read line\n"
              f"umount {first}; echo half; read line; cat c29/merged/file; umount {second}; echo none; read line")
    process = node.start(script)
    assert process.stdout.readline() == " 30 of the image\n"
    of_one = 2 if options else 1
    node.wait_for_servers(30 * of_one)
    for step, left in (("half\n", 15), ("of the image\nnone\n", 0)):
        process.stdin.write("\n")
        process.stdin.flush()
        assert "".join(process.stdout.readline() for _ in step.splitlines()) == step
        node.wait_for_servers(left * of_one)
    process.communicate("\n", timeout=300)


def test_killed_servers_take_nobody_along(node):
    process = node.start(f"{node.call()}; {node.call(container='two')}; echo mounted; read line; "
                         "cat two/merged/file; ls one/merged; umount one/merged two/merged; echo $?")
    assert process.stdout.readline() == "mounted\n"
    servers = node.servers()
    system.kill(min(servers, key=lambda pid: int(system.started(pid))))
    node.wait_for_servers(len(servers) - 1)
    out, _ = process.communicate("\n", timeout=300)
    assert out.startswith("of the image\n") and out.endswith("\n0\n"), out
