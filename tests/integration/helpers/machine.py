"""A machine to install packages on."""

import os
import subprocess

from helpers import system


class Machine:
    """This machine's files, with all its packages, below an overlay, in a mount namespace that a process keeps."""

    def __init__(self, directory):
        self.root, self.changes = directory / "root", directory / "upper"
        setup = (f"mount -t tmpfs tmpfs {directory} && cd {directory} && mkdir upper work root && "
                 f"mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root && "
                 "mount --rbind /proc root/proc && mount --rbind /dev root/dev && mount --rbind /sys root/sys && mount -t tmpfs tmpfs root/run && "
                 "echo ready && exec cat")
        self.keeper = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-ec", setup],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout.readline() == "ready\n"

        self.enter = ["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt"]

    def run(self, command, check=True):
        """The output of a shell command of root's on the machine."""
        result = subprocess.run([*self.enter, "chroot", self.root, "sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env={"PATH": system.PATH, "HOME": "/root"}, timeout=120)
        assert not check or result.returncode == 0, result.stdout
        return result.stdout

    def put(self, file):
        subprocess.run([*self.enter, "tee", f"{self.root}/root/{file.name}"], input=file.read_bytes(), check=True, stdout=subprocess.DEVNULL)
        return f"/root/{file.name}"

    def added(self):
        """What is here and not on the real machine. The package manager's own records change for good."""
        listing = subprocess.run([*self.enter, "find", self.changes, "-mindepth", "1", "-printf", "/%P\n"], check=True, capture_output=True, text=True)
        own = ("/var/lib/dpkg/", "/var/lib/rpm", "/var/log/", "/var/cache/", "/root/", "/home/")
        return {path for path in listing.stdout.splitlines() if not path.startswith(own) and not os.path.lexists(path)}

    def stop(self):
        self.keeper.stdin.close()
        self.keeper.wait()
