"""File systems without flock(2), such as Lustre without the mount option: commands warn, name the file, and go on. File servers that leave a
request for a lock unanswered: a signal ends the wait."""

import signal
import subprocess

import pytest
from helpers import installation, system

pytestmark = pytest.mark.asroot


NO_LOG = ("--output", "/dev/null")


def tampered(fault, engine, *arguments, options=NO_LOG):
    """The command that runs `sarus ARGUMENTS` with a fault of a system call, as `--inject` of strace takes it."""
    return ["strace", "--quiet=all", "--follow-forks", "--user", engine.user.name, *map(str, options), "--trace", fault.split(":")[0],
            "--inject", fault, engine.program, *map(str, arguments)]


def run_tampered(fault, engine, *arguments, options=NO_LOG):
    command = tampered(fault, engine, *arguments, options=options)
    if engine.sandbox:
        command = [str(installation.SANDBOX), *engine.sandbox, "--", *command]
    return subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


def without_locks(engine, *arguments):
    return run_tampered("flock:error=ENOLCK", engine, *arguments)


def check(result, path):
    assert result.returncode == 0, result.stdout + result.stderr
    assert f'The filesystem of "{path}" has no file locks' in result.stderr
    return result


def test_commands_that_change_the_repository(setuid_engine, images, plain_busybox):
    repository = setuid_engine.user.home / ".sarus"
    check(without_locks(setuid_engine, "load", images.archive(plain_busybox, "unlocked"), "unlocked"), repository / "metadata.json")
    check(without_locks(setuid_engine, "tag", "load/library/unlocked", "unlocked"), repository / "metadata.json")
    listed = without_locks(setuid_engine, "images")
    assert (listed.returncode, listed.stderr) == (0, "") and "load/library/unlocked" in listed.stdout
    check(without_locks(setuid_engine, "prune"), repository / "cache/lock")
    check(without_locks(setuid_engine, "rmi", "unlocked"), repository / "metadata.json")
    check(without_locks(setuid_engine, "rmi", "load/library/unlocked"), repository / "metadata.json")


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_rootless_containers(engines, load_image, plain_busybox, temp_dir, runtime):
    """Mounted through FUSE (crun), and unpacked (runc: see FUSE in conftest.py)."""
    engine = engines("rootless", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    state = temp_dir / f"sarus-{engine.user.uid}" / "state"
    for _ in range(2):
        result = check(without_locks(engine, "run", "--name=unlocked", image, "echo", "runs"), state / ".unlocked.json")
        assert result.stdout == "runs\n"


def test_signal_ends_the_wait_for_a_file_server(setuid_engine, images, plain_busybox, tmp_path):
    """As with NFS, nothing but SIGKILL ends the process which has asked for the lock: it is stopped."""
    log = tmp_path / "log"
    archive = images.archive(plain_busybox, "unanswered")
    imports = setuid_engine.user.home / ".sarus/cache/ociImages"
    before = set(imports.glob("*"))
    command = tampered("flock:signal=SIGSTOP", setuid_engine, "load", archive, "unanswered", options=("--output", log))
    waiting = subprocess.Popen(command, env=setuid_engine.user.environment(), cwd=setuid_engine.user.home, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert system.eventually(lambda: log.exists() and "stopped by SIGSTOP" in log.read_text())
        for pid, _, name in system.processes():
            if name.startswith(setuid_engine.program):
                system.kill(pid, signal.SIGINT)
        _, messages = waiting.communicate(timeout=300)
    finally:
        for pid in system.descendants(waiting.pid):
            system.kill(pid)
    assert waiting.returncode == 130 and "Interrupted by signal 2" in messages, messages
    assert set(imports.iterdir()) <= before


def test_signal_ends_the_wait_for_a_file_server_that_restarts(setuid_engine, images, plain_busybox):
    """For a while it opens no file; with NFS of version 4, a signal interrupts that."""
    archive = images.archive(plain_busybox, "unanswered")
    options = ("--trace-path", setuid_engine.user.home / ".sarus/cache/lock", *NO_LOG)
    result = run_tampered("openat:error=EINTR:signal=SIGINT", setuid_engine, "load", archive, "unanswered", options=options)
    assert result.returncode == 130 and "Interrupted by signal 2" in result.stderr, result.stderr
