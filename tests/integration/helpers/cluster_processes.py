"""The processes of a test cluster (cluster.py): `keeper` removes at the end what the kernel does not remove; `switch` is the init of a PID
namespace and has the bridge between the nodes; `node` is the init of one node.

Whichever of them is killed, the cluster ends: an init takes all processes below it along, and keeper and switch notice each other's end. If the
keeper was killed, cgroups and the directory of the cluster remain until sweep()."""

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

BASE = pathlib.Path("/run/test-clusters")  # one directory a cluster, locked by its keeper
LOGIN = "login"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
# Moves the caller into the cgroups CLUSTER[/NODE] and executes a command: `sh -c JOIN sh CLUSTER[/NODE] COMMAND...`.
JOIN = 'group=$1; shift; for file in /sys/fs/cgroup/*/test-cluster-$group/cgroup.procs; do echo 0 >"$file" || exit 1; done; exec "$@"'


def address(nodes, node):
    """All clusters have the same addresses: nothing leads out of their network."""
    return f"10.210.0.{nodes.index(node) + 1}"


def joined(group, command):
    return ["/bin/sh", "-c", JOIN, "sh", group, *command]


# --- cgroups ---

def hierarchies():
    """{mount point: (type, options)} of the node's cgroup file systems; whoever tests containers mounts others elsewhere."""
    controllers = {line.split()[0] for line in pathlib.Path("/proc/cgroups").read_text().splitlines()[1:]}
    found = {}
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()
        point = before.split()[4]
        if kind in ("cgroup", "cgroup2") and point.startswith("/sys/fs/cgroup"):
            found[point] = kind, ",".join(word for word in options.split(",") if word in controllers or word.startswith("name="))
    return found


def make_cgroups(cluster, node):
    for top in map(pathlib.Path, hierarchies()):
        for group in (top / f"test-cluster-{cluster}", top / f"test-cluster-{cluster}" / node):
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (group / file).exists():
                    (group / file).write_text((top / file).read_text())


def end_processes(group):
    """Kills what is in a cgroup (of one hierarchy) and below it. What is frozen dies as soon as it is thawed."""
    for directory, _, files in os.walk(group):
        with contextlib.suppress(OSError):
            if "freezer.state" in files:
                pathlib.Path(directory, "freezer.state").write_text("THAWED")
            for pid in pathlib.Path(directory, "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def remove_cgroups(group, timeout=300):
    """Ends the processes of a cgroup in all hierarchies, and removes it."""
    deadline = time.monotonic() + timeout
    remaining = [pathlib.Path(top, f"test-cluster-{group}") for top in hierarchies()]
    while remaining := [path for path in remaining if path.exists()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"cannot remove {remaining[0]}")
        for path in remaining:
            end_processes(path)
            for directory, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
        time.sleep(0.01)


# --- directories of clusters ---

@contextlib.contextmanager
def locked(directory):
    """Waits for a lock on a directory and has it for a while."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(directory):
    """A descriptor with a lock on a directory, or None if another process has one."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except BlockingIOError:
        os.close(descriptor)
        return None


def is_locked(directory):
    """Whether a keeper has the lock."""
    descriptor = try_lock(directory)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def claim(cluster):
    """Makes the directory of a cluster and locks it."""
    with locked(BASE.parent):
        BASE.mkdir(exist_ok=True)
        (BASE / cluster).mkdir(mode=0o700)
        return try_lock(BASE / cluster)


def remove(cluster):
    """Removes what a cluster has left; last its directory, by which sweep() finds it."""
    remove_cgroups(cluster)
    with locked(BASE.parent), contextlib.suppress(OSError):
        shutil.rmtree(BASE / cluster)
        BASE.rmdir()


def sweep():
    """Removes what clusters have left whose keeper was killed."""
    with locked(BASE.parent):
        claimed = {path.name: try_lock(path) for path in (BASE.iterdir() if BASE.exists() else ())}
    for cluster, descriptor in claimed.items():
        if descriptor is not None:
            remove(cluster)
            os.close(descriptor)


# --- the three roles ---

def child(role, arguments, group, namespaces, **keywords):
    """Starts this program in another role, as the init of new namespaces and in the cgroups of the cluster or of a node."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--propagation=private", "--net", *namespaces, "--",
               sys.executable, "-I", __file__, role, *arguments]
    return subprocess.Popen(joined(group, command), env=ENVIRONMENT, cwd="/", text=True, **keywords)


def setup_of(cluster):
    return json.loads((BASE / cluster / "setup.json").read_text())


def keeper(cluster):
    """Reads the setup from standard input. Ends the cluster when the input ends (but not after a line "detach"), at SIGTERM, and when the switch
    has ended."""
    setup = sys.stdin.readline()
    if not setup:
        return
    directory = BASE / cluster
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    descriptor = claim(cluster)
    try:
        (directory / "keeper.pid").write_text(str(os.getpid()))
        (directory / "setup.json").write_text(setup)
        for name, text in setup_of(cluster)["files"].items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(text)
            (directory / name).chmod(0o755 if text.startswith("#!") else 0o644)
        for node in setup_of(cluster)["nodes"]:
            make_cgroups(cluster, node)
        with open(directory / "switch.log", "w") as log:
            switch = child("switch", (cluster,), cluster, (), stdin=subprocess.PIPE, stdout=log, stderr=log)
        with selectors.DefaultSelector() as events:
            events.register(os.pidfd_open(switch.pid), selectors.EVENT_READ)
            events.register(0, selectors.EVENT_READ)
            while (ready := events.select()[0][0].fd) == 0 and os.read(0, 100).startswith(b"detach"):
                events.unregister(0)
                null = os.open(os.devnull, os.O_RDWR)
                for stream in range(3):  # whoever waits for the starting script's output does not wait for the cluster
                    os.dup2(null, stream)
        if ready != 0:
            sys.stderr.write(f"the cluster has ended by itself:\n{(directory / 'switch.log').read_text()}")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        remove(cluster)
        os.close(descriptor)


def ip(*commands):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), check=True, text=True)


def switch(cluster):
    """Ends when standard input ends."""
    nodes = setup_of(cluster)["nodes"]
    ip("link add bridge type bridge", "link set bridge up")
    inits = {node: child("node", (cluster, node), f"{cluster}/{node}", ("--uts", "--ipc", "--cgroup"),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE) for node in nodes}
    for init in inits.values():
        init.stdout.readline()  # its namespaces exist
    # Not by the number that the init has here: newer programs look for that in /proc, which is the host's.
    network = {node: f"/proc/{(BASE / cluster / f'{node}.pid').read_text()}/ns/net" for node in nodes}
    ip(*(f"link add {node} type veth peer name eth0 netns {network[node]}" for node in nodes),
       *(f"link set {node} master bridge up" for node in nodes))
    for init in inits.values():
        init.stdin.write("linked\n")
        init.stdin.flush()
    signal.signal(signal.SIGCHLD, lambda *_: reap(os.WNOHANG))
    sys.stdin.read()


def reap(options):
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0] != 0:
            pass


LIBC = ctypes.CDLL(None, use_errno=True)


def unmount(target):
    if LIBC.umount2(os.fsencode(target), 2) != 0:  # MNT_DETACH
        raise OSError(ctypes.get_errno(), f"umount of {target}")


def mount(kind, target, options="", source="none", flags=0):
    if LIBC.mount(os.fsencode(source), os.fsencode(target), kind and kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount of {source} on {target}")


def node(cluster, name):
    """The init of a node: mounts, network, daemons."""
    setup = setup_of(cluster)
    directory = BASE / cluster
    (directory / f"{name}.pid").write_text(os.readlink("/proc/self"))  # /proc is still the host's, and so is the number
    print("unshared", flush=True)
    socket.sethostname(name)

    def daemon(program, *arguments):
        with open(f"{program}.log", "w", opener=lambda path, flags: os.open(path, flags, dir_fd=logs)) as log:
            return subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    (directory / f"{name}.logs").mkdir()
    logs = os.open(directory / f"{name}.logs", os.O_RDONLY)
    key = (directory / "munge.key").read_bytes().ljust(64, b"-")
    mount("proc", "/proc")
    kept = {path: os.open(source, os.O_PATH) for path, source in
            {"/etc/slurm": directory / "etc", "/etc/hosts": directory / "hosts", **{path: path for path in setup["visible"]}}.items()}
    mount_cgroups(setup["hierarchies"])
    for path, mode in {"/run": "755", "/tmp": "1777", "/dev/shm": "1777", "/var/spool": "755"}.items():
        mount("tmpfs", path, f"mode={mode}")
    for path, descriptor in kept.items():
        if not os.path.exists(path):
            os.makedirs(path)
        mount(None, path, source=f"/proc/self/fd/{descriptor}", flags=0x1000 | 0x4000)  # MS_BIND | MS_REC
        os.close(descriptor)
    os.mknod("/run/fuse", 0o20666, os.makedev(10, 229))
    os.chmod("/run/fuse", 0o666)  # as on real nodes: everybody may mount with FUSE
    mount(None, "/dev/fuse", source="/run/fuse", flags=0x1000)

    for path in ("/run/munge", "/run/lock"):
        os.mkdir(path)
    pathlib.Path("/run/munge.key").write_bytes(key)
    os.chmod("/run/munge.key", 0o400)
    daemon("munged", "--foreground", "--force", "--key-file=/run/munge.key", "--pid-file=/run/munged.pid", "--seed-file=/run/munged.seed")
    sys.stdin.readline()  # linked
    ip("link set lo up", f"address add {address(setup['nodes'], name)}/24 dev eth0", "link set eth0 up")
    while not os.path.exists("/run/munge/munge.socket.2"):
        time.sleep(0.01)
    daemon(*(("slurmctld", "-D") if name == LOGIN else ("slurmd", "-D", "-N", name)))
    reap(0)


def mount_cgroups(tops):
    """A fresh /sys shows the interfaces of this network namespace, and fresh cgroup file systems begin at the node's cgroups."""
    links = {path: os.readlink(path) for path in pathlib.Path("/sys/fs/cgroup").iterdir() if path.is_symlink()}
    unmount("/sys")
    mount("sysfs", "/sys")
    mount("tmpfs", "/sys/fs/cgroup", "mode=755")
    for top, (kind, options) in tops.items():
        os.mkdir(top)
        mount(kind, top, options)
    for path, target in links.items():
        os.symlink(target, path)


if __name__ == "__main__":
    {"keeper": keeper, "switch": switch, "node": node}[sys.argv[1]](*sys.argv[2:])
