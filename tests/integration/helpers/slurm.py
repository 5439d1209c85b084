"""A Slurm cluster of one node, with an authentication service (munge) of its own, for the time of a test."""

import os
import pathlib
import shutil
import socket
import subprocess

from . import system
from .hook_bundle import MULTIARCH

CONFIGURATION = """
ClusterName=sarustest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """`configuration` and `munge` are the directories which take the places of /etc/slurm and /run/munge."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.configuration = self.directory / "etc-slurm"
        self.munge = self.directory / "run-munge"
        self.node = socket.gethostname().split(".")[0]
        self.processes = []
        for name in ("etc-slurm", "run-munge", "state", "spool", "key"):
            (self.directory / name).mkdir()
        self.directory.chmod(0o755)
        self.munge.chmod(0o755)
        (self.configuration / "slurm.conf").write_text(CONFIGURATION.format(
            host=self.node, controller_port=system.free_port(), node_port=system.free_port(), directory=self.directory))
        (self.configuration / "cgroup.conf").write_text("CgroupAutomount=no\n")

    def start(self):
        key = self.directory / "key" / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = self.directory / "key"
        self._run("munged", "--foreground", "--force", f"--key-file={key}", f"--pid-file={files}/pid", f"--log-file={files}/log",
                  f"--seed-file={files}/seed")
        self._wait(lambda: (self.munge / "munge.socket.2").exists(), "munged")
        self._run("slurmctld", "-D")
        self._run("slurmd", "-D", "-N", self.node)
        self._wait(lambda: "idle" in self.command("sinfo", "--noheader", "--format=%t").stdout, "slurmctld and slurmd")

    def command(self, *arguments):
        """Runs a command of Slurm on the node, where configuration and socket are in the usual places."""
        return subprocess.run(self._inside(*arguments), capture_output=True, text=True, timeout=30)

    def stop(self):
        for process in reversed(self.processes):  # the controller signs its last messages, too
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _inside(self, program, *arguments):
        script = ("mount -t tmpfs tmpfs /run; mkdir -p /run/munge /etc/slurm; mount --bind \"$1\" /run/munge; "
                  "mount --bind \"$2\" /etc/slurm; shift 2; exec \"$@\"")
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(self.munge), str(self.configuration),
                system.program(program), *arguments]

    def _run(self, *command):
        output = open(self.directory / f"{command[0]}.output", "w")
        self.processes.append(subprocess.Popen(self._inside(*command), stdout=output, stderr=output, stdin=subprocess.DEVNULL))

    def _wait(self, condition, what):
        if not system.eventually(condition, timeout=30, interval=0.1):
            outputs = "\n".join(path.read_text() for path in [*self.directory.glob("*.output"), *self.directory.glob("*.log")])
            self.stop()
            raise RuntimeError(f"{what} did not start:\n{outputs}")


def libraries_of(program):
    """The paths of the libraries that a program of the host loads."""
    listed = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    return sorted(line.split()[2] for line in listed.splitlines() if " => /" in line)


def plugin_directory():
    """Where Debian keeps the plugins and the library of Slurm."""
    library = next(path for path in libraries_of(shutil.which("srun")) if "libslurmfull" in path)
    return pathlib.Path(library).parent


def documented_arguments(cluster):
    """The documented example for mount_hook, with the paths of Debian."""
    programs = [f"/usr/bin/{name}" for name in ("salloc", "sbatch", "sinfo", "squeue", "srun")]
    plugins = plugin_directory()
    libraries = {path for path in libraries_of("/usr/bin/srun") if "libc.so" not in path and not path.startswith(str(plugins))}
    same = [*programs, *sorted(libraries | {f"{MULTIARCH}/libmunge.so.2"}), plugins]
    return [*(f"--mount=type=bind,src={path},dst={path}" for path in same),
            f"--mount=type=bind,src={cluster.configuration},dst=/etc/slurm",
            f"--mount=type=bind,src={cluster.munge},destination=/run/munge"]
