"""Hooks under Podman, as root and rootless: hook files in a directory for --hooks-dir, containers from a plain root filesystem."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
import test_hook_amdgpu
import test_hook_mps
from helpers import hook_bundle, ssh, system
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
def podman(request):
    root = request.param == "root"
    user = request.getfixturevalue("root" if root else "user")
    # Podman takes no --runroot of more than 50 characters, so this does not follow TMPDIR.
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))
    directory.chmod(0o755)
    made = Podman(user, directory)
    yield made
    if not root:
        # The process that keeps a rootless user's namespaces for the next call of Podman; there is none.
        for pid, uid, command in system.processes():
            if uid == user.uid and command.startswith("catatonit -P"):
                system.kill(pid)
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


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_read_only_container_gets_its_mounts(podman, build_dir, runtime):
    """On the root filesystem and, the documented /run/munge, in a tmpfs that Podman makes."""
    podman.runtime = runtime
    (podman.directory / "file").write_text("from the host\n")
    podman.add("mount", build_dir / "mount_hook", [f"--mount=type=bind,src={podman.directory}/file,dst={destination}" for destination in ("/opt/file", "/run/munge/file")])
    (podman.root / "etc/image").write_text("of the image\n")
    assert probed(podman, "/opt/file", "/run/munge/file", "/etc/image", options=["--read-only"]) == ["rw from the host"] * 2 + ["r of the image"]


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
    podman.add("timestamp", build_dir / "timestamp_hook", stages=[stage], TIMESTAMP_HOOK_MESSAGE=stage, HOOK_TRUST_CONTAINER="true")
    probed(podman, options=[f"--env=TIMESTAMP_HOOK_LOGFILE={log}"])
    assert re.fullmatch(rf"\[\d+\.\d{{9}}\] \[\S+-\d+\] \[hook\] \[INFO\] Timestamp hook: {stage}\n", log.read_text())
    assert log.stat().st_uid == podman.user.uid


@pytest.mark.parametrize("podman", ["root"], indirect=True)
@pytest.mark.parametrize("options", [[], ["--user=1000:1000"]])
def test_image_cannot_have_a_log_written_over_files_of_root(podman, build_dir, options):
    protected = podman.directory / "shadow"
    protected.write_text("root:*:1:\n")
    podman.add("timestamp", build_dir / "timestamp_hook", HOOK_TRUST_CONTAINER="true")
    assert podman.run("/bin/probe", options=options).returncode == 0
    assert podman.run("/bin/probe", options=[f"--env=TIMESTAMP_HOOK_LOGFILE={protected}", *options]).returncode != 0
    assert protected.read_text() == "root:*:1:\n"


def test_mps_server_has_the_uid_of_the_node(podman, build_dir):
    programs = podman.directory / "programs"
    programs.mkdir()
    shutil.copy2(test_hook_mps.STAND_IN, programs / "nvidia-cuda-mps-control")
    (programs / "nvidia-cuda-mps-control").chmod(0o755)
    (programs / "behaviour.json").write_text("{}")
    users = podman.directory / "users"
    users.mkdir()
    podman.add("mps", build_dir / "mps_hook", stages=["precreate", "prestart"], PATH=f"{programs}:/usr/bin:/bin", MPS_USER_DIRECTORY=users)
    pipes = users / f"nvidia-mps-{podman.user.uid}/pipe"
    try:
        assert probed(podman, "/tmp/nvidia-mps/calls")
        assert (pipes / "calls").read_text().count(f"start_server -uid {podman.user.uid}\n") == 1
    finally:
        os.killpg(os.getpgid(int((pipes / "nvidia-cuda-mps-control.pid").read_text())), 9)


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


@pytest.fixture
def ssh_podman(podman, build_dir):
    """Podman with keys, the SSH software, and a shell in the container."""
    shutil.copytree(build_dir / "dropbear", podman.directory / "dropbear", symlinks=True)
    shutil.copy2("/bin/busybox", podman.root / "usr/bin/busybox")
    for name in ("sh", "cat", "id", "sleep"):
        (podman.root / "usr/bin" / name).symlink_to("busybox")
    (podman.root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    podman.ssh = {"HOOK_BASE_DIR": podman.directory, "PASSWD_FILE": "/etc/passwd", "DROPBEAR_DIR": podman.directory / "dropbear", "SERVER_PORT": system.free_port()}
    podman.user.own(podman.directory)
    subprocess.run([build_dir / "ssh_hook", "keygen"], check=True, capture_output=True, env={name: str(value) for name, value in podman.ssh.items()}, **podman.user.identity())
    return podman


@pytest.mark.parametrize("stages", [["prestart"], ["createRuntime", "poststop"], ["createContainer"]])
@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_ssh_hook_lets_the_user_in(ssh_podman, build_dir, runtime, stages):
    ssh_podman.runtime = runtime
    ssh_podman.add("ssh", build_dir / "ssh_hook", ["start-ssh-daemon"], stages, **ssh_podman.ssh)
    result = ssh_podman.run("/bin/sh", "-c", "ssh localhost id -u; ssh localhost cat /proc/1/comm")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "0"
    assert system.eventually(lambda: not ssh.listens(ssh_podman.ssh["SERVER_PORT"]))


@pytest.mark.parametrize("victim", ["ssh-keeper", "sh"])
def test_the_ssh_daemon_ends_when_its_keeper_or_the_container_is_killed(ssh_podman, build_dir, victim):
    port = ssh_podman.ssh["SERVER_PORT"]
    ssh_podman.add("ssh", build_dir / "ssh_hook", ["start-ssh-daemon"], ["createRuntime"], **ssh_podman.ssh)
    mark = f"{port} seconds"  # in the command of the container's first process
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        container = executor.submit(ssh_podman.run, "/bin/sh", "-c", f": {mark}; sleep 1000 & wait")
        assert system.eventually(lambda: ssh.listens(port))

        def only(pids):
            """None while a child of the process has not executed its program yet: it looks like its parent."""
            found = list(pids)
            return found[0] if len(found) == 1 else None

        first = system.eventually(lambda: only(pid for pid, _, command in system.processes() if command.startswith(f"/bin/sh -c : {mark}")))
        namespace = os.readlink(f"/proc/{first}/ns/pid")
        keeper = system.eventually(lambda: only(pid for pid in system.descendants(first) if system.process_name(pid) == "ssh-keeper"))
        assert os.readlink(f"/proc/{keeper}/ns/pid") == namespace
        system.kill(keeper if victim == "ssh-keeper" else first)
        assert system.eventually(lambda: not ssh.listens(port))
        if victim == "ssh-keeper":
            system.kill(first)
        container.result(timeout=300)


@pytest.mark.parametrize("stage, join", [("createRuntime", "True"), ("createRuntime", "False"), ("createContainer", "True"), ("createContainer", "False")])
def test_the_ssh_daemon_ends_with_a_container_in_the_hosts_pid_namespace(ssh_podman, build_dir, stage, join):
    """Also where crun does not say which process the container's is (createContainer)."""
    ssh_podman.add("ssh", build_dir / "ssh_hook", ["start-ssh-daemon"], [stage], JOIN_NAMESPACES=join, **ssh_podman.ssh)
    result = ssh_podman.run("/bin/sh", "-c", "ssh localhost id -u; (ssh localhost sleep 1000 &) ; sleep 0.3", options=["--pid=host"])
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr
    assert system.eventually(lambda: not ssh.listens(ssh_podman.ssh["SERVER_PORT"]))
    assert system.eventually(lambda: not [pid for pid, _, command in system.processes() if str(ssh_podman.directory) in command or "dropbear -F" in command
                                          and str(ssh_podman.ssh["SERVER_PORT"]) in command])
