"""Every shipped hook that mounts or creates something, over every way to name the places of the OCI runtime and of the kernel: none is ever
covered. The runtime opens the container's /dev/null as root after the hooks; a user's file in its place would be opened instead.

A container starts once for each runtime. Its only hook tries all hooks, each in a copy of the mounts. timestamp, pce, sync and
stdout_stderr_test touch no root filesystem."""

import dataclasses
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_library
from helpers.hook_bundle import LIBC, LINKER, Bundle

pytestmark = pytest.mark.asroot
DRIVER = pathlib.Path(__file__).with_name("try_destinations.py")
STAND_IN = pathlib.Path(hook_bundle.__file__).with_name("mps_control.py")
USER = 61234

# Links of the image, by the name that the host has, too.
LINKS = {"root": "/", "up": "../../../../../../../../..", "dev": "/dev", "chain": "dev", "dots": "/dev/../dev/.", "pts": "/dev/pts", "shm": "/dev/shm", "mqueue": "/dev/mqueue",
         "proc": "/proc", "self": "/proc/self", "one": "/proc/1", "procsys": "/proc/sys", "kernel": "/proc/sys/kernel", "sys": "/sys", "cgroup": "/sys/fs/cgroup",
         "cgroups": "/sys/fs", "parent": "/parent", "deep": "/parent/deep", "other": "/parent/deep/proc", "null": "/dev/null", "zero": "chain/zero", "tty": "/dev/tty",
         "hostname": "/proc/sys/kernel/hostname"}
FILES = {"null", "zero", "tty", "hostname"}
SPELLINGS = {
    "directory": ["/", "/..", "/usr/..", "/dev", "//dev/.", "/usr/../dev/", "/dev/pts", "/dev/shm", "/dev/mqueue", "/proc", "/proc/self", "/proc/1", "/proc/sys",
                  "/proc/sys/kernel", "/sys", "/sys/kernel", "/sys/fs", "/sys/fs/cgroup", "/parent", "/parent/deep", "/parent/deep/proc"],
    "file": ["/dev/null", "//dev/./zero", "/usr/../dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts/ptmx", "/dev/fd", "/dev/stdin", "/dev/core",
             "/proc/sys/kernel/hostname", "/proc/1/environ", "/proc/new", "/sys/new"],
}
# A node with an AMD GPU: its device files are harmless ones.
AMD_NODE = """
set -e
new=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs "$new"
mknod -m 666 "$new/null" c 1 3; mknod -m 666 "$new/kfd" c 1 5; mkdir -p "$new/dri/by-path"
for name in card renderD128; do mknod -m 666 "$new/dri/$name" c 1 5; done; mv "$new/dri/card" "$new/dri/card0"
ln -s ../card0 "$new/dri/by-path/pci-0-card"; ln -s ../renderD128 "$new/dri/by-path/pci-0-render"
mount --move "$new" /dev; rmdir "$new"; mount -t tmpfs tmpfs /sys/class
"""


@dataclasses.dataclass
class Case:
    hook: str
    destination: str
    arguments: list = dataclasses.field(default_factory=list)
    variables: dict = dataclasses.field(default_factory=dict)  # the hook's
    environment: list = dataclasses.field(default_factory=list)  # the container's
    links: dict = dataclasses.field(default_factory=dict)  # put into the image, for this hook alone
    node: str = ""  # a script that makes the hook's node


class Tries:
    def __init__(self, directory, build_dir):
        self.directory = directory
        self.build_dir = build_dir
        self.bundle = Bundle(directory / "bundle", None)
        self.root = self.bundle.root
        self.shared = directory / "shared"
        self.make_image()
        self.make_node()
        self.cases = []

    def make_image(self):
        self.bundle.directory.mkdir()
        hook_bundle.make_root(self.root)
        hook_bundle.install_probe(self.root)
        compile_library(self.root / "usr/lib/libmpi.so.12.1.0", "int mpi(void) { return 0; }\n", "libmpi.so.12")
        for directory in ("parent/deep/proc", "parent/deep/sys", "home/user/.ssh", str(self.shared)[1:], "etc"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        os.chown(self.root / "home/user/.ssh", USER, USER)
        (self.root / "etc/passwd").write_text(f"user:x:{USER}:{USER}::/home/user:/bin/sh\n")
        for name, target in LINKS.items():
            (self.root / str(self.shared)[1:] / name).symlink_to(target)

    def make_node(self):
        self.shared.mkdir()
        for name in LINKS:
            (self.shared / name).touch() if name in FILES else (self.shared / name).mkdir()
        self.library = compile_library(self.directory / "host/libmpi.so.12.2.0", "int mpi(void) { return 1; }\n", "libmpi.so.12")
        (self.directory / "host/file").write_text("the user's\n")
        (self.directory / "host/directory").mkdir()
        programs = self.directory / "bin"
        programs.mkdir()
        shutil.copy(STAND_IN, programs / "nvidia-cuda-mps-control")
        (programs / "nvidia-cuda-mps-control").chmod(0o755)
        (programs / "behaviour.json").write_text('{"no_daemon": true}')
        (self.directory / "users").mkdir()
        (self.directory / "users").chmod(0o1777)
        for name in ("dropbearmulti", "dropbearkey", "dropbear", "dbclient"):
            (self.directory / "dropbear/bin").mkdir(parents=True, exist_ok=True)
            (self.directory / "dropbear/bin" / name).write_text("#!/bin/sh\nexit 1\n")
            (self.directory / "dropbear/bin" / name).chmod(0o755)
        keys = self.directory / "homes/user/.oci-hooks/ssh/keys"
        keys.mkdir(parents=True)
        (self.directory / "passwd").write_text((self.root / "etc/passwd").read_text())
        words = [b"ecdsa-sha2-nistp256", b"nistp256", b"\4" * 65, b"\1" * 32]
        for name in ("dropbear_ecdsa_host_key", "id_dropbear", "authorized_keys"):
            (keys / name).write_bytes(b"".join(struct.pack(">I", len(word)) + word for word in words))
            os.chown(keys / name, USER, USER)

    def add(self, destination, kind):
        """The hooks that can be made to go there. `destination`: as spelled, or a path which the image has as a link."""
        is_link = destination.startswith(f"{self.shared}/")
        source = self.directory / "host" / kind
        self.cases.append(Case("mount_hook", destination, [f"--mount=type=bind,src={source},dst={destination}"]))
        if is_link:
            self.cases.append(Case("mount_hook", destination, [f"--mount=type=bind,src={source},dst=<FI_PROVIDER_PATH>/{os.path.basename(destination)}"],
                                   environment=[f"FI_PROVIDER_PATH={self.shared}"]))
        if kind == "file":
            self.cases.append(Case("mount_hook", destination, [f"--device=/dev/zero:{destination}"]))
        self.cases.append(self.podman(source, destination, "bind"))
        if kind == "file":
            self.cases.append(self.podman(source, destination, "copy"))
        if is_link:
            self.cases.append(Case("amdgpu_hook", destination, links={"dev/dri" if kind == "directory" else "dev/kfd": destination}, node=AMD_NODE))
        if os.path.exists(destination):
            self.cases.append(Case("mpi_hook", destination, variables={"MPI_LIBS": str(self.library), "BIND_MOUNTS": destination}))
            self.cases.append(self.decorator(destination, "bind"))
            if kind == "file" and os.path.isfile(destination):
                self.cases.append(self.decorator(destination, "copy"))
        if kind == "directory":
            variables = {"MPS_USER_DIRECTORY": str(self.directory / "users"), "PATH": f"{self.directory}/bin:/usr/bin:/bin", "MPS_TIMEOUT": "1"}
            name = "CUDA_MPS_LOG_DIRECTORY" if is_link else "CUDA_MPS_PIPE_DIRECTORY"
            self.cases.append(Case("mps_hook", destination, variables=variables, environment=[f"{name}={destination}"]))
            self.cases.append(self.ssh(destination, "home/user/.ssh"))
        if kind == "directory" and is_link:
            self.cases.append(self.ssh(destination, "opt/oci-hooks/ssh/overlay"))
            self.add_libraries(destination)

    def add_libraries(self, destination):
        """Hooks that look for places of libraries, in an image whose directory of libraries is a link."""
        for hook, path in (("mpi_hook", "usr/lib"), ("mpi_hook", "lib"), ("glibc_hook", "lib64"), ("ldcache_hook", "etc")):
            variables = {"MPI_LIBS": str(self.library)} if hook == "mpi_hook" else {"GLIBC_LIBS": f"{LIBC}:{LINKER}"} if hook == "glibc_hook" else {}
            self.cases.append(Case(hook, destination, variables=variables, links={path: destination}))

    def decorator(self, destination, mode):
        inventories = self.directory / f"inventories{len(self.cases)}"
        inventories.mkdir()
        (inventories / "vendor.json").write_text(json.dumps({"activation_flag": "OCI_X", "driver_feature": ["files"], "inventory": {
            "files": {"miscellaneous": [destination]}}}))
        return Case("decorator_hook", destination, [f"--config-dir={inventories}", f"--mode={mode}"], environment=["OCI_X=all"])

    def podman(self, source, destination, mode):
        modules = self.directory / f"modules{len(self.cases)}"
        modules.mkdir()
        (modules / "site.yaml").write_text(f"name: site\ncli_arg: site\nenv: ENABLE_SITE\n{mode}:\n  - {source}:{destination}\n")
        return Case("podman_hpc_hook", destination, variables={"PODMANHPC_CALL": "run", "PODMANHPC_MODULES_DIR": str(modules)}, environment=["ENABLE_SITE=1"])

    def ssh(self, destination, path):
        variables = {"HOOK_BASE_DIR": str(self.directory / "homes"), "PASSWD_FILE": str(self.directory / "passwd"),
                     "DROPBEAR_DIR": str(self.directory / "dropbear"), "SERVER_PORT_DEFAULT": "15263"}
        return Case("ssh_hook", destination, ["start-ssh-daemon"], variables, links={path: destination})

    def write(self):
        described = []
        for number, case in enumerate(self.cases):
            bundle = self.directory / f"bundles/{number}"
            bundle.mkdir(parents=True, exist_ok=True)
            (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": str(self.root)}, "process": {
                "user": {"uid": USER, "gid": USER}, "args": ["/bin/probe"], "cwd": "/", "env": case.environment}}))
            described.append({"command": [str(self.build_dir / case.hook), *case.arguments], "bundle": str(bundle), "links": case.links, "node": case.node,
                              "variables": {"HOOK_LOG": "none", **case.variables}})
        (self.directory / "cases").write_text(json.dumps({"root": str(self.root), "cases": described}))

    def run(self, when):
        """`when`: the runtime, or "early" for the moment before it."""
        self.write()
        results = self.directory / "results"
        driver = ["-B", str(DRIVER), str(self.directory / "cases"), str(results)]
        if when == "early":
            script = 'mount --bind "$0" "$0" && mount -t tmpfs -o mode=755 tmpfs "$0/dev" && mkdir "$0/dev/shm" "$0/dev/mqueue" && exec "$@"'
            done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, self.root, sys.executable, *driver],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        else:
            self.bundle.runtime = when
            interpreter = pathlib.Path(sys.executable)
            done = self.bundle.run(["/bin/probe"], [("createContainer", interpreter, {"PATH": "/usr/bin:/bin"}, *driver)], user=USER, mounts=[
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
                {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue"},
                {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
                {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"},
                {"destination": "/parent/deep/proc", "type": "proc", "source": "proc"},
                {"destination": "/parent/deep/sys", "type": "sysfs", "source": "sysfs"}])
        assert done.returncode == 0, done.stderr + (self.bundle.log.read_text() if self.bundle.log.exists() else "")
        return list(zip(self.cases, json.loads(results.read_text()), strict=True))


@pytest.fixture
def tries(build_dir):
    with tempfile.TemporaryDirectory(prefix="sarus-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        yield Tries(pathlib.Path(directory), build_dir)


MOMENTS = ["crun", "runc", "early"]


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("share", ["third", pytest.param("all", marks=pytest.mark.thorough)])
def test_no_hook_covers_what_belongs_to_the_runtime_or_the_kernel(tries, when, share):
    """Where the runtime has not mounted anything yet, its own places count all the same. A third: each case at one of the three moments."""
    mounted = when != "early"
    for kind, spellings in SPELLINGS.items():
        for destination in spellings:
            if mounted or not destination.startswith("/parent"):
                tries.add(destination, kind)
    for name, target in LINKS.items():
        if mounted or not target.startswith("/parent"):
            tries.add(str(tries.shared / name), "file" if name in FILES else "directory")
    tried = len(tries.cases)
    tries.add("/opt/harmless", "directory")
    if share == "third":
        tries.cases = tries.cases[MOMENTS.index(when):tried:len(MOMENTS)] + tries.cases[tried:]
    results = tries.run(when)
    covered = [(case, result) for case, result in results if result["covered"]]
    assert not covered, "\n".join(f"{case.hook} {case.destination} {case.links} covered {result['covered'][0]}" for case, result in covered)
    assert not any(0 > result["status"] or result["status"] > 127 for _, result in results)
    # What nobody minds arrives, or the rest would prove little.
    for case, result in results:
        if case.destination == "/opt/harmless" and case.hook in ("mount_hook", "mps_hook", "podman_hpc_hook", "ssh_hook") and "overlay" not in "".join(case.links):
            assert "/opt/harmless" in result["mounts"], (case, result)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_devices_and_directories_of_the_site_arrive_in_dev(tries, runtime):
    """What BIND_MOUNTS, --mount and --device promise."""
    new = [Case("mount_hook", "/dev/new/deep", [f"--mount=type=bind,src={tries.directory}/host/directory,dst=/dev/new/deep"]),
           Case("mount_hook", "/dev/kgni0", ["--device=/dev/zero:/dev/kgni0"]),
           Case("mount_hook", "/dev/shm/own", [f"--mount=type=bind,src={tries.directory}/host/directory,dst=/dev/shm/own"])]
    new += [Case("amdgpu_hook", f"/dev/{name}", node=AMD_NODE) for name in ("kfd", "dri/card0", "dri/renderD128")]
    device = next(path for path in ("/dev/fuse", "/dev/loop-control", "/dev/ptp0") if os.path.exists(path))
    new += [Case("mpi_hook", device, variables={"MPI_LIBS": str(tries.library), "BIND_MOUNTS": device})]
    tries.cases = new
    for case, result in tries.run(runtime):
        assert result["status"] == 0 and case.destination in result["mounts"], (case, result)
