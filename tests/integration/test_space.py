"""A shortage of space is found before anything is downloaded or spooled."""

import gzip
import os
import re
import subprocess

import pytest
from helpers.faulty_registry import FaultyRegistry
from helpers.images import architecture
from helpers.registry import allow_plain_http

pytestmark = pytest.mark.asroot

MIB = 1 << 20


@pytest.fixture
def small_disk(workspace, user):
    """A mounted filesystem of 24 MiB which belongs to the user."""
    file, directory = workspace / "small-disk.img", workspace / "small-disk-space"
    with open(file, "wb") as image:
        image.truncate(24 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(file)], check=True)
    directory.mkdir()
    subprocess.run(["mount", "-o", "loop", str(file), str(directory)], check=True)
    os.chown(directory, user.uid, user.gid)
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True)
    directory.rmdir()
    file.unlink()


@pytest.fixture
def engine(setuid_engine, make_setuid_prefix, small_disk):
    """An engine whose repositories lie there."""
    prefix = setuid_engine.prefix.parent / "little-space"
    if not prefix.exists():
        make_setuid_prefix("little-space", localRepositoryBaseDir=str(small_disk))
    return setuid_engine.variant(prefix=prefix)


@pytest.fixture
def noise(images):
    """noise(size): a busybox image with so many bytes which do not compress."""
    return lambda size: images.busybox(extra=lambda layer: layer.file("noise", os.urandom(size)))


@pytest.fixture
def registry_of(tmp_path, user):
    servers = []

    def make(image):
        server = FaultyRegistry(image, tmp_path / "layout")
        servers.append((server, allow_plain_http(user, server)))
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(user.home / ".config")], check=True)
        return server

    yield make
    for server, file in servers:
        server.stop()
        file.unlink()


@pytest.mark.parametrize("multi_platform", [False, True])
def test_a_download_that_cannot_fit_is_not_begun(engine, small_disk, user, noise, registry_of, multi_platform):
    server = registry_of(noise(20 * MIB))
    if multi_platform:
        server.make_multi_platform({"os": "linux", "architecture": architecture()})
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 1
    failure, reason, advice = result.stderr.splitlines()
    assert failure == f"Failed to pull image '{server.reference}'"
    numbers = re.fullmatch(r"There is not enough space: at least (2\d\.\d\d)MB are needed \((2\d\.\d\d)MB for the download, (\d\.\d\d)MB for the "
                           r"image's file\), and (\d+\.\d\d)MB are available in " + re.escape(f'"{small_disk}/{user.name}/.sarus/cache".'), reason)
    assert numbers, reason
    needed, download, file, available = map(float, numbers.groups())
    assert available < needed and abs(download + file - needed) < 0.02 and download > 20
    assert "sarus prune" in advice and "localRepositoryBaseDir" in advice
    assert server.blob_requests() == []
    assert not list((small_disk / user.name / ".sarus/cache/ociImages").iterdir())


def test_what_fits_is_not_refused_and_what_is_there_does_not_count_again(engine, noise, registry_of):
    server = registry_of(noise(9 * MIB))
    assert engine.sarus("pull", server.reference).returncode == 0
    assert engine.sarus("rmi", server.reference).returncode == 0
    # Ten of some twenty megabytes are in the cache: a second download would not fit beside them, the image does.
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 0, result.stderr
    assert len([line for line in server.blob_requests() if server.blob in line]) == 1


def test_a_disk_that_is_full_during_download_and_conversion_is_an_error(engine, small_disk, user, noise, registry_of):
    """The image's file may be small, so this begins."""
    server = registry_of(noise(14 * MIB))
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 1 and server.blob_requests()
    assert len(result.stderr.splitlines()) <= 2 and "o space left on " in result.stderr, result.stderr
    repository = small_disk / user.name / ".sarus"
    assert not list((repository / "cache/ociImages").iterdir()) and not list(repository.rglob("*.squashfs*"))
    assert engine.sarus("prune").returncode == 0


def test_an_archive_is_converted_if_its_image_fits(engine, images):
    """The layers of archives are plain: zeros are as large as anything else."""
    archive = images.archive(images.busybox(extra=lambda layer: layer.file("zeros", bytes(100 * MIB))), "zeros")
    result = engine.sarus("load", archive, "zeros")
    assert result.returncode == 0, result.stderr
    assert engine.output("load/library/zeros", "stat", "-c", "%s", "/zeros") == str(100 * MIB)


def test_an_archive_whose_image_does_not_fit_is_refused(engine, small_disk, user, images, noise):
    archive = images.archive(noise(30 * MIB), "much-noise")
    result = engine.sarus("load", archive, "much-noise")
    assert result.returncode == 1
    assert re.search(r"Not enough space to convert the image: its file needs 3\d\.\d\dMB, and 2\d\.\d\dMB are available", result.stderr), result.stderr
    assert not list((small_disk / user.name / ".sarus").rglob("*.squashfs*"))


def test_an_archive_that_cannot_be_spooled_is_refused_at_once(setuid_engine, small_disk, images, noise, workspace):
    plain = images.archive(noise(30 * MIB), "much-noise")
    archive = workspace / "much-noise.tar.gz"
    archive.write_bytes(gzip.compress(plain.read_bytes(), 1))
    result = setuid_engine.sarus("load", "--temp-dir", small_disk, archive, "much-noise")
    failure, reason, advice = result.stderr.splitlines()
    assert (result.returncode, failure, advice) == (1, f"Failed to load image '{archive}'", "Choose another directory with --temp-dir.")
    assert re.fullmatch(r"There is not enough space: at least \d\d\.\d\dMB are needed for temporary files, and \d\d\.\d\dMB are available in .*",
                        reason)
    assert [path.name for path in small_disk.iterdir() if path.name != "lost+found"] == []
    assert not result.stdout


def test_an_archive_that_is_not_compressed_needs_no_space_for_temporary_files(setuid_engine, small_disk, images, noise):
    archive = images.archive(noise(30 * MIB), "much-noise")
    result = setuid_engine.sarus("load", "--temp-dir", small_disk, archive, "much-noise")
    assert result.returncode == 0, result.stderr
    assert setuid_engine.sarus("rmi", "load/library/much-noise").returncode == 0


def test_a_pipe_that_does_not_fit_into_the_temporary_directory_is_an_error(setuid_engine, small_disk, images, noise):
    data = images.archive(noise(30 * MIB), "much-noise").read_bytes()
    result = setuid_engine.sarus("load", "--temp-dir", small_disk, "-", "much-noise", input=data, text=False)
    assert result.returncode == 1
    assert b"No space left on device" in result.stderr and str(small_disk).encode() in result.stderr, result.stderr
    assert [path.name for path in small_disk.iterdir() if path.name != "lost+found"] == []


def test_what_frees_space_needs_none(engine, small_disk, user, images, noise):
    """Images, caches and containers of a file system on which not a byte is left."""
    kept = {"SARUS_CONTAINER_DIR": str(small_disk / user.name / "containers")}
    assert engine.sarus("load", images.archive(noise(1 * MIB), "full"), "full:1").returncode == 0
    (small_disk / user.name / "containers").mkdir(mode=0o700)
    user.own(small_disk / user.name / "containers")
    options = ["--name", "full", "--keep"]
    assert engine.sarus("run", *options, "load/library/full:1", "sh", "-c", "echo x > /kept", env=kept).returncode == 0
    rest = small_disk / user.name / "rest"
    fill = f"dd if=/dev/zero of={rest} bs=64k; while dd if=/dev/zero bs=1024 count=1 >> {rest}; do :; done"
    subprocess.run(["sh", "-c", fill], stderr=subprocess.DEVNULL, **user.identity())
    assert os.statvfs(small_disk).f_bavail == 0
    late = engine.sarus("run", "--name", "late", "--keep", "load/library/full:1", "true", env=kept)
    assert late.returncode == 1 and "No space left on device" in late.stderr and "late" not in engine.sarus("ps", "-a", env=kept).stdout, late
    for command in (["rm", "full"], ["rmi", "load/library/full:1"], ["prune"]):
        result = engine.sarus(*command, env=kept)
        assert result.returncode == 0, f"{command}: {result.stderr}"
    assert "full" not in engine.sarus("ps", "-a", env=kept).stdout + engine.sarus("images").stdout
    rest.unlink()
