"""The standalone archive in virtual machines that have nothing else but busybox: with the kernels of Debian's releases, and with control groups of
version 1, of version 2, and of both."""

import platform
import shutil

import pytest
from helpers import vm
from helpers.debian import SUITES

pytestmark = [pytest.mark.asroot, pytest.mark.thorough, pytest.mark.timeout(3600)]
if platform.machine() != "x86_64":
    pytest.skip("the virtual machines of these tests are of the architecture x86_64", allow_module_level=True)

USER = 4711
# How the control groups of each machine are mounted; vm.START has mounted version 2.
CGROUPS = {
    "v2": "",
    "v1": """umount /sys/fs/cgroup
mount -t tmpfs -o mode=0755 tmpfs /sys/fs/cgroup
for controller in cpuset cpu memory devices freezer pids; do
    mkdir /sys/fs/cgroup/$controller
    mount -t cgroup -o $controller cgroup /sys/fs/cgroup/$controller || rmdir /sys/fs/cgroup/$controller
done
""",
}
CGROUPS["hybrid"] = CGROUPS["v1"] + """mkdir /sys/fs/cgroup/unified
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
"""
CHECKS = """
mkdir -p /home/alice /opt/sarus
chown alice /home/alice
as_alice() {
    su -s /bin/sh -c 'exec env -i HOME=/home/alice USER=alice PATH=/bin:/usr/bin "$0" "$@"' -- alice "$@"
}
check kernel uname -r
cd /opt/sarus && tar xzf /vm/archive.tar.gz
for prefix in /opt/sarus/*-Release; do
    check set-user-ID-configuration $prefix/configure_installation.sh
    check set-user-ID as_alice $prefix/share/sarus/check-node
done
mkdir /home/alice/sarus && cd /home/alice/sarus && tar xzf /vm/archive.tar.gz && chown -R alice /home/alice
for prefix in /home/alice/sarus/*-Release; do
    check rootless-configuration as_alice $prefix/configure_installation.sh --rootless
    check rootless as_alice $prefix/share/sarus/check-node
done
"""


def add_archive(root, archive):
    """What CHECKS need in the root file system of a machine."""
    with (root.directory / "etc/passwd").open("a") as passwd:
        passwd.write(f"alice:x:{USER}:{USER}::/home/alice:/bin/sh\n")
    shutil.copy(archive, root.directory / "vm/archive.tar.gz")
    root.write("/vm/common.sh", "")


def check_reports(found, mode):
    """Whether the archive works, by what CHECKS found."""
    assert found[f"{mode}-configuration"][0] == 0, found[f"{mode}-configuration"][1]
    status, report = found[mode]
    assert status in (0, 2) and "FAILED" not in report, report


@pytest.fixture(scope="module", params=SUITES)
def machines(request, archive, workspace):
    """{control groups: what the checks found}, with the kernel of that release."""
    directory = workspace / request.param
    directory.mkdir()
    kernel, modules = vm.debian_kernel(directory / "kernel", request.param)
    root = vm.Root(directory / "root")
    add_archive(root, archive)
    for name, mounts in CGROUPS.items():
        root.write(f"/vm/{name}.sh", mounts + CHECKS)
    initramfs = vm.make_initramfs(modules, directory / "initramfs")
    return vm.run(root, dict.fromkeys(CGROUPS, ""), kernel, initramfs, directory / "machines")


@pytest.mark.parametrize("mode", ["set-user-ID", "rootless"])
@pytest.mark.parametrize("cgroups", CGROUPS)
def test_a_node_with_this_kernel(machines, cgroups, mode):
    check_reports(machines[cgroups], mode)
