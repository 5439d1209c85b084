"""`sarus save`: the file is complete or not there, and nothing else is."""

import os
import signal
import subprocess

import pytest

# The image is opened first, then the directory. File systems such as NFS have no files without names (O_TMPFILE).
NO_NAMELESS_FILES = "openat:error=EOPNOTSUPP:when=2"


@pytest.fixture
def image(any_engine, load_image, images):
    return load_image(any_engine, "save", images.busybox(extra=lambda layer: layer.file("data", os.urandom(3 << 20))))


@pytest.fixture
def place(any_engine, open_directory):
    directory = open_directory / "place"
    directory.mkdir()
    return any_engine.user.own(directory)


def save(engine, image, place, *faults):
    """With faults of system calls that concern the stored image or the directory."""
    paths = engine.user.home / f".sarus/images/{image}/latest.squashfs", place
    words = [*(f"--trace-path={path}" for path in paths), *(f"--inject={fault}" for fault in faults)]
    return subprocess.run(["strace", "--quiet=all", "--output=/dev/null", *words, engine.program, "save", image, place / "saved"],
                          env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          **engine.user.identity())


@pytest.mark.parametrize("faults", [[], [NO_NAMELESS_FILES]])
def test_the_file_runs_and_is_the_only_one(any_engine, image, place, faults):
    result = save(any_engine, image, place, *faults)
    assert result.returncode == 0, result
    assert os.listdir(place) == ["saved"]
    assert any_engine.output(place / "saved", "echo", "runs") == "runs"


@pytest.mark.parametrize("number, faults", [(signal.SIGKILL, []), (signal.SIGINT, []), (signal.SIGINT, [NO_NAMELESS_FILES])])
def test_an_interrupted_command_leaves_nothing(any_engine, image, place, number, faults):
    result = save(any_engine, image, place, *faults, f"pread64:signal={number.name}:when=3")
    assert result.returncode in (-number, 128 + number), result
    assert os.listdir(place) == []


def test_an_existing_file_stays(any_engine, image, place):
    (place / "saved").write_text("mine")
    result = save(any_engine, image, place)
    assert result.returncode == 1 and "File exists" in result.stderr
    assert os.listdir(place) == ["saved"] and (place / "saved").read_text() == "mine"
