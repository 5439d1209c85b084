"""Runs hooks, each in a mount namespace of its own, in front of the root filesystem of a container that is about to start, and looks after
each at whether something covers a place of the OCI runtime's or the kernel's. try_destinations.py CASES RESULTS; a hook of createContainer."""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

# What the runtime or the kernel put there; and the root.
PLACES = ["", "dev", "dev/null", "dev/zero", "dev/full", "dev/random", "dev/urandom", "dev/tty", "dev/ptmx", "dev/fd", "dev/stdin", "dev/core", "dev/pts",
          "dev/pts/ptmx", "dev/shm", "dev/mqueue", "proc", "proc/self", "proc/sys", "proc/sys/kernel", "proc/sys/kernel/hostname", "sys", "sys/kernel", "sys/fs",
          "sys/fs/cgroup", "parent", "parent/deep", "parent/deep/proc", "parent/deep/sys"]
NEW_NAMESPACE, RECURSIVE, PRIVATE = 0x20000, 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


def look(root):
    """What is at each place, and where something is mounted below the root."""
    seen = {}
    for place in PLACES:
        try:
            status = os.lstat(f"{root}/{place}")
            seen[place] = [status.st_dev, status.st_ino if not place.startswith("proc/s") else 0, status.st_mode, status.st_rdev]
        except OSError:
            seen[place] = None
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return seen, sorted(line.split()[4].removeprefix(root) for line in lines if line.split()[4].startswith(f"{root}"))


def attempt(case, root):
    assert libc.unshare(NEW_NAMESPACE) == 0 and libc.mount(None, b"/", None, RECURSIVE | PRIVATE, None) == 0, os.strerror(ctypes.get_errno())
    if case["node"]:
        subprocess.run(["sh", "-c", case["node"]], check=True)
    before, mounts = look(root)
    state = json.dumps({"ociVersion": "1.0.2", "id": "attack", "status": "creating", "pid": 0, "bundle": case["bundle"]})
    hook = subprocess.run(case["command"], input=state, capture_output=True, text=True, env=case["variables"], cwd="/", timeout=300, check=False)
    after, mounts_now = look(root)
    return {"covered": [f"/{place}" for place in PLACES if before[place] != after[place]], "status": hook.returncode, "said": hook.stderr,
            "mounts": [mount for mount in mounts_now if mount not in mounts]}


def put_link(root, path, target):
    """The user's image has a link there; what was there stands beside it until it comes back."""
    place = pathlib.Path(f"{root}/{path}")
    aside = place.with_name(place.name + ".aside")
    if os.path.lexists(place):
        place.rename(aside)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)

    def restore():
        place.unlink()
        if os.path.lexists(aside):
            aside.rename(place)

    return restore


def main():
    sys.stdin.read()
    given = json.loads(pathlib.Path(sys.argv[1]).read_text())
    results = []
    for case in given["cases"]:
        restore = [put_link(given["root"], path, target) for path, target in case["links"].items()]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, json.dumps(attempt(case, given["root"])).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, encoding="utf-8") as answer:
            results.append(json.load(answer))
        os.waitpid(child, 0)
        for undo in restore:
            undo()
    pathlib.Path(sys.argv[2]).write_text(json.dumps(results))


main()
