"""A Slurm cluster on this machine: a login node with the controller, and compute nodes.

Each node has network, mount, PID, IPC, UTS and cgroup namespaces of its own, with a host name, an address on a bridge, a
/run, /tmp, /dev/shm, /var/spool and /dev/fuse. All other files are the machine's, so that /home and /opt are shared by
the nodes. Nothing of the cluster can be seen in the machine's own namespaces but processes, cgroups and a directory."""

import contextlib
import json
import os
import pathlib
import secrets
import select
import signal
import subprocess
import sys
import time

from . import cluster_processes as processes
from .system import PATH

CONFIGURATION = """
ClusterName=test
SlurmctldHost=login({login})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
MailProg=/bin/true
MpiDefault=pmi2
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1000
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SchedulerParameters=bf_interval=1
Epilog=/etc/slurm/epilog
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=FORCE:16
"""

CGROUPS = """
CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainDevices=yes
"""


class Cluster:
    """Lives as long as this object and this process, unless it is detached.

    visible: directories below /tmp that all nodes shall see. settings: further lines of slurm.conf, or others for the same keys; node_settings:
    of its nodes. files: more files of /etc/slurm. `configuration` is the directory that all nodes have as /etc/slurm."""

    def __init__(self, shared, visible=(), nodes=4, settings=None, files=None, name=None, node_settings=""):
        self._begin(name or f"{os.getpid()}-{secrets.token_hex(3)}", nodes, shared)
        processes.sweep()
        setup = {"nodes": self.inhabited, "visible": [str(path) for path in visible],
                 "hierarchies": processes.hierarchies(), "files": self._files(settings or {}, files or {}, node_settings)}
        self.keeper = subprocess.Popen([sys.executable, "-I", processes.__file__, "keeper", self.name],
                                       stdin=subprocess.PIPE, text=True, start_new_session=True)
        try:
            self._tell(json.dumps(setup))
            self._wait()
        except BaseException:
            self.stop()
            raise

    @classmethod
    def existing(cls, name):
        """A detached cluster, or None. Removes what is left of one whose keeper was killed."""
        processes.sweep()
        path = processes.BASE / name / "setup.json"
        if not path.exists():
            return None
        cluster = cls.__new__(cls)
        cluster._begin(name, len(json.loads(path.read_text())["nodes"]) - 1, "/home")
        return cluster

    def detach(self):
        """Lets the cluster live until end()."""
        self._tell("detach")

    def end(self):
        """Ends a detached cluster."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
            keeper = os.pidfd_open(int((self.directory / "keeper.pid").read_text()))
            if processes.is_locked(self.directory):  # so that the process is still the keeper, not one which has got its number
                signal.pidfd_send_signal(keeper, signal.SIGTERM)
                select.select([keeper], [], [])
        processes.sweep()

    def _tell(self, line):
        self.keeper.stdin.write(f"{line}\n")
        self.keeper.stdin.flush()

    def _begin(self, name, nodes, shared):
        self.name = name
        self.nodes = [f"node{number + 1}" for number in range(nodes)]
        self.shared = pathlib.Path(shared)
        self.directory = processes.BASE / name
        self.configuration = self.directory / "etc"

    def _files(self, settings, files, node_settings):
        lines = dict(line.split("=", 1) for line in CONFIGURATION.format(login=self.address(processes.LOGIN)).split("\n") if line)
        lines.update(settings)
        memory = 64000  # nobody looks for it: a job gets what it asks for
        hardware = f"CPUs={len(os.sched_getaffinity(0))} RealMemory={memory} State=UNKNOWN {node_settings}"
        text = [f"{key}={value}\n" for key, value in lines.items() if key != "PartitionName"]
        text += [f"NodeName={node} NodeAddr={self.address(node)} {hardware}\n" for node in self.nodes]
        hosts = [f"{self.address(node)} {node}\n" for node in self.inhabited]
        return {"etc/slurm.conf": "".join([*text, f"PartitionName={lines['PartitionName']}\n"]), "etc/cgroup.conf": CGROUPS, "etc/epilog": "#!/bin/sh\n",
                "hosts": "127.0.0.1 localhost\n" + "".join(hosts), "munge.key": secrets.token_hex(64),
                **{f"etc/{file}": content for file, content in files.items()}}

    def _wait(self, timeout=300):
        """Until all nodes wait for jobs."""
        deadline = time.monotonic() + timeout
        while not all(map(self._pid, self.inhabited)) or self._idle() != len(self.nodes):
            if self.keeper.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster does not start\n{self.logs()}")
            time.sleep(0.05)

    def _pid(self, node):
        file = self.directory / f"{node}.pid"
        return int(file.read_text() or 0) if file.exists() else 0

    def _idle(self):
        states = self.run(processes.LOGIN, "sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
        return states.count("idle")

    @property
    def inhabited(self):
        """All nodes."""
        return [processes.LOGIN, *self.nodes]

    def address(self, node):
        return processes.address(self.inhabited, node)

    def entered(self, node, *argv, user=None, env=None, cwd=None):
        """(argv, environment) which run a command on a node, as root or as a user (system.User) after a login. `env` are changes."""
        identity = ["--reuid", user.uid, "--regid", user.gid, "--groups", ",".join(map(str, user.groups))] if user else []
        environment = user.environment(**(env or {})) if user else {"HOME": "/root", "USER": "root", "PATH": PATH, "LANG": "C.UTF-8", **(env or {})}
        command = ["nsenter", "--target", self._pid(node), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
                   "env", f"--chdir={cwd or (user.home if user else '/')}", "setpriv", "--pdeathsig=KILL", *identity, "--", *argv]
        return processes.joined(f"{self.name}/{node}", map(str, command)), {name: str(value) for name, value in environment.items() if value is not None}

    def run(self, node, *argv, user=None, env=None, cwd=None, check=False, timeout=300, **keywords):
        """Runs a command on a node to its end."""
        command, environment = self.entered(node, *argv, user=user, env=env, cwd=cwd)
        if "input" not in keywords:
            keywords.setdefault("stdin", subprocess.DEVNULL)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, **keywords)
        if check and result.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))} on {node} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result

    def set_epilog(self, text="#!/bin/sh\n"):
        """The script which root runs on a node at the end of each job."""
        new = self.configuration / "epilog.new"
        new.write_text(text)
        new.chmod(0o755)
        new.rename(self.configuration / "epilog")

    def start(self, node, *argv, user=None, env=None, cwd=None, **keywords):
        """Starts a command on a node."""
        command, environment = self.entered(node, *argv, user=user, env=env, cwd=cwd)
        for stream in ("stdin", "stdout", "stderr"):
            keywords.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen(command, env=environment, text=True, **keywords)

    def srun(self, *arguments, user=None, env=None, timeout=300, **keywords):
        """Runs `srun ARGUMENTS` on the login node to its end."""
        return self.run(processes.LOGIN, "srun", *arguments, user=user, env=env, timeout=timeout, **keywords)

    def kill(self, node):
        """Kills a node at once, as a loss of power does."""
        os.kill(self._pid(node), signal.SIGKILL)
        for top in processes.hierarchies():
            processes.end_processes(f"{top}/test-cluster-{self.name}/{node}")

    def left_on(self, node, user):
        """What is on a node of a user's containers and of anybody's jobs: processes, records, cgroups, mounts."""
        script = """ps -o args= -u "$1" | sed 's/^/process /'
find "/run/sarus/$1" 2>/dev/null | sed 's/^/file /'
find /sys/fs/cgroup -name 'sarus-*' -o -path '*/slurm_*/uid_*/job_*' | sed 's/^/cgroup /'
grep -E 'OCIBundleDir|squashfs' /proc/self/mountinfo | sed 's/^/mount /'"""
        return self.run(node, "sh", "-c", script, "sh", user.uid).stdout.splitlines()

    def left_by_sarus(self, node, user):
        """The same without Slurm's own cgroups, which nobody but slurmstepd removes."""
        return [line for line in self.left_on(node, user) if "sarus-" in line or not line.startswith("cgroup")]

    def logs(self, length=3000):
        """The ends of the daemons' logs."""
        files = [*self.directory.glob("*.log"), *self.directory.glob("*.logs/*.log")] if self.directory.exists() else []
        return "".join(f"--- {file.relative_to(self.directory)} ---\n{file.read_text(errors='replace')[-length:]}" for file in sorted(files))

    def stop(self):
        self.keeper.stdin.close()
        self.keeper.wait(timeout=300)
        processes.sweep()
