"""Entries of a repository that claim to have the content of an image: nothing but an intact file of the caller gets another name."""

import json
import os
import re

import pytest

pytestmark = pytest.mark.asroot


@pytest.fixture
def claimed(setuid_engine, images):
    """(archive of an image, squashfs file and metadata of an entry which records its content)"""
    engine = setuid_engine
    image = images.busybox(extra=lambda layer: layer.file("variant", "as it should be"))
    archive = images.archive(image, "claimed")
    engine.load(archive, "claimed")
    directory = engine.user.home / ".sarus/images/load/library/claimed"
    yield archive, directory / "latest.squashfs", directory / "latest.meta"
    for name in ("claimed", "equal-to-claimed"):
        engine.sarus("rmi", f"load/library/{name}")


def lie_about(metadata, user, **members):
    stored = json.loads(metadata.read_text())
    stored["Store"].update(members)
    metadata.write_text(json.dumps(stored))
    os.chown(metadata, user.uid, user.gid)


def another_kind(file, kind, user):
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
        os.chown(file, user.uid, user.gid)
    elif kind == "directory":
        file.mkdir()
    else:
        file.symlink_to(kind)


def check_that_it_is_converted(engine, archive):
    result = engine.sarus("load", archive, "equal-to-claimed")
    assert result.returncode == 0 and "> making squashfs image" in result.stdout, result.stdout + result.stderr
    assert engine.output("load/library/equal-to-claimed", "cat", "/variant") == "as it should be"


@pytest.mark.parametrize("kind", ["fifo", "directory", "/etc/shadow", "/dev/zero", "nowhere"])
def test_entry_whose_file_is_something_else(setuid_engine, claimed, kind):
    archive, squashfs, _ = claimed
    another_kind(squashfs, kind, setuid_engine.user)
    try:
        check_that_it_is_converted(setuid_engine, archive)
    finally:
        if kind == "directory":
            squashfs.rmdir()


def test_entry_that_names_another_content(setuid_engine, claimed, images):
    archive, squashfs, metadata = claimed
    other = setuid_engine.load(images.archive(images.busybox(extra=lambda layer: layer.file("variant", "another")), "claimed-other"), "claimed-other")
    files = squashfs.parent.with_name("claimed-other")
    squashfs.unlink()
    os.link(files / "latest.squashfs", squashfs)  # with the digest of the image that it claims to be
    check_that_it_is_converted(setuid_engine, archive)
    setuid_engine.sarus("rmi", other)


@pytest.mark.parametrize("members", [{"squashfsDigest": ""}, {"squashfsDigest": "fsverity-sha256:" + 64 * "0"}, {"build": None}, {"build": {"options": 1}},
                                     {"squashfsSize": -1}, {"layersId": 1, "id": ""}])
def test_entry_whose_record_is_wrong(setuid_engine, claimed, members):
    archive, _, metadata = claimed
    lie_about(metadata, setuid_engine.user, **members)
    check_that_it_is_converted(setuid_engine, archive)


def test_file_whose_content_changes_with_the_same_size_and_time(setuid_engine, claimed):
    archive, squashfs, _ = claimed
    status = squashfs.stat()
    with open(squashfs, "r+b") as file:
        file.seek(status.st_size // 2)
        file.write(b"another!")
    os.utime(squashfs, ns=(status.st_atime_ns, status.st_mtime_ns))
    check_that_it_is_converted(setuid_engine, archive)
    assert re.search("load/library/equal-to-claimed:latest: intact", setuid_engine.sarus("images", "--verify").stdout)
