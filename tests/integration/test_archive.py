"""packaging/archive/build: the archive's programs need nothing of a node but its kernel."""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile

import pytest
from helpers import archive as archives
from helpers import system
from helpers.node import Node, busybox_root

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

USER = 4711


@pytest.fixture(scope="module")
def unpacked(archive, workspace):
    with tarfile.open(archive) as file:
        file.extractall(workspace / "unpacked")
    return next((workspace / "unpacked").iterdir())


def programs(prefix):
    return [path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]


def test_every_program_is_static_and_hardened(unpacked):
    found = {}
    for program in programs(unpacked):
        listing = subprocess.run(["readelf", "--wide", "--file-header", "--program-headers", program], check=True, capture_output=True, text=True).stdout
        found[program.name] = "position independent" if re.search(r"Type: +DYN", listing) else "at a fixed address"
        assert "INTERP" not in listing, f"{program} needs a dynamic linker"
        assert re.search(r"GNU_STACK .* RW ", listing), f"the stack of {program} is executable"
        assert "GNU_RELRO" in listing or program.name == "skopeo", program  # Go makes none
    others = {"skopeo", "dropbearmulti"}  # the compilers of Go and of musl make no others; both run as the user
    assert {name for name, kind in found.items() if kind != "position independent"} == others
    assert {"sarus", "podman-hpc", "crun", "tini-static-amd64", "fuse-overlayfs", "skopeo", "sarus-spank", "dropbearmulti"} <= found.keys()


def test_what_it_contains_is_listed_with_its_licence(unpacked):
    rows = [line.split("\t") for line in (unpacked / "share/sarus/components.tsv").read_text().splitlines()]
    assert {"crun", "tini", "dropbear", "libisal", "skopeo", "fuse-overlayfs", "libc6-dev", "libre2-dev"} <= {name for name, _ in rows}
    for name, version in rows:
        assert re.match(r"\d", version) and (unpacked / "share/sarus/licenses" / name).stat().st_size > 0


def test_its_manifest_lists_every_program(unpacked):
    rows = dict(reversed(line.split("  ")) for line in (unpacked / "share/sarus/manifest.sha256").read_text().splitlines())
    for program in programs(unpacked):
        assert rows[str(program.relative_to(unpacked))] == hashlib.sha256(program.read_bytes()).hexdigest()


def test_the_same_sources_give_the_same_bytes(archive, shared, workspace):
    assert archives.build(archives.fetch(shared / "sources"), workspace / "second").read_bytes() == archive.read_bytes()


def test_the_plugin_is_built_for_the_sites_slurm(unpacked, workspace):
    prefix = workspace / "with-plugin"
    shutil.copytree(unpacked, prefix, symlinks=True)
    built = subprocess.run([prefix / "share/sarus/slurm/build"], check=True, capture_output=True, text=True)
    assert "for Slurm 22.05" in built.stdout
    assert b"spank_sarus for Slurm 22.05" in (prefix / "lib/slurm/spank_sarus.so").read_bytes()


@pytest.fixture(scope="module")
def node(workspace):
    """A machine with a kernel and busybox."""
    root = busybox_root(workspace / "node", [("alice", USER)])
    (root / "home/alice").mkdir()
    os.chown(root / "home/alice", USER, USER)
    workspace.chmod(0o755)
    made = Node(root)
    yield made
    made.stop()


@pytest.mark.parametrize("mode", ["set-user-ID", "rootless"])
def test_a_node_without_a_c_library(node, archive, images, plain_busybox, mode):
    """The two commands of the documentation, and a container."""
    made = archives.Installed(node, archive, USER, "/home/alice", mode == "rootless")
    assert f"Found crun: {made.prefix}/bin/crun" in made.said and f"Found skopeo: {made.prefix}/bin/skopeo" in made.said
    assert made.configure("--check") == f"{made.prefix} is as it was installed\n"
    made.load(images.archive(plain_busybox, "busybox"), "busybox")
    assert made.sarus("run --init load/library/busybox id").stdout.startswith(f"uid={USER}(alice) gid={USER}(alice)")
    assert system.eventually(lambda: node.run(f"ls /run/sarus/{USER}", check=False).stdout == "")
    report = made.report()
    assert report.returncode == 2 and "FAILED" not in report.stdout, report.stdout
