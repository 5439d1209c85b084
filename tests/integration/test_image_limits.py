"""What stops an image from being stored: full disks, quotas, and the limits of the site. The old image stays, and nothing else does."""

import os
import re
import subprocess

import pytest
from helpers.system import program

pytestmark = pytest.mark.asroot


@pytest.fixture
def filesystem(workspace, user, request):
    """filesystem(kind, size) -> mount point of a new filesystem (in a file) that belongs to the user."""
    mounted = []

    def make(kind, size):
        image = workspace / f"{request.node.name}.{kind}"
        with image.open("wb") as file:
            file.truncate(size)
        subprocess.run([program(f"mkfs.{kind}"), "-q", image], check=True, capture_output=True)
        mount = workspace / f"{request.node.name}-mount"
        mount.mkdir()
        if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True).returncode != 0:
            pytest.skip(f"this kernel cannot mount {kind}")
        mounted.append((mount, image))
        return mount

    yield make
    for mount, image in mounted:
        subprocess.run(["umount", mount], check=True)
        mount.rmdir()
        image.unlink()


def check_that_a_large_image_fails(engine, images, repository, message, hint):
    """`repository` has space for a small image, not for a large one of the same name."""
    small = images.archive(images.busybox(extra=lambda layer: layer.file("variant", "small")), "small")
    large = images.archive(images.busybox(extra=lambda layer: layer.file("noise", os.urandom(40 << 20))), "large")
    assert engine.sarus("load", small, "image").returncode == 0
    result = engine.sarus("load", large, "image", timeout=300)
    assert result.returncode == 1
    assert message in result.stderr.splitlines()[0] and hint in result.stderr, result.stderr
    assert engine.output("load/library/image", "cat", "/variant") == "small"
    files = [path for path in repository.rglob("*") if path.is_file()]
    assert not [path for path in files if re.search(r"-[a-z]{16}(\.json)?$", path.name)]
    assert sum(path.stat().st_size for path in files) < 4 << 20


def test_full_disk_while_loading(filesystem, make_setuid_prefix, setuid_engine, images, user):
    base = filesystem("ext4", 24 << 20)
    os.chown(base, user.uid, user.gid)
    engine = setuid_engine.variant(prefix=make_setuid_prefix("full-disk", localRepositoryBaseDir=str(base)))
    check_that_a_large_image_fails(engine, images, base / user.name / ".sarus", "Not enough space to convert the image", "Free some space")


def test_exceeded_quota_while_loading(filesystem, make_setuid_prefix, setuid_engine, images, user):
    disk = filesystem("btrfs", 256 << 20)
    base = disk / "limited"
    for command in (["subvolume", "create", base], ["quota", "enable", disk], ["qgroup", "limit", "24M", base]):
        subprocess.run(["btrfs", *command], check=True, capture_output=True)
    os.chown(base, user.uid, user.gid)
    engine = setuid_engine.variant(prefix=make_setuid_prefix("quota", localRepositoryBaseDir=str(base)))
    check_that_a_large_image_fails(engine, images, base / user.name / ".sarus", "Disk quota exceeded", "ask for a larger quota")


@pytest.mark.parametrize("limits, key, message", [({"maxUnpackedSize": 10_000_000}, "maxUnpackedSize", "unpack to more than"),
                                                  ({"maxEntries": 20}, "maxEntries", "more than 20 entries")])
def test_limits_of_the_site(make_setuid_prefix, setuid_engine, images, user, limits, key, message):
    image = images.archive(images.busybox(extra=lambda layer: layer.file("noise", os.urandom(12_000_000))), "limited")
    engine = setuid_engine.variant(prefix=make_setuid_prefix(f"limits-{key}", imageLimits=limits))
    result = engine.sarus("load", image, "limited")
    assert result.returncode == 1
    assert message in result.stderr.splitlines()[0] and f"imageLimits.{key}" in result.stderr, result.stderr
    assert not [path for path in (user.home / ".sarus/images").rglob("limited/*")]
    assert setuid_engine.sarus("load", image, "limited").returncode == 0
    assert setuid_engine.sarus("rmi", "load/library/limited").returncode == 0
