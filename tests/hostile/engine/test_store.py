"""Files of a repository that are something else than they should be: one clear line, no hang, and the images stay."""

import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.asroot


@pytest.fixture
def repository(setuid_engine, load_image, plain_busybox):
    load_image(setuid_engine, "busybox", plain_busybox)
    directory = setuid_engine.user.home / ".sarus"
    kept = directory.with_name("kept")
    subprocess.run(["cp", "-a", directory, kept], check=True)
    yield directory
    shutil.rmtree(directory)
    kept.rename(directory)


def replace(path, kind, user):
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "large":
        path.touch()
        os.truncate(path, 3 << 30)
    else:
        path.symlink_to(kind)
    os.chown(path, user.uid, user.gid, follow_symlinks=False)


KINDS = ["fifo", "directory", "large", "/etc/shadow", "/dev/zero", "nowhere"]


@pytest.mark.parametrize("kind", KINDS)
def test_index_that_is_something_else(setuid_engine, repository, kind):
    replace(repository / "metadata.json", kind, setuid_engine.user)
    result = setuid_engine.sarus("images")
    assert result.returncode in (0, 1)
    assert result.returncode == 0 or ("metadata.json" in result.stderr and len(result.stderr.splitlines()) <= 2)
    assert setuid_engine.run("load/library/busybox", "true").returncode == 0  # which needs no index


@pytest.mark.parametrize("name", ["latest.meta", "latest.squashfs"])
@pytest.mark.parametrize("kind", KINDS)
def test_image_file_that_is_something_else(setuid_engine, repository, kind, name):
    replace(repository / "images" / "load" / "library" / "busybox" / name, kind, setuid_engine.user)
    result = setuid_engine.run("load/library/busybox", "true", check=False)
    assert result.returncode == 1 and result.stdout == "" and 1 <= len(result.stderr.splitlines()) <= 2, result
