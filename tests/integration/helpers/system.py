"""Users, processes, mounts and loop devices of the node that the tests run on."""

import dataclasses
import grp
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    uid: int
    gid: int
    home: pathlib.Path
    groups: tuple  # all gids, the primary one included

    def environment(self, **changes):
        """What a login gives to this user. A value of None drops the variable."""
        variables = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb"}
        variables.update(changes)
        return {name: str(value) for name, value in variables.items() if value is not None}

    @staticmethod
    def named(name, home=None):
        entry = pwd.getpwnam(name)
        return User(name, entry.pw_uid, entry.pw_gid, pathlib.Path(home or entry.pw_dir), tuple(os.getgrouplist(name, entry.pw_gid)))


def create_user(name, home_base, groups=()):
    """A new unprivileged user, a member of newly created `groups`."""
    for group in groups:
        subprocess.run(["groupadd", group], check=True)
    command = ["useradd", "--uid", str(_unused_uid()), "--create-home", "--home-dir", f"{home_base}/{name}", "--shell", "/bin/sh", "--user-group"]
    if groups:
        command += ["--groups", ",".join(groups)]
    subprocess.run([*command, name], check=True)
    user = User.named(name)
    user.home.chmod(0o755)
    return user


def _unused_uid():
    """A uid of which the node remembers nothing: folders in /run outlive the users of whom they are."""
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    remembered = [pathlib.Path("/run/containers"), pathlib.Path("/run/user")]
    return next(uid for uid in range(20000 + os.getpid() % 20000, 60000)
                if uid not in taken and not any((folder / str(uid)).exists() for folder in remembered))


def remove_user(user, groups=()):
    """Removes what create_user made, with the user's remaining processes."""
    kill_processes_of(user.uid)
    subprocess.run(["userdel", "--remove", user.name], check=False, capture_output=True)
    for group in groups:
        subprocess.run(["groupdel", group], check=False, capture_output=True)


def processes():
    """(pid, uid, command line) of every living process; zombies are left out."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            status = pathlib.Path(f"/proc/{entry}/status").read_text()
            command = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # it has ended
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if fields["State"].split()[0] not in "ZX":
            found.append((int(entry), int(fields["Uid"].split()[0]), command))
    return found


def kill_processes_of(uid):
    for pid, owner, _ in processes():
        if owner == uid:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass


def mounts():
    """Mount points of the tests' own mount namespace."""
    return sorted(line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def loop_devices():
    """{device name: backing file} of the loop devices in use."""
    found = {}
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found[path.parts[3]] = path.read_text().strip()
        except OSError:
            continue  # released in the meantime
    return found


def eventually(condition, timeout=5.0, interval=0.02):
    """The first true value of condition(), or the last value when the time is over."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(interval)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def wait_for_port(port, process, timeout=15):
    def ready():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with status {process.returncode}")
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    if not eventually(ready, timeout):
        raise RuntimeError(f"{process.args[0]} does not listen on port {port}")


def program(name):
    """The path of a program that a test needs."""
    path = shutil.which(name, path=PATH)
    if path is None:
        raise RuntimeError(f"{name} is missing: run scripts/install-dependencies --test")
    return path


def group_names(gids):
    return [grp.getgrgid(gid).gr_name for gid in gids]
