"""Containers which are started from a terminal: what is typed reaches those who should get it, with and without the option --tty."""

import itertools
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest
from helpers import system
from helpers.terminal import Terminal

NUMBERS = itertools.count()
STREAMS = {"stdin": ["stdin"], "stdout": ["stdout", "stderr"], "all": ["stdin", "stdout", "stderr"]}


@pytest.fixture
def terminal(engine):
    """terminal(*arguments of sarus) -> Terminal; a launcher is a command that starts sarus."""
    opened = []

    def start(*arguments, launcher=(), streams=("stdin", "stdout", "stderr"), **keywords):
        argv, identity = engine.launched_by(launcher, *arguments)
        opened.append(Terminal(argv, identity, streams, env=engine.user.environment(), cwd=engine.user.home, **keywords))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


@pytest.fixture(params=["run", "exec"])
def begin(request, engine, busybox, terminal):
    """begin(*command) -> Terminal on which `sarus run` or `sarus exec`, without --tty, runs the command."""
    if request.param == "run":
        yield lambda *command, **keywords: terminal("run", busybox, *command, **keywords)
        return
    name = f"terminal-{os.getpid()}-{next(NUMBERS)}"
    container = engine.start("run", "--name", name, busybox, "sh", "-c", "echo ready; exec sleep 600")
    assert container.stdout.readline() == "ready\n"
    yield lambda *command, **keywords: terminal("exec", name, *command, **keywords)
    container.kill()
    container.communicate(timeout=300)


@pytest.mark.parametrize("streams", STREAMS)
def test_a_program_ends_whichever_stream_is_a_terminal(begin, streams):
    session = begin("sh", "-c", "echo started; exit 3", streams=STREAMS[streams])
    assert session.wait() == 3
    assert ("started" in session.text) == (streams != "stdin")


def test_what_is_typed_reaches_a_program_that_reads_lines(begin):
    session = begin("sh", "-c", 'echo ready; while read -r line; do echo "got <$line>"; done; exit 4')
    session.expect("ready")
    for line in ("one", "a b"):
        session.type(f"{line}\n")
        session.expect(f"got <{line}>")
    session.type("\x04")  # end of file
    assert session.wait() == 4


def test_interrupt_key_reaches_the_program_once(begin):
    session = begin("sh", "-c", "trap 'echo caught; n=x$n' INT; echo ready; until [ \"$n\" ]; do sleep 0.1; done; sleep 0.5; echo \"<$n>\"; exit 7")
    session.expect("ready")
    session.type("\x03")
    assert session.wait() == 7
    assert "<x>" in session.text


def test_sigterm_ends_it_soon(begin):
    session = begin("sh", "-c", "echo ready; exec sleep 600")
    session.expect("ready")
    session.process.send_signal(signal.SIGTERM)
    assert session.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("options", [[], ["--init"]])
def test_sighup_ends_a_container_with_a_terminal_of_its_own_soon(terminal, busybox, options):
    session = terminal("run", "-t", *options, busybox, "sh", "-c", "echo ready; exec sleep 600")
    session.expect("ready")
    session.process.send_signal(signal.SIGHUP)
    assert session.wait() == 128 + signal.SIGHUP


@pytest.mark.parametrize("command, number", [("echo ready; exec sleep 600", signal.SIGHUP),
                                             ("trap '' HUP; echo ready; while :; do sleep 0.1; done", signal.SIGKILL)],
                         ids=["ends", "ignores"])
def test_container_whose_terminal_vanishes_is_ended(engine, busybox, command, number):
    # The leader of the session, to which alone the kernel tells it, keeps it for itself, as `su - USER` may.
    argv, identity = engine.command("run", "-t", busybox, "sh", "-c", command)
    leader = ["sh", "-c", "trap : HUP; \"$@\"; exit $?", "sh"]
    session = Terminal([*leader, *argv], identity, env=engine.user.environment(), cwd=engine.user.home)
    session.expect("ready")
    os.close(session.master)
    assert session.process.wait(timeout=300) == 128 + number


@pytest.mark.parametrize("source", ["file", "pipe"])
@pytest.mark.parametrize("output", ["", "> output 2>&1; status=$?; cat output; exit $status"], ids=["stdin", "all"])
def test_container_with_a_terminal_of_its_own_reads_from_a_file_or_pipe(engine, busybox, source, output):
    make_input = "{ echo one; printf two; }"
    start = f'{make_input} | "$@"' if source == "pipe" else f'{make_input} > input; "$@" < input'
    command = "test -t 0 && while read -r line; do echo \"got <$line>\"; done; exit 5"
    argv, identity = engine.launched_by(["sh", "-c", f"{start} {output}", "sh"], "run", "-t", busybox, "sh", "-c", command)
    session = Terminal(argv, identity, env=engine.user.environment(), cwd=engine.user.home)
    assert session.wait() == 5
    assert "got <one>" in session.text
    session.close()


SIZES = "trap 'echo now $(stty size)' WINCH; sleep 600 & echo at first $(stty size); while :; do wait; done"
INSIDE_SCRIPT = ["sh", "-c", 'exec script --quiet --return --command "$*" /dev/null', "sh"]


@pytest.mark.parametrize("place", ["run", "exec", "nested"])
def test_the_size_of_the_terminal_is_the_users_at_the_start_and_after_each_change(engine, busybox, terminal, place):
    name = f"terminal-{os.getpid()}-{next(NUMBERS)}"
    if place == "exec":
        container = engine.start("run", "--name", name, busybox, "sh", "-c", "echo ready; exec sleep 600")
        assert container.stdout.readline() == "ready\n"
        session = terminal("exec", "-t", name, "sh", "-c", SIZES, size=(33, 77))
    elif place == "run":
        session = terminal("run", "-t", busybox, "sh", "-c", SIZES, size=(33, 77))
    else:
        session = terminal("run", "-t", busybox, "sh", "-c", shlex.quote(SIZES), launcher=INSIDE_SCRIPT, size=(33, 77))
    session.expect("33 77\n" if place == "exec" else "at first 33 77\n")  # crun may set that of a command just after its start
    for rows, columns in ((50, 132), (20, 60)):
        session.resize(rows, columns)
        session.expect(f"now {rows} {columns}\n")
    session.type("\x03")
    assert session.wait() == 128 + signal.SIGINT
    if place == "exec":
        container.kill()
        container.communicate(timeout=300)


@pytest.mark.parametrize("output", ["> output", "> output 2> /dev/null"], ids=["stdout", "both"])
def test_what_a_container_with_a_terminal_prints_goes_to_a_file(busybox, terminal, output):
    session = terminal("run", "-t", busybox, "sh", "-c", "test -t 1 && stty size; read -r line; echo \"got <$line>\"; exit 5",
                       launcher=["sh", "-c", f"\"$@\" {output}; status=$?; tr -d '\\r' < output; exit $status", "sh"], size=(33, 77))
    session.type("typed\n")
    assert session.wait() == 5
    assert "33 77\n" in session.text and "got <typed>\n" in session.text


def test_what_a_container_with_a_terminal_prints_reaches_a_slow_reader_completely(busybox, terminal):
    session = terminal("run", "-t", busybox, "sh", "-c", "exec seq 1 30000",
                       launcher=["sh", "-c", '"$@" | { read -r first; sleep 1; echo "lines: $(wc -l)"; }', "sh"])
    assert session.wait() == 0
    assert "lines: 29999\n" in session.text


def test_container_whose_output_nobody_reads_any_more_ends(busybox, terminal):
    session = terminal("run", "-t", busybox, "yes", launcher=["sh", "-c", '"$@" | head -n 1', "sh"])
    assert session.wait() == 0
    assert session.text.strip() == "y"


def test_the_users_terminal_has_its_settings_again(busybox, terminal):
    launcher = ["sh", "-c", 'before=$(stty -g); "$@"; echo "status $?"; test "$before" = "$(stty -g)" && echo unchanged', "sh"]
    session = terminal("run", "-t", busybox, "sh", "-c", "exit 3", launcher=launcher)
    assert session.wait() == 0 and session.text == "status 3\nunchanged\n"


class Shell(Terminal):
    """An interactive shell with job control."""

    def __init__(self, engine):
        argv, identity = engine.command()
        place = argv[:argv.index(engine.program)]
        super().__init__([*place, "bash", "--norc", "--noprofile", "-i"], identity, env=engine.user.environment(PS1="$ "), cwd=engine.user.home)
        self.program = shlex.quote(engine.program)

    def check_that_it_has_the_keyboard(self):
        mark = f"mark-{next(NUMBERS)}-"
        position = len(self.read())
        self.type(f"echo {mark}$((40 + 2))\n")
        return self.expect(f"{mark}42", after=position)


@pytest.fixture
def shell(engine):
    opened = Shell(engine)
    yield opened
    opened.close()


def test_stopped_container_leaves_the_keyboard_to_the_shell_and_goes_on(shell, busybox):
    shell.type(f"{shell.program} run {busybox} sh -c 'echo rea\"\"dy; cat; echo e\"\"nd'\n")
    shell.expect("ready")
    shell.type("first\n")
    shell.expect("first\nfirst\n")
    shell.type("\x1a")
    shell.expect("Stopped")
    for _ in range(3):
        shell.check_that_it_has_the_keyboard()
    position = len(shell.read())
    shell.type("fg\n")
    shell.expect("sarus run", after=position)
    shell.type("second\n")
    shell.expect("second\nsecond\n", after=position)
    shell.type("\x04")
    shell.expect("end", after=position)
    shell.check_that_it_has_the_keyboard()


def test_container_that_is_slow_to_stop_takes_nothing_that_is_typed_for_the_shell(shell, busybox):
    """Its program runs at the lowest priority, on a processor that is busy."""
    shell.type(f"{shell.program} run {busybox} sh -c 'echo rea\"\"dy; cat'\n")
    shell.expect("ready")
    reader, = system.eventually(lambda: [pid for pid, _, command in system.processes() if command.strip() == "cat" and pid in system.descendants(shell.process.pid)])
    cpu = min(os.sched_getaffinity(0))
    hogs = [subprocess.Popen(["taskset", "--cpu-list", str(cpu), "sh", "-c", "while :; do :; done"]) for _ in range(20)]
    try:
        os.sched_setaffinity(reader, {cpu})
        os.sched_setscheduler(reader, os.SCHED_IDLE, os.sched_param(0))
        shell.type("\x1a")
        shell.expect("Stopped")
        shell.check_that_it_has_the_keyboard()
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def test_container_in_the_background_takes_nothing_that_is_typed_for_the_shell(shell, busybox):
    position = shell.check_that_it_has_the_keyboard()
    shell.type(f"{shell.program} run {busybox} sh -c 'echo rea\"\"dy; cat; echo inp\"\"ut over; sleep 1; echo d\"\"one' &\n")
    shell.expect("ready", after=position)
    shell.expect("input over", after=position)
    for _ in range(3):
        shell.check_that_it_has_the_keyboard()
    shell.expect("done", after=position)
    shell.type("wait %1; echo status:$?\n")
    shell.expect("status:0", after=position)


def test_container_with_a_terminal_waits_in_the_background_for_the_keyboard(shell, busybox):
    shell.type("set -b\n")  # it reports at once
    position = shell.check_that_it_has_the_keyboard()
    shell.type(f"{shell.program} run -t {busybox} sh -c 'echo rea\"\"dy; read -r line; echo \"got <$line>\"' &\n")
    shell.expect("Stopped", after=position)
    position = shell.check_that_it_has_the_keyboard()
    shell.type("fg\n")
    shell.expect("ready\n", after=position)
    shell.type("typed\n")
    position = shell.expect("got <typed>\n", after=position)
    shell.expect("$ ", after=position)  # until then, what is typed is the container's
    shell.check_that_it_has_the_keyboard()


def test_the_prompts_of_the_guide_say_where_one_is(terminal, busybox):
    guide = (pathlib.Path(__file__).parents[2] / "docs/user/guide.md").read_text()
    prompt = shlex.split(re.search(r"`sarus shell -e (PS1='.*') IMAGE`", guide)[1])[0]
    session = terminal("shell", "-e", prompt, busybox)
    session.expect("[sarus] ")
    session.type("exit 3\n")
    assert session.wait() == 3
    line = re.search(r"`(\[ -z \"\$SARUS_CONTAINER\" \] .*\")`", guide)[1]
    session = terminal("run", busybox, "sh", "-c", f"PS1='> '; {line}; echo \"$PS1\"")
    assert session.wait() == 0 and f"[{busybox}" in session.text, session.text
