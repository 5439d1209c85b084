"""What pull and load tell about work that takes its time: on a terminal, in a log, and with --quiet."""

import os
import pty
import re
import select
import subprocess
import time

import pytest
from helpers import system
from helpers.terminal import Terminal

LINE = r"Converting layers: \d+\.\d\d[KMG]?B of \d+\.\d\dMB, \d+\.\d\d[KMG]?B/s(, \d+ s left)?"


@pytest.fixture(scope="module")
def slow(make_any_prefix, any_engine, images):
    """(engine, archive): a conversion which takes long enough for a line in a log, however fast the processor is."""
    prefix = make_any_prefix("slow-conversion", mksquashfsOptions="-comp xz -processors 1 -mem 4M")
    engine = any_engine.variant(prefix=prefix)

    def archive(mebibytes):
        noise = os.urandom(mebibytes << 20)
        return images.archive(images.busybox(extra=lambda layer: layer.file("noise", noise)), f"noise-{mebibytes}")

    mebibytes = 16
    while not engine.sarus("load", archive(mebibytes), "progress:sample").stderr:
        mebibytes *= 2
    engine.sarus("rmi", "load/library/progress:sample")
    return engine, archive(2 * mebibytes)


@pytest.fixture
def image(slow):
    yield "progress:1"
    slow[0].sarus("rmi", "load/library/progress:1")


def test_a_log_gets_a_line_from_time_to_time(slow, image):
    engine, archive = slow

    def converted():
        begin = time.monotonic()
        result = engine.sarus("load", archive, image)
        assert result.returncode == 0, result.stderr
        return (result, time.monotonic() - begin) if result.stderr else None

    found = system.eventually(converted)  # the machine may be much faster than it was when it chose the archive
    assert found, "the conversion was too short for this test"
    result, seconds = found
    lines = result.stderr.splitlines()
    assert len(lines) <= seconds / 5 and all(re.fullmatch(LINE, line) for line in lines), lines
    assert "Converting" not in result.stdout and "\r" not in result.stderr


def test_a_quiet_conversion_says_nothing(slow, image):
    result = slow[0].sarus("load", "--quiet", slow[1], image)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def on_a_terminal(engine, *arguments):
    """(exit status, what a terminal was sent) of `sarus ARGUMENTS` whose standard error is one."""
    leader, follower = pty.openpty()
    process = engine.start(*arguments, stderr=follower, stdout=subprocess.DEVNULL, text=False, env={"TERM": "xterm"})
    os.close(follower)
    shown = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 120)
        try:
            part = os.read(leader, 65536) if ready else b""
        except OSError:  # nobody has the terminal any more
            part = b""
        if not part:
            break
        shown += part
    os.close(leader)
    return process.wait(300), shown.decode()


def test_a_terminal_gets_one_line_that_is_rewritten_and_wiped(slow, image):
    status, shown = on_a_terminal(slow[0], "load", slow[1], image)
    assert status == 0, shown[-500:]
    updates = re.findall(r"\r" + LINE.replace("(", "(?:") + r"\x1b\[K", shown)
    assert len(updates) > 5 and "\n" not in shown and shown.endswith("\r\x1b[K"), shown[-300:]


def terminal_of(engine, *arguments, columns=40, **variables):
    """What a command prints on a terminal, and its status."""
    argv, identity = engine.command(*arguments)
    session = Terminal(argv, identity, size=(24, columns), env=engine.user.environment(**{"TERM": "xterm", **variables}), cwd=engine.user.home)
    status = session.wait()
    session.close()
    return status, session.text


def test_lines_fit_into_a_narrow_terminal(slow, image):
    engine, archive = slow
    status, shown = terminal_of(engine, "load", archive, image)
    updates = re.findall(r"\rConverting layers[^\r\x1b]*", shown)
    assert status == 0 and len(updates) > 5 and max(map(len, updates)) <= 40, shown[-500:]
    definitions = engine.user.home / "definitions-in-a-directory-with-a-long-name"
    definitions.mkdir(exist_ok=True)
    (definitions / "an-environment-with-a-long-name.toml").write_text(f'image = "{image}"\n')
    for command in (["images"], ["df"], ["hooks"], ["edf", "list"]):
        status, shown = terminal_of(engine, *command, EDF_PATH=str(definitions))
        assert (status, max(map(len, shown.splitlines())) <= 40) == (0, True), shown
    assert "load/library/progress" in terminal_of(engine, "images", columns=200)[1]


def test_a_dumb_terminal_gets_lines_without_control(slow, image):
    status, shown = terminal_of(slow[0], "load", slow[1], image, columns=80, TERM="dumb")
    assert status == 0 and "\x1b" not in shown and "\r" not in shown.replace("\r\n", "\n"), shown[-500:]


def test_ctrl_c_wipes_the_line_and_says_that_nothing_was_stored(slow):
    engine, archive = slow
    argv, identity = engine.command("load", archive, "progress:3")
    session = Terminal(argv, identity, env=engine.user.environment(TERM="xterm"), cwd=engine.user.home)
    session.expect("Converting layers")
    session.type("\x03")
    assert session.wait() == 130
    last = session.read().split("\r")[-1]
    assert last.startswith("\x1b[K") and "Nothing was stored" in last and "Converting" not in last, last
    assert "progress" not in engine.sarus("images", "progress").stdout


def test_an_error_on_a_terminal_is_told_once_and_in_a_line_of_its_own(slow, workspace):
    engine, archive = slow
    damaged = workspace / "damaged-noise.tar"
    content = bytearray(archive.read_bytes())
    position = content.index(b"etc/os-release") + 400  # in the layer, behind all that is slow
    content[position] ^= 1
    damaged.write_bytes(content)
    status, shown = on_a_terminal(engine, "load", damaged, "progress:2")
    assert status == 1 and len([line for line in shown.replace("\r\n", "\n").splitlines() if "Failed" in line]) == 1, shown
