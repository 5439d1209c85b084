"""Machines of the architecture aarch64: the archive, the Debian packages and the unit tests, built on this machine by the preset of that name, and
used in a virtual machine."""

import platform
import shutil
import subprocess

import pytest
import test_kernels
from helpers import debian, vm
from helpers.archive import fetch
from helpers.installation import SOURCE
from helpers.node import Node

pytestmark = [pytest.mark.asroot, pytest.mark.thorough, pytest.mark.timeout(7200)]
if platform.machine() != "x86_64":
    pytest.skip("a cross compiler builds the programs of these tests", allow_module_level=True)

TREE = "/src/sarus"
BUILD = f"{TREE}/build-aarch64"
# What the unit tests are linked with, the programs that they call, and what they read.
PACKAGES = ["libc6", "libgcc-s1", "libstdc++6", "libarchive13", "libacl1", "liblzma5", "libxml2", "libicu72", "libnettle8", "libbz2-1.0", "liblz4-1",
            "libzstd1", "zlib1g", "libcrypt1", "libsquashfs1", "libisal2", "liblzo2-2", "libssl3", "libc-bin"]
READ = ["tests/data", "tests/fuzz", "etc/podman_hpc", "docs/man", "cmake"]


@pytest.fixture(scope="module")
def built(shared, bootstrapped):
    """The root directory of a machine that has built all of it, as the documentation says."""
    root = bootstrapped("cross", "bookworm", ["git", "ca-certificates", "ccache"])
    node = Node(root)
    tree = root / TREE.lstrip("/")
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "--quiet", f"file://{SOURCE}", tree], check=True)
    shutil.rmtree(root / "sources", ignore_errors=True)
    shutil.copytree(fetch(shared / "sources"), root / "sources")
    (root / "archive").mkdir(exist_ok=True)
    for command in ("scripts/install-dependencies --archive --aarch64",
                    "packaging/archive/build --architecture aarch64 --sources /sources /archive",
                    f"cmake --preset aarch64 -G Ninja -DENABLE_UNIT_TESTS=ON && cmake --build {BUILD}",
                    f"cd {BUILD} && cpack -G DEB"):
        node.run(f"git config --global safe.directory '*'; cd {TREE} && {command}", timeout=7200, HOME="/root", CMAKE_CXX_COMPILER_LAUNCHER="ccache")
    yield root
    node.stop()


def test_its_packages_are_for_arm64(built):
    packages = [*(built / BUILD.lstrip("/")).glob("*.deb")]
    assert {"sarus", "sarus-hooks", "podman-hpc"} <= {package.name.split("_")[0] for package in packages}
    for package in packages:
        assert subprocess.run(["dpkg-deb", "--field", package, "Architecture"], check=True, capture_output=True, text=True).stdout == "arm64\n"


@pytest.fixture(scope="module")
def machine(built, workspace):
    """What was found in the machine: {check: (exit status, output)}."""
    releases = debian.Releases(workspace)
    busybox = releases.packages("bookworm", "arm64", ["busybox-static"], workspace / "busybox") / "bin/busybox"
    kernel, modules = vm.debian_kernel(workspace / "kernel", architecture="arm64")
    root = vm.Root(workspace / "root", busybox)
    releases.packages("bookworm", "arm64", PACKAGES, root.directory)
    for name in (f"{BUILD}/tests", *(f"{TREE}/{name}" for name in READ)):
        shutil.copytree(built / name.lstrip("/"), root.directory / name.lstrip("/"), symlinks=True, ignore=shutil.ignore_patterns("CMakeFiles", "*.a"))
    test_kernels.add_archive(root, next((built / "archive").glob("*-aarch64.tar.gz")))
    root.write("/vm/aarch64.sh", test_kernels.CHECKS + f"""
check machine uname -m
for program in {BUILD}/tests/unit_*; do
    case $program in *_AsRoot|*.dir) ;; *) check "${{program##*/}}" as_alice "$program" --gtest_brief=1 ;; esac
done
""")
    initramfs = vm.make_initramfs(modules, workspace / "initramfs", busybox)
    return vm.run(root, {"aarch64": ""}, kernel, initramfs, workspace / "machine", "arm64", timeout=3600)["aarch64"]


def test_the_unit_tests_pass(machine):
    assert machine["machine"] == (0, "aarch64")
    found = {name: result for name, result in machine.items() if name.startswith("unit_")}
    assert len(found) > 20 and {name: output for name, (status, output) in found.items() if status != 0} == {}


@pytest.mark.parametrize("mode", ["set-user-ID", "rootless"])
def test_containers(machine, mode):
    test_kernels.check_reports(machine, mode)
