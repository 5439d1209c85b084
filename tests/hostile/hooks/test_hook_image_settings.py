"""What an image says is not what its user says. Where no engine tells them apart (Podman and the OCI runtimes hand over annotations of an
image's manifest and its variables like those of the caller), no annotation and no variable has an effect outside of the container."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import installation
from helpers.hook_bundle import make_root

SOURCE = installation.SOURCE
STAND_IN = pathlib.Path(__file__).resolve().parents[2] / "integration/helpers/mps_control.py"

# Keys that hooks read, or that the templates of hook files have as conditions, and which an image must not set ...
CALLERS = {"com.hooks.ssh.enabled", "com.hooks.ssh.port", "com.hooks.ssh.authorize_ssh_key", "com.hooks.ssh.pidfile_host",
           "com.hooks.ssh.pidfile_container", "com.hooks.slurm-global-sync.enabled", "com.hooks.nvidia_cuda_mps.enabled", "mps.enable",
           "com.hooks.stdout_stderr_test.enabled", "com.hooks.cxi.enabled", "podman_hpc.hook_tool", "podman_hpc.variables", "podman_hpc.env.", "com.hooks.logging.stdoutfd",
           "com.hooks.logging.stderrfd", "com.hooks.caller.uid"}
# ... and which it may set.
IMAGES = {"com.hooks.glibc.enabled", "com.hooks.mpi.enabled", "com.hooks.mpi.type", "com.hooks.ldcache.enabled", "com.hooks.mount.enabled",
          "com.hooks.pce.enabled", "com.hooks.logging.level"}


def test_every_annotation_of_a_hook_is_known_here():
    text = "".join(path.read_text() for folder in ("src/hooks", "src/podman_hpc", "etc/templates/hooks.d") for path in sorted((SOURCE / folder).rglob("*"))
                   if path.suffix in (".cpp", ".hpp", ".in"))
    found = set(re.findall(r"(?:com\.hooks|podman_hpc)\.[A-Za-z_.-]+[a-z_.]|mps\.enable\b", text))
    found = {key for key in found if not key.endswith((".hpp", ".yaml", ".hook", "."))} | {"podman_hpc.env."}
    assert found <= CALLERS | IMAGES, found - CALLERS - IMAGES


# Where a hook reads a variable which an image may set, because its effect ends in the container.
VARIABLES = {
    ("hooks/amdgpu/program.cpp", '"ROCR_VISIBLE_DEVICES"'): "which GPUs of those that the site gives",
    ("hooks/decorator/program.cpp", "inventory.activationFlag"): "which files of the site's inventories",
    ("hooks/decorator/program.cpp", "name"): "the same, for the files' features",
    ("hooks/mkhomedir/main.cpp", '"HOME"'): "where in the container its user has a home directory",
    ("hooks/mpi/program.cpp", "name"): "which task warns",
    ("hooks/mount/program.cpp", "name"): "where in the container the site's files go",
    ("hooks/pc_injection/main.cpp", '"LD_LIBRARY_PATH"'): "where in the container libraries are looked for",
    ("hooks/mps/main.cpp", "variable"): "where in the container the user's directories go",
    ("hooks/timestamp/main.cpp", '"TIMESTAMP_HOOK_LOGFILE"'): "whether to say that it is not used",
    ("podman_hpc/hook_tool/main.cpp", "name"): "which of the site's modules",
}


def test_every_variable_that_a_hook_takes_from_a_container_is_known_here():
    """Other variables of a container reach a hook by HookContext::callersVariable(), which asks whose they are."""
    found = {(str(path.relative_to(SOURCE / "src")), argument) for folder in ("src/hooks", "src/podman_hpc", "src/hook_contracts")
             for path in (SOURCE / folder).rglob("*.cpp") if "kit" not in path.parts
             for argument in re.findall(r"\bcontainerVariable\(([^()]*)\)|\b(?:process|config\(\))\.env\b", path.read_text())}
    assert found == set(VARIABLES)


class Container:
    """A container of which nobody knows whether its caller or its image has set something."""

    def __init__(self, build_dir, directory):
        self.build_dir = build_dir
        self.directory = directory
        self.outside = directory / "outside"
        self.outside.mkdir()
        self.programs = directory / "programs"
        self.programs.mkdir()
        shutil.copy(STAND_IN, self.programs / "nvidia-cuda-mps-control")
        (self.programs / "nvidia-cuda-mps-control").chmod(0o755)
        (self.programs / "behaviour.json").write_text("{}")
        (directory / "passwd").write_text(f"user:x:{os.getuid()}:{os.getgid()}::/:/bin/sh\n")
        (self.outside / "user").mkdir()
        make_root(directory / "rootfs")
        base = {"HOOK_BASE_DIR": self.outside, "PASSWD_FILE": directory / "passwd"}
        self.settings = {"ssh_hook": {**base, "DROPBEAR_DIR": directory / "dropbear", "SERVER_PORT_DEFAULT": "15263"},
                         "slurm_global_sync_hook": {**base, "SLURM_GLOBAL_SYNC_TIMEOUT": "1"},
                         "mps_hook": {"PATH": f"{self.programs}:/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": self.outside / "pipes", "MPS_TIMEOUT": "100"}}

    def run(self, program, *arguments, annotations=None, variables=(), stage="creating", **settings):
        config = {"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "annotations": annotations or {},
                  "process": {"user": {"uid": os.getuid(), "gid": os.getgid()}, "env": list(variables)}}
        (self.directory / "config.json").write_text(json.dumps(config))
        state = {"ociVersion": "1.0.2", "id": "image", "status": stage, "pid": 0, "bundle": str(self.directory), "annotations": annotations or {}}
        environment = {"HOOK_LOG": "none", **{name: str(value) for name, value in {**self.settings.get(program, {}), **settings}.items()}}
        return subprocess.run([self.build_dir / program, *arguments], env=environment, text=True, capture_output=True, timeout=300, check=False,
                              input=json.dumps(config if stage == "precreate" else state))

    def made(self):
        return {str(path.relative_to(self.outside)) for path in self.outside.rglob("*")}


@pytest.fixture
def container(build_dir, tmp_path):
    return Container(build_dir, tmp_path)


SLURM = ["SLURM_JOB_ID=1", "SLURM_STEPID=0", "SLURM_NTASKS=1", "SLURM_PROCID=0"]


@pytest.mark.parametrize("program, stage, annotations", [
    ("ssh_hook", "creating", {"com.hooks.ssh.enabled": "true"}),
    ("ssh_hook", "creating", {"com.hooks.ssh.pidfile_host": "{outside}/pid"}),
    ("ssh_hook", "creating", {"com.hooks.ssh.authorize_ssh_key": "{outside}/key"}),
    ("ssh_hook", "stopped", {"com.hooks.ssh.pidfile_host": "{outside}/user"}),
    ("slurm_global_sync_hook", "creating", {"com.hooks.slurm-global-sync.enabled": "true"}),
    ("slurm_global_sync_hook", "creating", {"com.hooks.caller.uid": "0"}),
    ("mps_hook", "creating", {"mps.enable": "true"}),
    ("mps_hook", "precreate", {"mps.enable": "true"}),
    ("mps_hook", "precreate", {"com.hooks.nvidia_cuda_mps.enabled": "true"}),
])
def test_annotations_start_nothing_outside(container, program, stage, annotations):
    annotations = {key: value.format(outside=container.outside) for key, value in annotations.items()}
    before = container.made()
    arguments = ["start-ssh-daemon"] if program == "ssh_hook" else []
    result = container.run(program, *arguments, annotations=annotations, variables=SLURM, stage=stage)
    assert result.returncode == 0, result.stderr
    assert f"Does nothing: the image may have set the annotation {next(iter(annotations))}. To trust images" in result.stderr
    assert container.made() == before
    assert stage != "precreate" or json.loads(result.stdout)["annotations"] == annotations


def test_the_site_can_trust_images(container):
    result = container.run("slurm_global_sync_hook", annotations={"com.hooks.slurm-global-sync.enabled": "true"}, variables=SLURM, HOOK_TRUST_CONTAINER="true")
    assert result.returncode == 0 and "Does nothing" not in result.stderr, result.stderr
    assert container.made() > {"user"}


def test_variables_name_no_task(container):
    """Although the site has enabled the hook for all containers."""
    assert container.run("slurm_global_sync_hook", variables=SLURM).returncode == 0
    assert container.made() == {"user"}


def test_variables_name_no_log(container):
    log = container.outside / "log"
    variables = [f"TIMESTAMP_HOOK_LOGFILE={log}"]
    result = container.run("timestamp_hook", variables=variables, annotations={"com.hooks.logging.level": "1"})
    assert result.returncode == 0 and not log.exists()
    assert "the image may have set TIMESTAMP_HOOK_LOGFILE" in result.stdout
    assert container.run("timestamp_hook", variables=variables, HOOK_TRUST_CONTAINER="true").returncode == 0
    assert log.exists()
