"""Bundles whose containers run one small dynamically linked program, for hooks that change which libraries it gets.

The root filesystems are made from the host's dynamic linker and C library and from libraries which the test compiles.
"""

import json
import os
import pathlib
import platform
import shutil
import subprocess

from .compiler import compile_program

LINKERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
LINKER = pathlib.Path(LINKERS[platform.machine()])
LIBC = pathlib.Path(subprocess.run(["gcc", "-print-file-name=libc.so.6"], check=True, capture_output=True, text=True).stdout.strip()).resolve()
MULTIARCH = f"/lib/{platform.machine()}-linux-gnu"


# For each file a line: "missing", or whether it can be opened for reading and for writing, and its first line.
PROBE = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** paths) {
    for (int i = 1; i < count; ++i) {
        char text[64] = "";
        int in = open(paths[i], O_RDONLY | O_NONBLOCK), out = open(paths[i], O_WRONLY | O_NONBLOCK);
        if (in >= 0 && strncmp(paths[i], "/dev/", 5) != 0 && read(in, text, sizeof text - 1) < 0) { strcpy(text, "?"); }
        text[strcspn(text, "\\n")] = 0;
        printf("%s%s%s%s%s\\n", access(paths[i], F_OK) == 0 ? "" : "missing", in < 0 ? "" : "r", out < 0 ? "" : "w", *text ? " " : "", text);
    }
    return 0;
}
"""


def install_probe(root):
    """A program `probe` in the container's path, which says what it may do with files."""
    return compile_program(root / "usr/bin/probe", PROBE)


def make_root(root, libc=True):
    """The directories of a merged-/usr system with the host's dynamic linker and C library; no linker cache, no tools."""
    for directory in ("etc", "proc", "dev", "sys", "tmp", f"usr{MULTIARCH}", "usr/lib64", "usr/bin"):
        (root / directory).mkdir(parents=True)
    for name in ("lib", "lib64", "bin"):
        (root / name).symlink_to(f"usr/{name}")
    if libc:
        shutil.copy(LIBC, root / f"usr{MULTIARCH}/libc.so.6")
        shutil.copy(LINKER.resolve(), root / f"usr{LINKER}")
    return root


class Bundle:
    def __init__(self, directory, runtime):
        self.directory = directory
        self.runtime = runtime
        self.root = directory / "rootfs"
        self.log = directory / "log"

    def run(self, arguments, hooks, environment=(), annotations=None, mounts=(), node="", user=0, readonly=False):
        """hooks: [(stage, program, {variable: value}, *arguments)]. Returns the completed process; `log` gets what crun's
        hooks say. `node`: commands of the shell which change what only this container's runtime and hooks see of the node."""
        config = {
            "ociVersion": "1.0.0",
            "process": {"args": list(map(str, arguments)), "cwd": "/", "env": ["PATH=/bin", *environment],
                        "user": {"uid": user, "gid": user}},
            "root": {"path": "rootfs", "readonly": readonly},
            "hostname": "test",
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"},
                       {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}, *mounts],
            "hooks": {},
            "linux": {"namespaces": [{"type": kind} for kind in ("mount", "pid", "ipc", "uts")],
                      "resources": {"devices": [{"allow": False, "access": "rwm"}]}},
            "annotations": {"run.oci.hooks.stdout": str(self.log), "run.oci.hooks.stderr": str(self.log), **(annotations or {})},
        }
        for stage, program, variables, *more in hooks:
            config["hooks"].setdefault(stage, []).append(
                {"path": str(program), "args": [program.name, *map(str, more)], "env": [f"{name}={value}" for name, value in variables.items()]})
        (self.directory / "config.json").write_text(json.dumps(config))
        self.log.write_text("")
        # crun refuses a node which has the cgroups of both versions mounted.
        script = f'umount /sys/fs/cgroup/unified 2>/dev/null; {node}\nexec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", self.runtime,
                   "--root", str(self.directory / "state"), "run", "--bundle", str(self.directory), f"hook-{os.getpid()}-{self.runtime}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
