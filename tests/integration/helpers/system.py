"""Users, processes, mounts and loop devices of the node that the tests run on."""

import contextlib
import ctypes
import dataclasses
import fcntl
import grp
import os
import pathlib
import platform
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    home: pathlib.Path
    groups: tuple  # all gids, the primary one included

    def environment(self, **changes):
        """What a login gives to this user. A value of None drops the variable."""
        variables = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb"}
        variables.update(changes)
        return {name: str(value) for name, value in variables.items() if value is not None}

    def identity(self):
        """Keyword arguments of subprocess which make it run a command as this user; only root needs any."""
        return {"user": self.uid, "group": self.gid, "extra_groups": list(self.groups)} if os.getuid() == 0 else {}

    def own(self, path):
        """Gives a file or folder to this user."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)
        return path

    @staticmethod
    def named(name, home=None):
        entry = pwd.getpwnam(name)
        return User(name, entry.pw_uid, entry.pw_gid, pathlib.Path(home or entry.pw_dir), tuple(os.getgrouplist(name, entry.pw_gid)))


@contextlib.contextmanager
def _thread_ids(user, group, extra_groups):
    """The calling thread has these ids meanwhile, as the programs that it starts have for good: they start at exec with its effective ids. By
    system calls of their own: the C library's functions change all threads (nptl(7), "NPTL and process credential changes")."""
    setuid, setgid, setgroups = {"x86_64": (117, 119, 116), "aarch64": (147, 149, 159)}[platform.machine()]
    library = ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        if library.syscall(number, *arguments) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def set_groups(ids):
        call(setgroups, len(ids), (ctypes.c_uint * len(ids))(*ids))

    own = os.getgroups()
    try:
        set_groups(extra_groups)
        call(setgid, group, group, 0)
        call(setuid, user, user, 0)
        yield
    finally:
        call(setuid, 0, 0, 0)
        call(setgid, 0, 0, 0)
        set_groups(own)


def start(argv, user=None, **keywords):
    """subprocess.Popen(argv, **keywords), for other users at a quarter of its price: Python copies its own memory for a process that it gives
    other ids."""
    if user is None:
        return subprocess.Popen(argv, **keywords)
    with _thread_ids(user, keywords.pop("group"), keywords.pop("extra_groups")):
        return subprocess.Popen(argv, **keywords)


def run(argv, *, input=None, timeout=None, capture_output=False, **keywords):  # pylint: disable=redefined-builtin
    """subprocess.run() by start()."""
    if input is not None:
        keywords["stdin"] = subprocess.PIPE
    if capture_output:
        keywords |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(argv, **keywords) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)


# What a shell does until it gets SIGPWR, which it gets after all other signals that are sent with it.
UNTIL_SIGPWR = "trap 'echo caught; exit 5' PWR; echo ready; while :; do sleep 0.05; done"


def finish_with_sigpwr(process, numbers):
    """Sends these signals to a process and then SIGPWR: its outputs at its end."""
    try:
        for number in [*numbers, signal.SIGPWR]:
            process.send_signal(number)
        return process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()


def signal_set(numbers):
    """As in /proc/PID/status."""
    return sum(1 << (int(number) - 1) for number in numbers)


@contextlib.contextmanager
def only_one(directory):
    """One process at a time in this context."""
    lock = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def account_files():
    """Changes of users and groups: each of their programs gives up if another one holds the files for long."""
    return only_one("/etc")


# Before a command of root's: no account has subordinate ids then. Whoever changes accounts meanwhile renames a new file over the node's, which
# would take a mount on it away.
WITHOUT_SUBORDINATE_IDS = ("unshare", "--mount", "sh", "-c",
                           'mount -t tmpfs none /mnt && : > /mnt/subuid && mount -t overlay none -o lowerdir=/mnt:/etc /etc && exec "$@"', "sh")


def create_user(name, home_base, groups=()):
    """A new unprivileged user, a member of newly created `groups`."""
    options = ["--create-home", "--home-dir", f"{home_base}/{name}", "--shell", "/bin/sh", "--user-group"]
    if groups:
        options += ["--groups", ",".join(groups)]
    with account_files():
        for group in groups:
            subprocess.run(["groupadd", group], check=True)
        subprocess.run(["useradd", "--uid", str(_unused_uid()), *options, name], check=True)
    user = User.named(name)
    user.home.chmod(0o755)
    return user


def _unused_uid():
    """A uid of which the node remembers nothing: folders in /run outlive the users of whom they are."""
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    remembered = [pathlib.Path("/run/containers"), pathlib.Path("/run/user")]
    return next(uid for uid in range(20000 + os.getpid() % 20000, 60000)
                if uid not in taken and not any((folder / str(uid)).exists() for folder in remembered))


def remove_user(user, groups=()):
    """Removes what create_user made, with the user's remaining processes."""
    def removed():
        kill_processes_of(user.uid)  # while one ends, userdel(8) refuses
        return subprocess.run(["userdel", "--remove", user.name], capture_output=True, text=True).returncode in (0, 6, 12)  # no user, no home

    with account_files():
        assert eventually(removed), f"userdel cannot remove {user.name}"
        for group in groups:
            subprocess.run(["groupdel", group], check=True)


def _read(path):
    """The bytes of a small file below /proc; pathlib takes four times as long, and each test reads those of all processes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1 << 20)
    finally:
        os.close(file)


def processes(ignored=frozenset()):
    """(pid, uid, command line) of every living process but `ignored`; zombies are left out."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in ignored:
            continue
        try:
            status, command = _read(f"/proc/{entry}/status"), _read(f"/proc/{entry}/cmdline")
        except OSError:
            continue  # it has ended
        state, uid = (status.partition(b"\n" + field + b":")[2].split(None, 1)[0] for field in (b"State", b"Uid"))
        if state not in b"ZX":
            found.append((int(entry), int(uid), command.replace(b"\0", b" ").decode(errors="replace").strip()))
    return found


def pids():
    """The numbers of all processes."""
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}


def stat(pid):
    """The fields of /proc/PID/stat behind the name: state, parent, ... (proc(5)). Raises OSError if there is no such process."""
    return _read(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()


def adopt_orphans():
    """Makes this process the parent of every descendant whose own parent ends."""
    PR_SET_CHILD_SUBREAPER = 36
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(of=None):
    """The numbers of the processes which this one (or another one) has started, and which those have."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                children.setdefault(int(stat(entry)[1]), set()).add(int(entry))
    found, new = set(), {of or os.getpid()}
    while new:
        new = set().union(*(children.get(pid, ()) for pid in new))
        found |= new
    return found


def process_name(pid):
    """None if it has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def processes_of(user, among=None):
    """The numbers of a user's processes; those alone that the tests have started where they run as this user."""
    own = {pid for pid, uid, _ in (processes() if among is None else among) if uid == user.uid}
    return own & descendants() if own and os.getuid() != 0 else own


def namespaces(pids):
    """The namespaces of processes, as the kernel names them."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {os.readlink(entry) for entry in os.scandir(f"/proc/{pid}/ns")}
    return found


def members(wanted):
    """The processes of the machine with one of these namespaces, each with its start time: numbers of namespaces are used again."""
    return {(pid, started(pid)) for pid in os.listdir("/proc") if pid.isdigit() and namespaces([pid]) & wanted}


def alive(known):
    """Which of these processes, as members() gives them, have not ended."""
    return {(pid, start) for pid, start in known if start is not None and started(pid) == start}


def started(pid):
    """The start time of a process, or None."""
    try:
        return stat(pid)[19]
    except OSError:
        return None


def kill(pid, number=signal.SIGKILL):
    """Does nothing if the process has ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def state(pid):
    """Of the process: "T" when it has stopped, "Z" when nobody has waited for it yet; "" when there is none."""
    try:
        return stat(pid)[0]
    except OSError:
        return ""


def stop(pid):
    """Stops the process and waits for it: a signal reaches a busy process late."""
    os.kill(pid, signal.SIGSTOP)
    assert eventually(lambda: state(pid) == "T"), f"process {pid} does not stop"


def kill_processes_of(uid):
    for pid, owner, _ in processes():
        if owner == uid:
            kill(pid)


def mounts():
    """Mount points of the tests' own mount namespace."""
    return sorted(line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def cgroups():
    """The directories of all cgroups; others come and go at the same time."""
    return [pathlib.Path(directory) for directory, _, _ in os.walk("/sys/fs/cgroup")]


def is_empty_cgroup(path):
    try:
        return not (path / "cgroup.procs").read_text().strip()
    except OSError:  # no cgroup, or one that is gone meanwhile
        return False


def loop_devices():
    """{device name: backing file} of the loop devices in use."""
    found = {}
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found[path.parts[3]] = path.read_text().strip()
        except OSError:
            continue  # released in the meantime
    return found


def eventually(condition, timeout=120.0, interval=None):
    """The first true value of condition(), or the last value when the time is over. Asks less and less often unless there is an `interval`: many
    conditions look at all processes."""
    pause = interval or 0.02
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)
        pause = interval or min(1.1 * pause, 0.1)


def remains(left, timeout=120.0):
    """What left() gives in the end: nothing as soon as it gives nothing. An assertion that compares it shows the rest."""
    last = None

    def is_gone():
        nonlocal last
        last = left()
        return not last

    eventually(is_gone, timeout)
    return last


def free_port():
    """None that a connection gets by itself before the server listens (ip(7), "ip_local_port_range")."""
    first, _ = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    while True:
        with socket.socket() as server, contextlib.suppress(OSError):
            server.bind(("127.0.0.1", random.randrange(10_000, int(first))))
            return server.getsockname()[1]


def wait_for_port(port, process, timeout=300):
    def ready():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with status {process.returncode}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    if not eventually(ready, timeout):
        raise RuntimeError(f"{process.args[0]} does not listen on port {port}")


def program(name):
    """The path of a program that a test needs."""
    path = shutil.which(name, path=PATH)
    if path is None:
        raise RuntimeError(f"{name} is missing: run scripts/install-dependencies --test")
    return path


def group_names(gids):
    return [grp.getgrgid(gid).gr_name for gid in gids]
