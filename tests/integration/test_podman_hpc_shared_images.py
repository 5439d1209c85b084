"""What sarus has converted, podman-hpc takes over, and the other way round: with the content of a conversion of its own."""

import pathlib
import shutil
import subprocess
import tempfile

import pytest
from helpers.images import Image, Layer, busybox_layer
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401
from test_podman_hpc_store import Store

pytestmark = pytest.mark.asroot

CAPABILITY = "\1\0\0\2\0\x20" + 14 * "\0"  # cap_net_raw, in effect
OWNERS = {"home/app": "1000:1001:750", "set-id": "7:8:6755", "bin": "0:0:755"}


def image_for(label):
    def extra(lowest):
        lowest.directory("home/app", 0o750, uid=1000, gid=1001).file("home/app/data", "mine\n", 0o640, uid=1000, gid=1001)
        lowest.file("set-id", "s", 0o6755, uid=7, gid=8).file("linked", "two names").hardlink("also-linked", "linked").symlink("dangling", "/no/such")
        lowest.file("attributes", "x", pax_headers={"SCHILY.xattr.user.color": "blue", "SCHILY.xattr.security.capability": CAPABILITY})
        lowest.file("gone", "g").file("label", label).file("large", b"0123456789abcdef" * 40000, mtime=1234567890)

    return Image([busybox_layer(extra=extra), Layer().file(".wh.gone").file("new", "n", uid=33, gid=33).bytes()], {"Env": ["PATH=/bin"]})


def listing(squashfs):
    """Names, types, modes, owners, sizes, times and contents below the root, whose mode Podman chooses."""
    def lines(*options):
        return subprocess.run(["unsquashfs", *options, squashfs], capture_output=True, text=True, check=True).stdout.splitlines()

    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["unsquashfs", "-q", "-n", "-d", f"{directory}/tree", squashfs], capture_output=True, check=True)
        sums = subprocess.run("find . -type f -exec md5sum {} + | sort; getfattr -dhR -m - . | sort", shell=True, cwd=f"{directory}/tree",
                              capture_output=True, text=True, check=True).stdout
    return [line for line in lines("-lln") if not line.endswith(" squashfs-root")], sums


class Both:
    """Both programs of one user."""

    def __init__(self, podman_hpc, engine):  # noqa: F811
        self.podman_hpc, self.engine, self.user = podman_hpc, engine, podman_hpc.user
        self.notes = self.user.home / ".cache/sarus/converted"
        self.number = 0

    def store(self):
        self.number += 1
        return Store(self.podman_hpc, self.podman_hpc.directory / f"shared-{self.number}")

    def forget(self):
        shutil.rmtree(self.notes)

    def sarus(self, *words):
        result = self.engine.sarus(*words, timeout=300)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def sarus_file(self, reference):
        found, = (path for path in self.user.home.parent.rglob("*.squashfs") if reference in str(path) and f"/{self.user.name}/" in str(path))
        return found


@pytest.fixture(scope="module")
def both(podman_hpc, engines):  # noqa: F811
    return Both(podman_hpc, engines("root" if podman_hpc.user.uid == 0 else "setuid", "crun"))


def squash_of(store):
    found, = (store.directory / "overlay/l").glob("*.squash")
    return found


def test_podman_hpc_takes_what_sarus_has_converted(both, registry):
    reference = registry.push(image_for("from sarus"), f"taken{both.user.uid}:1")
    assert "Taken from" not in both.sarus("pull", reference)
    source = both.sarus_file(f"taken{both.user.uid}")
    local, direct, fresh = both.store(), both.store(), both.store()
    assert f"Taken from {source} without conversion\n" in local("pull", "-q", reference, stream="err")
    assert f"Taken from {source} without conversion\n" in direct("migrate", f"docker://{reference}", stream="err")
    both.forget()
    assert "Taken from" not in fresh("migrate", f"docker://{reference}", stream="err")
    for store in (local, direct):
        store.check()
        assert listing(squash_of(store)) == listing(squash_of(fresh))
    assert b"zstd" in subprocess.run(["unsquashfs", "-s", squash_of(local)], capture_output=True, check=True).stdout
    local("rmi", reference)
    names = " ".join(f"/{name}" for name in OWNERS)
    assert local(*RUN, reference, "sh", "-c", f"stat -c %u:%g:%a {names}; cat /new").split("\n") == [*OWNERS.values(), "n"]


def test_sarus_takes_what_podman_hpc_has_converted(both, registry, images):
    image = image_for("from podman-hpc")
    reference, archive = registry.push(image, f"given{both.user.uid}:1"), images.archive(image, f"given{both.user.uid}")
    both.sarus("load", archive, "fresh:1")
    fresh = listing(both.sarus_file("/fresh/"))
    both.sarus("rmi", "load/library/fresh:1")
    both.forget()
    for number, words in enumerate((["migrate", f"docker://{reference}"], ["pull", "-q", reference])):
        store = both.store()
        assert "Taken from" not in store(*words, stream="err")
        taken = f"Taken from {squash_of(store)} without conversion\n"
        assert taken in both.sarus("load", archive, f"loaded{number}:1")
        file = both.sarus_file(f"/loaded{number}/")
        assert listing(file) == fresh
        loaded = file.read_bytes()
        both.sarus("rmi", f"load/library/loaded{number}:1")
        assert taken in both.sarus("pull", reference)
        assert both.sarus_file(f"given{both.user.uid}").read_bytes() == loaded
        both.sarus("images", "--verify")
        output = both.engine.output(reference, "sh", "-c", "stat -c %u:%a /set-id /home/app; cat /home/app/data")
        assert output == f"{both.user.uid}:6755\n{both.user.uid}:750\nmine"
        both.sarus("rmi", reference)
        store("rmi", "-f", reference, status=None)
        shutil.rmtree(both.notes)


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_options_of_the_site_ask_for_a_conversion(both, registry, make_setuid_prefix):
    reference = registry.push(image_for("with options"), f"options{both.user.uid}:1")
    both.store()("migrate", f"docker://{reference}")
    prefix = make_setuid_prefix(f"options{both.user.uid}", mksquashfsOptions="-comp gzip")
    result = both.engine.variant(prefix=pathlib.Path(prefix)).sarus("pull", reference)
    assert result.returncode == 0 and "Taken from" not in result.stderr
