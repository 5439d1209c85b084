"""Notes that lead to a squashfs file of another program, for an image that sarus has converted before: whatever they lead to, the image is right.

A file of sarus serves as that of podman-hpc; both have the same form.
"""

import os
import pathlib
import shutil

import pytest
from helpers.images import Image, Layer, busybox_layer


class Shared:
    def __init__(self, engine, archive, directory):
        self.engine, self.archive, self.directory = engine, archive, directory
        self.notes = engine.user.home / ".cache/sarus/converted"
        shutil.rmtree(self.notes, ignore_errors=True)
        self.load()
        note, = self.notes.iterdir()
        self.note = note.with_suffix(".podman-hpc")
        self.original = pathlib.Path(os.readlink(note)).read_bytes()

    def load(self, **environment):
        """Loads the image again, after removing it, and returns what the builder said."""
        self.engine.sarus("rmi", "load/library/hostile-share:1")
        result = self.engine.sarus("load", self.archive, "hostile-share:1", timeout=120, env=environment)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def file(self, content=None, mode=0o644):
        path = self.directory / "file.squash"
        path.unlink(missing_ok=True)
        path.write_bytes(self.original if content is None else content)
        path.chmod(mode)
        self.engine.user.own(path)
        self.point(path)
        return path

    def point(self, path):
        self.note.unlink(missing_ok=True)
        self.note.symlink_to(path)

    def stored(self):
        return next(path for path in self.engine.user.home.parent.rglob("hostile-share/1.squashfs") if f"/{self.engine.user.name}/" in str(path))


@pytest.fixture
def shared(any_engine, images, workspace):
    directory = workspace / "share"
    directory.mkdir(mode=0o755)
    any_engine.user.own(directory)
    image = Image([busybox_layer(), Layer().file("data", os.urandom(100000), uid=7, gid=8).bytes()], {"Env": ["PATH=/bin"]})
    yield Shared(any_engine, images.archive(image, "hostile-share"), directory)
    shutil.rmtree(directory)


def test_a_good_file_is_taken(shared):
    path = shared.file()
    assert f"Taken from {path} without conversion\n" in shared.load()
    assert shared.stored().read_bytes() == shared.original
    path.write_bytes(b"changed later")
    assert shared.stored().read_bytes() == shared.original, "the stored image is a copy"


def test_what_is_no_such_file_is_not(shared, images):
    good = shared.original
    middle = bytearray(good)
    middle[len(good) // 2] ^= 1
    other = Image([busybox_layer(), Layer().file("data", "other").bytes()], {"Env": ["PATH=/bin"]})
    assert shared.engine.sarus("load", images.archive(other, "hostile-other"), "hostile-other:1").returncode == 0
    replaced = next(shared.engine.user.home.parent.rglob("hostile-other/1.squashfs")).read_bytes()
    for content in (b"", b"hsqs", good[:90], good[:5000], good[: len(good) // 2], bytes(middle), replaced, bytes(len(good)), good + good):
        shared.file(content)
        assert "Taken from" not in shared.load()
        assert shared.stored().read_bytes() == good
    fifo = shared.directory / "fifo"
    os.mkfifo(fifo)
    shared.engine.user.own(fifo)
    for path in (fifo, shared.directory, shared.directory / "missing", "/dev/zero", "relative", shared.note):
        shared.point(path)
        assert "Taken from" not in shared.load()
    path = shared.file()
    (shared.directory / "link").symlink_to(path)
    shared.point(shared.directory / "link")
    assert "Taken from" not in shared.load()


@pytest.mark.asroot
def test_files_of_others_are_not(shared, other_user, root):
    path = shared.file(mode=0o664)
    assert "Taken from" not in shared.load()
    path.chmod(0o644)
    other_user.own(path)
    assert "Taken from" not in shared.load()
    root.own(path)
    assert "Taken from" in shared.load()


@pytest.mark.asroot
def test_root_in_the_home_of_a_user(shared, engines, root):
    """sudo may leave HOME: root neither follows notes of the user nor writes any."""
    path = shared.file()
    root.own(path)
    before = sorted(shared.notes.iterdir())
    engine = engines("root", "crun")
    result = engine.sarus("load", shared.archive, "hostile-root:1", env={"HOME": str(shared.engine.user.home)})
    assert result.returncode == 0 and "Taken from" not in result.stderr
    assert sorted(shared.notes.iterdir()) == before
    shutil.rmtree(shared.engine.user.home / ".cache")
    assert engine.sarus("load", shared.archive, "hostile-root:1", env={"HOME": str(shared.engine.user.home)}).returncode == 0
    assert not (shared.engine.user.home / ".cache").exists()


def test_notes_that_cannot_be_written(shared):
    cache = shared.engine.user.home / ".cache/sarus"
    shutil.rmtree(cache)
    cache.write_text("a file")
    assert "Taken from" not in shared.load()
    cache.unlink()
    assert "Taken from" not in shared.load(HOME="/nonexistent")
    assert shared.engine.output("load/library/hostile-share:1", "wc", "-c", "/data") == "100000 /data"
