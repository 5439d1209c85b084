"""sarus-image-builder against unpacked layers that it cannot read: files never vanish in silence."""

import os
import resource
import shutil
import subprocess

import pytest
from helpers import installation, system

BUILDER = installation.BUILD / "sarus-image-builder"
USER = 61234  # instead of root, who may read everything


@pytest.fixture
def convert(tmp_path):
    """convert(descriptors): the exit status and the messages for the directory `layer`, as an ordinary user."""
    system.open_to_all(tmp_path)
    builder = shutil.copy(BUILDER, tmp_path)
    (tmp_path / "layer").mkdir()
    (tmp_path / "out").mkdir()

    def run(descriptors=1024):
        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        identity = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
        if identity:
            subprocess.run(["chown", "-R", f"{USER}:{USER}", tmp_path / "layer", tmp_path / "out"], check=True)
        result = subprocess.run([builder, "build-directories", tmp_path / "out/image.squashfs", tmp_path / "layer"], capture_output=True, text=True,
                                preexec_fn=prepare, **identity)
        return result.returncode, result.stderr

    yield run
    subprocess.run(["rm", "-rf", tmp_path / "layer"], check=True)


@pytest.mark.parametrize("mode", [0o000, 0o200, 0o600])
def test_directory_that_the_user_cannot_read_is_an_error_with_its_path(convert, tmp_path, mode):
    closed = tmp_path / "layer/etc/closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("content")
    closed.chmod(mode)
    try:
        status, errors = convert()
    finally:
        closed.chmod(0o700)
    assert status == 1 and "layer/etc/closed" in errors and "Permission denied" in errors
    assert not (tmp_path / "out/image.squashfs").exists()


def test_tree_deeper_than_the_limit_of_descriptors_is_converted(convert, tmp_path):
    depth = 1100
    here = os.open(tmp_path / "layer", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
    assert convert() == (0, "")
    listing = subprocess.run(["unsquashfs", "-quiet", "-l", tmp_path / "out/image.squashfs"], check=True, capture_output=True, text=True).stdout
    assert "/d" * depth + "/file" in listing


def test_too_few_descriptors_are_an_error(convert, tmp_path):
    (tmp_path / "layer/d/d/d").mkdir(parents=True)
    for descriptors in range(4, 16):
        status, errors = convert(descriptors)
        if status == 0:
            listing = subprocess.run(["unsquashfs", "-quiet", "-l", tmp_path / "out/image.squashfs"], check=True, capture_output=True, text=True)
            assert "d/d/d\n" in listing.stdout
        else:
            assert "Too many open files" in errors
