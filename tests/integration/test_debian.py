"""A real distribution: Debian, made by debootstrap, pushed to a registry, pulled, listed, run and removed by every kind of user."""

import subprocess

import pytest
from helpers import system
from helpers.debian import mirror
from helpers.images import Image, Layer

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]


@pytest.fixture(scope="module")
def debian(workspace):
    """Debian 12 in one layer; in the layer above it a file is added, one is replaced and a directory is removed."""
    root = workspace / "debian"
    subprocess.run([system.program("debootstrap"), "--variant=minbase", "bookworm", str(root), mirror()],
                   check=True, capture_output=True, env={"PATH": system.PATH})
    archive = subprocess.run(["tar", "--numeric-owner", "--sort=name", "-C", str(root), "-c", "."], check=True, capture_output=True).stdout
    top = Layer().file("opt/site", "installed by the site\n").file("etc/motd", "replaced\n").file("usr/share/.wh.doc")
    return Image([archive, top.bytes()], {"Cmd": ["cat", "/etc/debian_version"], "Env": ["PATH=/usr/bin:/bin:/usr/sbin:/sbin"]}, compress=False)


@pytest.fixture(scope="module")
def reference(registry, debian):
    return registry.push(debian, "library/debian:bookworm")


def test_debian_is_pulled_listed_run_and_removed(engine, reference, registry):
    pulled = engine.sarus("pull", reference, timeout=300)
    assert pulled.returncode == 0, pulled.stdout + pulled.stderr
    row = engine.sarus("images", "--digests").stdout.splitlines()[-1].split()
    assert row[:2] == [f"{registry.host}/library/debian", "bookworm"] and row[2].startswith("sha256:")

    assert engine.output(reference).startswith("12.")
    assert engine.output(reference, "perl", "-e", "print join ' ', $<, $>, (getpwuid $<)[0]") == f"{engine.user.uid} {engine.user.uid} {engine.user.name}"
    assert engine.output(reference, "cat", "/opt/site", "/etc/motd") == "installed by the site\nreplaced"
    assert engine.run(reference, "ls", "/usr/share/doc", check=False).returncode == 2
    # Every file that the package manager knows is there and has the content that it should have.
    verified = engine.output(reference, "dpkg", "--verify", "libc6", "coreutils", "bash")
    assert [line for line in verified.splitlines() if "/usr/share/doc" not in line] == []

    removed = engine.sarus("rmi", reference)
    assert removed.returncode == 0 and "removed" in removed.stdout, removed.stderr
    gone = engine.run(reference, check=False)
    assert gone.returncode == 1 and f"Image {reference} is not available" in gone.stderr
