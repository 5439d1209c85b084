"""Hooks under Podman, as root and rootless: hook files in a directory for --hooks-dir, containers from a plain root filesystem."""

import json
import os
import re
import shutil
import subprocess

import pytest
import test_hook_amdgpu
from helpers import hook_bundle, system
from helpers.installation import SANDBOX

pytestmark = pytest.mark.asroot


class Podman:
    """Podman of one user with a store and a directory of hooks of its own."""

    def __init__(self, user, directory):
        self.user = user
        self.runtime = "crun"
        self.node = ""  # commands of the shell which make another node of this one
        self.directory = directory
        self.hooks = directory / "hooks.d"
        self.root = directory / "rootfs"
        self.hooks.mkdir(parents=True)
        hook_bundle.make_root(self.root)
        hook_bundle.install_probe(self.root)

    def add(self, name, program, arguments=(), stages=("createContainer",), **variables):
        own = self.directory / "bin" / program.name  # the user may not reach the directory where hooks were built
        own.parent.mkdir(exist_ok=True)
        shutil.copy2(program, own)
        (self.hooks / f"{name}.json").write_text(json.dumps({
            "version": "1.0.0", "when": {"always": True}, "stages": list(stages),
            "hook": {"path": str(own), "args": [program.name, *map(str, arguments)], "env": [f"{key}={value}" for key, value in variables.items()]}}))

    def run(self, *command, options=()):
        subprocess.run(["chown", "-R", f"{self.user.uid}:{self.user.gid}", str(self.directory)], check=True)
        argv = [str(SANDBOX), "--fuse", "--hide-unified", "--node", self.node, "--shared-root", "--user", self.user.name, "--", "podman",
                "--root", f"{self.directory}/store", "--runroot", f"{self.directory}/run", "--tmpdir", f"{self.directory}/tmp",
                "--cgroup-manager=cgroupfs", f"--runtime={self.runtime}", "--events-backend=file", f"--hooks-dir={self.hooks}", "run", "--rm", "--network=host",
                "--log-driver=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", *options, "--rootfs", str(self.root), *map(str, command)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, cwd="/",
                              env=self.user.environment(HOME=self.directory, XDG_RUNTIME_DIR=self.directory))


@pytest.fixture(params=["root", "rootless"])
def podman(request, workspace):
    root = request.param == "root"
    user = request.getfixturevalue("root" if root else "user")
    made = Podman(user, workspace / f"p{os.urandom(3).hex()}")
    yield made
    if not root:
        # The process that keeps a rootless user's namespaces for the next call of Podman; there is none.
        for pid, uid, command in system.processes():
            if uid == user.uid and command.startswith("catatonit -P"):
                os.kill(pid, 9)
    subprocess.run(["chmod", "-R", "u+rwX", str(made.directory)], check=False)
    shutil.rmtree(made.directory, ignore_errors=True)


def probed(podman, *paths, options=()):
    result = podman.run("/bin/probe", *paths, options=options)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_mount_hook_mounts(podman, build_dir, stage, runtime):
    podman.runtime = runtime
    (podman.directory / "file").write_text("from the host\n")
    podman.add("mount", build_dir / "mount_hook", [f"--mount=type=bind,src={podman.directory}/file,dst=/opt/file,readonly",
                                                   f"--mount=type=bind,src={podman.directory}/file,dst=<FI_PROVIDER_PATH>/x-fi.so"], [stage])
    assert probed(podman, "/opt/file", "/opt/fi/x-fi.so", options=["--env=FI_PROVIDER_PATH=/opt/fi"]) == ["r from the host", "rw from the host"]


def test_device_of_the_mount_hook_can_be_used(podman, build_dir):
    podman.add("device", build_dir / "mount_hook", ["--device=/dev/fuse:/dev/other:rw"])
    assert probed(podman, "/dev/other") == ["rw"]


@pytest.mark.parametrize("value, expected", [(None, test_hook_amdgpu.BOTH), ("1", test_hook_amdgpu.SECOND)])
def test_gpus_can_be_used(podman, build_dir, value, expected):
    podman.node = test_hook_amdgpu.WHOLE_NODE
    podman.add("amdgpu", build_dir / "amdgpu_hook")
    assert probed(podman, *test_hook_amdgpu.PATHS, options=[f"--env=ROCR_VISIBLE_DEVICES={value}"] if value else []) == expected


@pytest.mark.parametrize("stage", ["createRuntime", "createContainer", "poststop"])
def test_timestamps_are_written_as_the_user(podman, build_dir, stage):
    log = podman.directory / "log"
    podman.add("timestamp", build_dir / "timestamp_hook", stages=[stage], TIMESTAMP_HOOK_MESSAGE=stage)
    probed(podman, options=[f"--env=TIMESTAMP_HOOK_LOGFILE={log}"])
    assert re.fullmatch(rf"\[\d+\.\d{{9}}\] \[\S+-\d+\] \[hook\] \[INFO\] Timestamp hook: {stage}\n", log.read_text())
    assert log.stat().st_uid == podman.user.uid


@pytest.mark.parametrize("podman", ["root"], indirect=True)
@pytest.mark.parametrize("options", [[], ["--user=1000:1000"]])
def test_image_cannot_have_a_log_written_over_files_of_root(podman, build_dir, options):
    protected = podman.directory / "shadow"
    protected.write_text("root:*:1:\n")
    podman.add("timestamp", build_dir / "timestamp_hook")
    assert podman.run("/bin/probe", options=options).returncode == 0
    assert podman.run("/bin/probe", options=[f"--env=TIMESTAMP_HOOK_LOGFILE={protected}", *options]).returncode != 0
    assert protected.read_text() == "root:*:1:\n"


@pytest.mark.parametrize("mode", ["bind", "copy"])
def test_decorator_hook_brings_what_the_environment_asks_for(podman, build_dir, mode):
    inventories = podman.directory / "inventories"
    inventories.mkdir()
    (podman.directory / "file").write_text("from the vendor\n")
    (inventories / "vendor.cfg").write_text(json.dumps({
        "activation_flag": "OCI_VENDOR", "driver_feature": ["file", "device"],
        "inventory": {"file": {"miscellaneous": [f"{podman.directory}/file"]}, "device": {"devices": ["fuse"]}}}))
    podman.add("decorator", build_dir / "decorator_hook", [f"--config-dir={inventories}", f"--mode={mode}"])
    file = "r from the vendor" if mode == "bind" else "rw from the vendor"  # the copy is the container's own
    assert probed(podman, podman.directory / "file", "/dev/fuse") == ["missing"] * 2
    assert probed(podman, podman.directory / "file", "/dev/fuse", options=["--env=OCI_VENDOR=all"]) == [file, "rw"]
    assert podman.run("/bin/probe", options=["--env=OCI_VENDOR=video"]).returncode != 0


def test_failure_of_a_hook_stops_the_container(podman, build_dir):
    podman.add("mount", build_dir / "mount_hook", ["--mount=type=bind,src=/nonexistent,dst=/x"])
    result = podman.run("/bin/probe", "/x")
    assert result.returncode != 0 and result.stdout == ""
