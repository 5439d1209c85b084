"""Hooks that talk too much, die, hang, or run while the container has a terminal: through the engine, with both OCI runtimes."""

import fcntl
import signal
import struct
import subprocess
import termios

import pytest
from helpers import system
from test_hooks import hooks, hooks_engine, image  # noqa: F401  fixtures
from test_kills import answering, children
from test_run import run_on_terminal

SYSTEM_PATH = ["PATH=/usr/bin:/bin"]
LINES = 40000  # of 100 characters: 4 MB
NOISE = f"seq {LINES} | sed 's/.*/{'x' * 99}/'"
# Where the engine's hooks write: the FIFO which the annotations name.
TO_LOG = """log=$(cat | tr ',' '\\n' | sed -n 's/.*"com.hooks.logging.stderrfd" *: *"\\([^"]*\\)".*/\\1/p')
[ -n "$log" ] || exit 9
"""


def test_hook_with_a_terminal(hooks, image):
    hooks.add_recorder("10-x", "createRuntime")
    hooks.add("20-says", hooks.program("says", f"#!/bin/sh\n{TO_LOG}echo 'from the hook' > $log\n"), ["createRuntime"], env=SYSTEM_PATH)
    status, text = run_on_terminal(hooks.engine, "run", "--tty", image, "sh", "-c", "test -t 0 && test -t 1 && echo on a terminal; exit 3")
    assert status == 3 and "on a terminal" in text and "from the hook" in text
    assert hooks.stages() == ["10-x:createRuntime"]


def test_failing_hook_with_a_terminal_is_named(hooks, image):
    program = hooks.program("broken", "#!/bin/sh\necho 'no such interconnect' >&2\nexit 3\n")
    hooks.add("10-broken", program, ["createRuntime"])
    status, text = run_on_terminal(hooks.engine, "run", "--tty", image, "echo", "started")
    assert status == 1 and "started" not in text
    assert f"The hook which failed is '10-broken' ({program}, createRuntime)\n" in text


STAGES = ["prestart", "createRuntime", "createContainer", "poststart", "poststop"]


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_hook_prints_goes_to_the_users_streams(hooks, image, stage):
    hooks.add("10-says", hooks.program("says", "#!/bin/sh\necho to 1\nprintf part\necho to 2 >&2\n"), [stage])
    result = hooks.engine.run(image, "true")
    assert (result.stdout.strip(), result.stderr.splitlines()[-1:]) == ("to 1\npart", ["to 2"])  # below what the engine may warn of


def test_what_a_hook_in_the_container_prints(hooks, hooks_engine, image):
    """runc keeps it to itself unless the hook fails."""
    hooks.add("10-says", "/bin/sh", ["startContainer"], args=["sh", "-c", "echo to 1; echo to 2 >&2"])
    result = hooks.engine.run(image, "true")
    said = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("to ")]
    assert said == (["to 1", "to 2"] if hooks_engine.runtime == "crun" else [])


@pytest.mark.parametrize("stage", STAGES)
def test_hook_runs_with_no_signal_blocked(hooks, image, stage):
    hooks.add("10-mask", "/bin/grep", [stage], args=["grep", "SigBlk", "/proc/self/status"])
    assert hooks.engine.output(image, "true").split() == ["SigBlk:", "0" * 16]


@pytest.mark.parametrize("stream", ["1", "2"])
def test_hook_that_writes_megabytes(hooks, image, stream):
    hooks.add("10-noisy", hooks.program("noisy", f"#!/bin/sh\ncat >/dev/null\n{NOISE} >&{stream}\n"), ["createRuntime"], env=SYSTEM_PATH)
    result = hooks.engine.run(image, "echo", "the container's own")
    assert "the container's own" in result.stdout.splitlines()
    assert (result.stdout if stream == "1" else result.stderr).count("x" * 99) == LINES


def test_everything_that_a_hook_writes_to_the_log_arrives(hooks, image):
    program = hooks.program("noisy", f"#!/bin/sh\n{TO_LOG}{NOISE} > $log\necho last > $log\n")
    hooks.add("10-noisy", program, ["createRuntime"], env=SYSTEM_PATH)
    lines = hooks.engine.run(image, "true").stderr.splitlines()
    assert [line for line in lines if line != "x" * 99 and "[WARN]" not in line] == ["last"]
    assert lines.count("x" * 99) == LINES


def unread(stream):
    return struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0]


def test_noisy_hook_whose_output_nobody_reads_can_be_ended(hooks, image):
    program = hooks.program("noisy", f"#!/bin/sh\n{TO_LOG}while :; do {NOISE}; done > $log\n")
    hooks.add("10-noisy", program, ["createRuntime"], env=SYSTEM_PATH, timeout=60)
    process = hooks.engine.start("run", image, "true")
    assert system.eventually(lambda: unread(process.stderr) > 60000), "a pipe has 64 KiB"
    process.kill()
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL


def test_noisy_precreate_hook(hooks, image):
    hooks.add("10-edit", hooks.program("edit", f"#!/bin/sh\n{NOISE} >&2\nexec cat\n"), ["precreate"], env=SYSTEM_PATH)
    result = hooks.engine.run(image, "echo", "started")
    assert result.stdout == "started\n"
    assert len(result.stderr) < 1 << 20, "what a hook says is cut"


def test_memory_for_what_a_hook_says_is_bounded(hooks, image):
    """More than a memory file may hold: the limit of file sizes counts for those, too."""
    text = "head -c 300000000 /dev/zero | tr '\\\\0' x"
    hooks.add("10-edit", hooks.program("edit", f"#!/bin/sh\n{text} >&2 && exec cat\n"), ["precreate"], env=SYSTEM_PATH)
    argv, identity = hooks.engine.launched_by(["prlimit", f"--fsize={100 << 20}:{100 << 20}"], "run", image, "echo", "started")
    result = subprocess.run(argv, env=hooks.engine.user.environment(), cwd=hooks.engine.user.home, capture_output=True, text=True, timeout=300,
                            **identity)
    assert result.stdout == "started\n", result.stderr[-300:]


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
def test_hook_that_dies_of_a_signal(hooks, image, name):
    program = hooks.program("dying", f"#!/bin/sh\ncat >/dev/null\nkill -{name} $$\n")
    hooks.add("10-dying", program, ["createRuntime"], env=SYSTEM_PATH)
    result = hooks.engine.run(image, "echo", "started", check=False)
    assert result.returncode != 0 and "started" not in result.stdout
    assert str(program) in result.stderr


def test_precreate_hook_that_dies_of_a_signal(hooks, image):
    hooks.add("10-dying", hooks.program("dying", "#!/bin/sh\nkill -SEGV $$\n"), ["precreate"])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1 and "'10-dying'" in result.stderr and "failed with signal 11" in result.stderr


def test_failing_hook_is_all_that_the_runtime_speaks_of(hooks, image):
    """crun's process in the container went on after the failure; in one start of eight it complained before crun ended it."""
    program = hooks.program("broken", "#!/bin/sh\necho 'no such interconnect' >&2\nexit 3\n")
    hooks.add("10-broken", program, ["createContainer"])
    for _ in range(25):
        result = hooks.engine.run(image, "true", check=False)
        assert result.returncode == 1 and "'10-broken'" in result.stderr
        assert "executable path not specified" not in result.stderr


@pytest.mark.parametrize("stage", ["createRuntime", "createContainer", "precreate"])
def test_hanging_hook_ends_with_its_timeout(hooks, image, stage):
    program = hooks.program("hanging", "#!/bin/sh\nexec sleep 3344\n")
    hooks.add("10-hanging", program, [stage], env=SYSTEM_PATH, timeout=1)
    result = hooks.engine.run(image, "echo", "started", check=False)
    assert result.returncode == 1 and "started" not in result.stdout
    assert str(program) in result.stderr
    assert system.eventually(lambda: not any(command == "sleep 3344" for _, _, command in system.processes()))


def test_program_that_a_killed_starter_never_saw_ends(hooks, hooks_engine, image):
    """The starter is stopped until the program runs, and killed together with the runtime: the janitor alone can find the program."""
    began, go = hooks.directory / "began", hooks.directory / "go"
    hooks.add("10-waits", hooks.program("waits", f"#!/bin/sh\n: > {began}\nuntil test -e {go}; do sleep 0.05; done\n"), ["createRuntime"], env=SYSTEM_PATH)
    process = hooks.engine.start("run", image, "sh", "-c", answering("sleep 3366"))
    assert system.eventually(began.exists)
    runtime = children(process.pid)[hooks_engine.runtime]
    system.kill(process.pid, signal.SIGSTOP)
    go.touch()
    assert process.stdout.readline() == "ready\n"
    system.kill(runtime, signal.SIGUSR1)
    assert process.stdout.readline() == "answers\n"
    system.kill(runtime)
    process.kill()
    process.communicate(timeout=300)
    assert system.eventually(lambda: not any(command == "sleep 3366" for _, _, command in system.processes()))


def test_start_with_a_hanging_hook_can_be_killed(hooks, image):
    """A hook without a time-out hangs: whoever kills the start gets rid of all of it."""
    hooks.add("10-hanging", hooks.program("hanging", "#!/bin/sh\nexec sleep 3355\n"), ["createRuntime"], env=SYSTEM_PATH)
    process = hooks.engine.start("run", image, "true")
    assert system.eventually(lambda: any(command == "sleep 3355" for _, _, command in system.processes()))
    process.kill()
    process.communicate(timeout=300)
    assert system.eventually(lambda: not any(command == "sleep 3355" for _, _, command in system.processes()))
