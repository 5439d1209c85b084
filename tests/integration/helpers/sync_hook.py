"""slurm_global_sync_hook as tasks of a step call it, without Slurm and without a container."""

import json
import os
import subprocess

JOB = os.getpid()  # tasks of one job on a node meet, and other tests run beside this one
STEP = f"jobid-{JOB}-stepid-0"


class SyncHook:
    def __init__(self, program, directory, uid=None):
        self.program = program
        self.directory = directory
        self.uid = os.getuid() if uid is None else uid
        self.base = directory / "home"
        self.base.mkdir()
        (self.base / "user").mkdir()
        os.chown(self.base / "user", self.uid, -1)
        self.passwd = directory / "passwd"
        self.passwd.write_text(f"user:x:{self.uid}:{self.uid}::/:/bin/sh\n")
        self.tasks = []

    @property
    def steps(self):
        return self.base / "user/.oci-hooks/slurm-global-sync"

    def start(self, rank, tasks, node=0, timeout=60, **variables):
        slurm = {"SLURM_JOB_ID": JOB, "SLURM_STEPID": 0, "SLURM_NTASKS": tasks, "SLURM_PROCID": rank, "SLURM_NODEID": node, **variables}
        bundle = self.directory / f"bundle-{len(self.tasks)}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(
            {"root": {"path": "rootfs"}, "process": {"user": {"uid": self.uid, "gid": os.getgid()},
                                                     "env": [f"{name}={value}" for name, value in slurm.items() if value is not None]}}))
        state = {"ociVersion": "1.0.0", "id": "sync", "status": "creating", "pid": os.getpid(), "bundle": str(bundle)}
        environment = {"HOOK_BASE_DIR": str(self.base), "PASSWD_FILE": str(self.passwd), "HOOK_LOG": "none", "HOOK_TRUST_CONTAINER": "true",
                       "SLURM_GLOBAL_SYNC_TIMEOUT": str(timeout)}
        task = subprocess.Popen([str(self.program)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        task.stdin.write(json.dumps(state))
        task.stdin.close()
        task.stdin = None
        self.tasks.append(task)
        return task

    def end(self):
        for task in self.tasks:
            task.kill()
            task.communicate()


def results(tasks, timeout=300):
    """The exit status and the messages of each."""
    messages = [task.communicate(timeout=timeout)[1] for task in tasks]
    return [(task.returncode, message) for task, message in zip(tasks, messages)]
