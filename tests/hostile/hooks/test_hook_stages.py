"""Hooks at stages that they do not support. After the start of a container its user decides what is where in its mount namespace: a hook that
looked for the root filesystem there would follow the image's links and write outside of the container with root's rights."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_library
from helpers.hook_bundle import LIBC, LINKER
from helpers.installation import SANDBOX

pytestmark = pytest.mark.asroot

PREPARING = ["mpi_hook", "glibc_hook", "ldcache_hook", "mkhomedir_hook", "mount_hook", "decorator_hook", "amdgpu_hook", "pmix_hook"]


class Bundle:
    """A container whose image holds, under the path of its own root filesystem, a link to a directory that is mounted from outside."""

    def __init__(self, directory):
        self.directory = directory
        self.root = hook_bundle.make_root(directory / "rootfs")
        hook_bundle.install_probe(self.root)
        self.outside = directory / "outside"
        for made in (self.outside / "etc", self.outside / "lib64", self.outside / "usr/lib"):
            made.mkdir(parents=True)
        shutil.copy2(LINKER, self.outside / f"lib64/{LINKER.name}")
        compile_library(self.outside / "usr/lib/libmpi.so.12.1.0", "int mpi(void) { return 0; }\n", "libmpi.so.12")
        compile_library(directory / "host/libmpi.so.12.2.0", "int mpi(void) { return 1; }\n", "libmpi.so.12")
        link = pathlib.Path(f"{self.root}{self.root}")
        link.parent.mkdir(parents=True)
        link.symlink_to("/mnt/outside")
        (self.root / "mnt/outside").mkdir(parents=True)
        inventories = directory / "inventories"
        inventories.mkdir()
        (inventories / "vendor.json").write_text(json.dumps({"activation_flag": "OCI_X", "driver_feature": ["files"], "inventory": {
            "files": {"miscellaneous": [f"{directory}/host/libmpi.so.12.2.0"]}}}))
        self.settings = {"mpi_hook": [f"MPI_LIBS={directory}/host/libmpi.so.12.2.0"], "glibc_hook": [f"GLIBC_LIBS={LIBC}"]}
        self.arguments = {"mount_hook": [f"--mount=type=bind,src={directory}/host,dst=/etc/new/directory"],
                          "decorator_hook": [f"--config-dir={inventories}"]}

    def run(self, runtime, program, stage):
        """Runs a container with the hook, and returns the hook's exit status and standard error."""
        said = self.directory / "said"
        hook = {"path": "/bin/sh", "args": ["sh", "-c", f'"$@" 2>{said}; echo "status $?" >>{said}', "sh", str(program), *self.arguments.get(program.name, [])],
                "env": ["PATH=/usr/bin:/bin", *self.settings.get(program.name, [])]}
        (self.directory / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.2", "root": {"path": str(self.root)}, "hooks": {stage: [hook]},
            "process": {"user": {"uid": 61234, "gid": 61234}, "args": ["/bin/probe", "/etc"], "cwd": "/", "env": ["OCI_X=all"]},
            "linux": {"namespaces": [{"type": "mount"}]},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/mnt/outside", "type": "bind", "source": str(self.outside), "options": ["bind"]}]}))
        command = [runtime, "--root", f"{self.directory}/state", *(["--cgroup-manager=disabled"] if runtime == "crun" else []), "run",
                   "--bundle", str(self.directory), f"stages-{os.urandom(3).hex()}"]
        subprocess.run([str(SANDBOX), "--hide-unified", "--shared-root", "--", *command], capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
        text = said.read_text()
        return int(text.rsplit("status ", 1)[1]), text

    def snapshot(self):
        return {str(path): path.lstat().st_mtime_ns for path in [self.outside, *self.outside.rglob("*")]}


@pytest.fixture
def bundle(tmp_path):
    tmp_path.chmod(0o755)
    return Bundle(tmp_path)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("program", PREPARING)
@pytest.mark.parametrize("stage", ["poststart", "poststop"])
def test_hook_after_the_start_refuses_and_changes_nothing(bundle, build_dir, runtime, program, stage):
    before = bundle.snapshot()
    status, said = bundle.run(runtime, build_dir / program, stage)
    assert bundle.snapshot() == before
    assert status == 1 and f"{program} does not support the stage {stage}" in said


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_hook_before_the_start_changes_the_container_alone(bundle, build_dir, runtime, stage):
    before = bundle.snapshot()
    status, said = bundle.run(runtime, build_dir / "mount_hook", stage)
    assert status == 0, said
    assert bundle.snapshot() == before and (bundle.root / "etc/new/directory").is_dir()


@pytest.mark.parametrize("program", PREPARING + ["timestamp_hook", "stdout_stderr_test_hook", "slurm_global_sync_hook"])
def test_hook_of_containers_refuses_a_configuration(bundle, build_dir, program):
    """What a hook of the stage precreate gets."""
    result = subprocess.run([str(build_dir / program)], input='{"ociVersion": "1.0.2", "root": {"path": "rootfs"}}', capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "stage precreate" in result.stderr


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("stage", ["createRuntime", "poststart"])
@pytest.mark.parametrize("program", ["pce_hook", "pc_injection_hook", "sethomevar_hook"])
def test_hook_of_configurations_refuses_a_state(bundle, build_dir, runtime, stage, program):
    status, said = bundle.run(runtime, build_dir / program, stage)
    assert status == 1 and f"{program} supports the stage precreate only" in said
