"""Directories that cannot be read while the real programs run, whichever listing it is: a command says that it has failed, or it does what it does
otherwise. It never takes the failure for the end of the directory."""

import re

import pytest

pytestmark = pytest.mark.asroot
PROGRAM = "ls / /dev /etc; env; cat /etc/passwd"


@pytest.fixture(params=["setuid-crun", "rootless-crun"])
def engine(request, engines):
    return engines(*request.param.split("-")).with_fuse()


@pytest.fixture
def image(engine, load_image, plain_busybox):
    return load_image(engine, "busybox", plain_busybox)


@pytest.fixture
def container(engine, image):
    process = engine.start("run", "--name=listed", image, "sh", "-c", "echo ready; read line")
    assert process.stdout.readline() == "ready\n"
    yield "listed"
    process.communicate("\n", timeout=300)


def traced(engine, directory, fault, *arguments):
    """What the command did, and how often each of its processes has listed something."""
    log = directory / "log"
    result = engine.variant(wrapper=("strace", "-f", "-qq", "--output", log, "--trace=getdents64", *fault)).sarus(*arguments)
    calls = re.findall(r"^(\d+) +getdents64", log.read_text(), re.M)
    return result, max((calls.count(process) for process in set(calls)), default=0)


def visible(text):
    """Without what differs from run to run."""
    return re.sub(r"\d+ (seconds?|minutes?) ago|HOSTNAME=.*|[0-9a-f]{12,}", "", text)


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["run", "exec", "ps", "images", "prune"])
def test_no_failure_is_the_end_of_a_directory(engine, image, container, tmp_path, command):
    arguments = {"run": ["run", image, "sh", "-c", PROGRAM], "exec": ["exec", container, "sh", "-c", PROGRAM], "ps": ["ps"], "images": ["images"],
                 "prune": ["prune", "--dry-run", "--older-than=1d"]}[command]
    expected, calls = traced(engine, tmp_path, [], *arguments)
    assert expected.returncode == 0, expected.stderr
    for number in range(1, calls + 1):
        result, _ = traced(engine, tmp_path, [f"--inject=getdents64:error=EIO:when={number}"], *arguments)
        if result.returncode == 0:
            assert visible(result.stdout) == visible(expected.stdout), (number, result.stderr)
        else:
            assert "Input/output error" in result.stderr or "input/output error" in result.stderr, (number, result.stderr)
