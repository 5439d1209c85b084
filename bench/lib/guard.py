"""Runs a benchmark so that it ends in time, and leaves no process, mount, loop device, file or user behind however it ends.

run(main) calls main() in a child process, whose temporary files are in a directory of the benchmark's own. SIGTERM, SIGINT, SIGHUP and the
time limit raise SystemExit in it, so its own clean-up comes first. Then this process ends what has been started and removes what is left."""

import contextlib
import ctypes
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration"))
from helpers import system  # noqa: E402

# For names: the same number in all processes of a benchmark, also if it executes itself again.
NUMBER = int(os.environ.setdefault("SARUS_BENCH_NUMBER", str(os.getpid())))
ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
GRACE = 60  # seconds for the benchmark's own clean-up
PR_SET_PDEATHSIG, CLONE_NEWNS, MS_REC, MS_PRIVATE = 1, 0x20000, 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def limit(seconds=120):
    """Raises TimeoutError in what lasts longer. Not to be nested."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def sandbox(build_dir):
    """The program that makes a node look different (tests/tools/sandbox.cpp)."""
    subprocess.run(["cmake", "--build", str(build_dir), "--target", "sandbox"], check=True, stdout=subprocess.DEVNULL)
    return pathlib.Path(build_dir) / "tests" / "sandbox"


def first_line(process):
    """What a process prints first, without the end of the line. Raises TimeoutError if it prints nothing for long."""
    with limit():
        return process.stdout.readline().strip()


def _end(number, _):
    for each in ENDS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)


def _late(*_):
    raise TimeoutError("a measured command did not end in time")


def _measure(main, directories, user):
    for number in ENDS:
        signal.signal(number, _end)
    signal.signal(signal.SIGALRM, _late)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS | {signal.SIGCHLD})
    try:
        sys.exit(main())
    finally:
        if os.getppid() != NUMBER:  # the process that would remove the rest was killed
            _remove(directories, user)


def _make_mounts_private():
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "a private mount namespace")


def run(main, hours=2, directories=(), user=None, private_mounts=False):
    """Ends the process with the status of main(); 124: not within `hours`. `directories` and `user` (a name) are those that main() makes
    elsewhere. With `private_mounts`, what main() mounts is mounted for its processes only; others still need root to be unmounted."""
    directories = list(map(str, directories))
    if os.environ.get("SARUS_BENCH_GUARDED") == "yes":  # the benchmark has executed itself again
        _measure(main, [os.environ["TMPDIR"], *directories], user)
    os.environ["SARUS_BENCH_GUARDED"] = "yes"
    system.adopt_orphans()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS | {signal.SIGCHLD})
    scratch = tempfile.mkdtemp(prefix="bench-")
    os.chmod(scratch, 0o755)
    directories.append(scratch)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        tempfile.tempdir = os.environ["TMPDIR"] = scratch
        if private_mounts and os.getuid() == 0:
            _make_mounts_private()
        _measure(main, directories, user)
    try:
        status = _wait(child, hours * 3600)
    finally:
        _end_processes()
        _remove(directories, user)
    sys.exit(status)


def _wait(child, seconds):
    """The exit status of the benchmark."""
    deadline, verdict, number = time.monotonic() + seconds, None, signal.SIGTERM
    while True:
        info = signal.sigtimedwait(ENDS | {signal.SIGCHLD}, max(0, deadline - time.monotonic()))
        if info is not None and info.si_signo == signal.SIGCHLD:
            ended = dict(_reaped())
            if child in ended:
                return os.waitstatus_to_exitcode(ended[child]) % 256 if verdict is None else verdict
            continue
        if info is None and verdict is None:
            print(f"The benchmark did not end within {seconds / 3600:g} h.", file=sys.stderr)
        elif info is None:
            number = signal.SIGKILL
        verdict = verdict or (124 if info is None else 128 + info.si_signo)
        system.kill(child, number)
        deadline = time.monotonic() + GRACE


def _reaped():
    """(pid, status) of the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            yield ended


def _end_processes():
    """All that were started, and their children: orphans become those of this process."""
    def none_left(number=None):
        for _ in _reaped():
            pass
        left = system.descendants()
        for pid in left if number else ():
            system.kill(pid, number)
        return not left

    none_left(signal.SIGTERM)
    if not system.eventually(none_left, 10):
        system.eventually(lambda: none_left(signal.SIGKILL))


def _remove(directories, user):
    def is_inside(path):
        return any(path == directory or path.startswith(f"{directory}/") for directory in directories)

    for point in reversed([point for point in system.mounts() if is_inside(point)]):
        subprocess.run(["umount", "--lazy", point], check=False)
    for device, file in system.loop_devices().items():
        if is_inside(file):
            subprocess.run(["losetup", "--detach", f"/dev/{device}"], check=False)
    with contextlib.suppress(KeyError):
        if user:
            pwd.getpwnam(user)
            system.remove_user(system.User.named(user))
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
        if os.path.lexists(directory):
            print(f"Cannot remove {directory}", file=sys.stderr)


def _execute():
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":  # guard.py COMMAND...: for scripts
    run(_execute, private_mounts=True)
