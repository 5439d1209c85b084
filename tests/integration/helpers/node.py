"""Another machine's files with this machine's kernel."""

import pathlib
import subprocess

from . import system
from .installation import SANDBOX

SETUP = """
if [ $# -gt 0 ]; then
    mount -t overlay -o lowerdir="$0",upperdir="$1/upper",workdir="$1/work" overlay "$1/root"
    cd "$1/root"
    mount -t tmpfs -o mode=0755 tmpfs home  # an overlay cannot be part of another one
else
    mount --rbind "$0" "$0"
    cd "$0"
fi
mkdir -p proc sys dev run tmp
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . .
umount -l .
echo ready
exec cat
"""


class Node:
    """A directory as the root of a mount and a PID namespace that a process keeps: programs there find nothing of this machine's files. It has
    a shell, mount, umount and cat. What they write goes to `changes`, a new directory, if it is given. `root` is a path of this machine to its files."""

    def __init__(self, root, changes=None):
        if changes:
            for name in ("upper", "work", "root"):
                (changes / name).mkdir(parents=True)
        command = [str(SANDBOX), "--fuse", "--hide-unified", "--", "unshare", "--pid", "--fork", "--kill-child", "sh", "-ec", SETUP, str(root),
                   *([str(changes)] if changes else [])]
        self.keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": system.PATH})
        assert self.keeper.stdout.readline() == "ready\n"
        # The sandbox and unshare have become one process, whose child is the first one inside.
        self.first = int(pathlib.Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text())
        self.root = pathlib.Path(f"/proc/{self.first}/root")

    def run(self, command, user=0, check=True, timeout=600, **variables):
        """The completed command of a shell, with its output as text; of root's or of the user's with this uid and gid."""
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--root", f"--setuid={user}", f"--setgid={user}", "/bin/sh", "-c", f"cd /; {command}"]
        result = subprocess.run(enter, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables}, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)
        assert not check or result.returncode == 0, (result.stdout, result.stderr)
        return result

    def stop(self):
        self.keeper.stdin.close()
        self.keeper.wait(timeout=300)


def busybox_root(directory, users=()):
    """A root filesystem with busybox and without any C library; `users` are (name, uid) with homes."""
    for name in ("bin", "etc", "home", "opt", "var", "usr"):
        (directory / name).mkdir(parents=True)
    program = directory / "bin/busybox"
    program.write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    program.chmod(0o755)
    for name in subprocess.run(["busybox", "--list"], check=True, capture_output=True, text=True).stdout.split():
        if name != "busybox":
            (directory / "bin" / name).symlink_to("busybox")
    accounts = [("root", 0), *users]
    (directory / "etc/passwd").write_text("".join(f"{name}:x:{uid}:{uid}::{'/home/' + name if uid else '/root'}:/bin/sh\n" for name, uid in accounts))
    (directory / "etc/group").write_text("".join(f"{name}:x:{uid}:\n" for name, uid in accounts))
    return directory
