"""sarus-image-builder against unpacked layers that it cannot read: files never vanish in silence."""

import os
import resource
import shutil
import subprocess

import pytest
from helpers import installation

BUILDER = installation.BUILD / "sarus-image-builder"
USER = 61234  # instead of root, who may read everything


@pytest.fixture
def convert(open_directory):
    """convert(descriptors): the exit status and the messages for the directory `layer`, as an ordinary user."""
    builder = shutil.copy(BUILDER, open_directory)
    (open_directory / "layer").mkdir()
    (open_directory / "out").mkdir()

    def run(descriptors=1024):
        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        identity = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
        if identity:
            subprocess.run(["chown", "-R", f"{USER}:{USER}", open_directory / "layer", open_directory / "out"], check=True)
        result = subprocess.run([builder, "build-directories", open_directory / "out/image.squashfs", open_directory / "layer"], capture_output=True, text=True,
                                preexec_fn=prepare, **identity)
        return result.returncode, result.stderr

    yield run
    subprocess.run(["rm", "-rf", open_directory / "layer"], check=True)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o600])
def test_directory_that_the_user_cannot_read_is_an_error_with_its_path(convert, open_directory, mode):
    closed = open_directory / "layer/etc/closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("content")
    closed.chmod(mode)
    try:
        status, errors = convert()
    finally:
        closed.chmod(0o700)
    assert status == 1 and "layer/etc/closed" in errors and "Permission denied" in errors
    assert not (open_directory / "out/image.squashfs").exists()


def test_tree_deeper_than_the_limit_of_descriptors_is_converted(convert, open_directory):
    depth = 1100
    here = os.open(open_directory / "layer", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    assert convert() == (0, "")
    listing = subprocess.run(["unsquashfs", "-quiet", "-l", open_directory / "out/image.squashfs"], check=True, capture_output=True, text=True).stdout
    assert "/d" * depth + "/file" in listing


def test_too_few_descriptors_are_an_error(convert, open_directory):
    (open_directory / "layer/d/d/d").mkdir(parents=True)
    for descriptors in range(4, 16):
        status, errors = convert(descriptors)
        if status == 0:
            listing = subprocess.run(["unsquashfs", "-quiet", "-l", open_directory / "out/image.squashfs"], check=True, capture_output=True, text=True)
            assert "d/d/d\n" in listing.stdout
        else:
            assert "Too many open files" in errors
