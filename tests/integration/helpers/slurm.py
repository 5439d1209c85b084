"""A Slurm cluster of one node on the loopback interface, with daemons, keys and files of its own."""

import os
import pathlib
import shutil
import socket
import subprocess

from .hook_bundle import MULTIARCH
from .system import eventually, free_port, program

CONFIGURATION = """
ClusterName=sarus
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
TmpFS={directory}/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
KillWait=1
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=FORCE
"""


class Slurm:
    """`client_configuration` and `munge` are directories which can take the places of /etc/slurm and /run/munge in a container."""

    def __init__(self, directory, settings="", plugins=()):
        """`settings`: further lines of slurm.conf; `plugins`: lines of plugstack.conf."""
        self.directory = pathlib.Path(directory)
        self.node = socket.gethostname().split(".")[0]
        self.client_configuration = self.directory / "etc-slurm"
        self.munge = self.directory / "run-munge"
        for path in (self.directory, self.client_configuration, self.munge):
            path.mkdir()
            path.chmod(0o755)
        for name in ("state", "spool", "tmp"):
            (self.directory / name).mkdir()
        (self.directory / "tmp").chmod(0o1777)
        text = CONFIGURATION.format(directory=self.directory, host=self.node, controller_port=free_port(), node_port=free_port()) + settings
        (self.client_configuration / "slurm.conf").write_text(text)
        self.configuration = self.directory / "slurm.conf"
        self.configuration.write_text(text + f"AuthInfo=socket={self.munge}/munge.socket.2\n")
        (self.directory / "plugstack.conf").write_text("".join(f"{line}\n" for line in plugins))
        self.environment = {"SLURM_CONF": str(self.configuration)}
        self.daemons = []
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.munge}/munge.socket.2",
                     f"--pid-file={self.directory}/munged.pid", f"--seed-file={self.directory}/munged.seed", f"--log-file={self.directory}/munged.log")
        assert eventually((self.munge / "munge.socket.2").exists), self.log("munged")
        self._daemon("slurmctld", "-D", "-f", self.configuration)
        self._daemon("slurmd", "-D", "-f", self.configuration)
        assert eventually(self._idle, interval=0.2), self.log("slurmctld") + self.log("slurmd")

    def _daemon(self, name, *arguments):
        with open(self.directory / f"{name}.output", "w") as output:
            self.daemons.append(subprocess.Popen([program(name), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                                 env={**os.environ, **self.environment}))

    def _idle(self):
        return self.call("sinfo", "--noheader", "--format=%T").stdout.strip() == "idle"

    def log(self, name):
        return "".join(path.read_text(errors="replace")[-3000:] for path in sorted(self.directory.glob(f"{name}.*")) if path.suffix in (".log", ".output"))

    def call(self, name, *arguments, **keywords):
        return subprocess.run([program(name), *map(str, arguments)], env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=300,
                              **keywords)

    def stop(self):
        """slurmd first: it ends its steps."""
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=300)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


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
            f"--mount=type=bind,src={cluster.client_configuration},dst=/etc/slurm",
            f"--mount=type=bind,src={cluster.munge},destination=/run/munge"]
