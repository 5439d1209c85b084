"""Virtual machines with Debian's kernel: what the kernel of the node does not offer (cgroups of version 2 alone, AppArmor, SELinux).

A machine has a read-only root file system that the test makes, everything written to it goes to memory, and its first process runs scripts
of the test. Nothing is installed on the node: the packages of the kernel and of programs for the machine are downloaded and unpacked.
"""

import gzip
import lzma
import pathlib
import re
import shutil
import subprocess
import time

from . import debian, system

# In the order in which they are loaded; what they need comes with them.
MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "squashfs", "overlay", "loop", "fuse", "crc32c_generic", "ext4"]

# {architecture of Debian: (program and options, its console, its device for the results, "RESULTS" being the file behind it)}
EMULATORS = {
    # One thread for both processors: while one changes the kernel's code, another one that executes it may hang at boot.
    "amd64": (["qemu-system-x86_64", "-accel", "tcg,thread=single"], "ttyS0", "/dev/ttyS1", ["-serial", "file:RESULTS"]),
    "arm64": (["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a72", "-accel", "tcg,thread=multi"], "ttyAMA0", "/dev/vport0p1",
              ["-device", "virtio-serial-pci", "-chardev", "file,id=results,path=RESULTS", "-device", "virtserialport,chardev=results"]),
}

INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do insmod "$module" || echo "insmod $module failed"; done </modules
mount -t squashfs -o ro /dev/vda /lower
mount -t tmpfs -o mode=0755 tmpfs /memory
mkdir /memory/upper /memory/work
mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root
umount /proc
cd /root
mount --move . /
exec chroot . /vm/start
"""

START = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /dev/mqueue
mount -t devpts -o gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t securityfs securityfs /sys/kernel/security
mount -t selinuxfs selinuxfs /sys/fs/selinux 2>/dev/null
ln -s /proc/self/fd /dev/fd
ln -s /proc/self/fd/2 /dev/stderr
chmod 666 /dev/fuse /dev/kmsg
ip link set lo up
# check NAME COMMAND...: one result that the test reads
check() {
    name=$1
    shift
    # A pipe: the policy of SELinux may not let a container write to a file.
    { "$@" 2>&1; echo $? >/tmp/status; } </dev/null | cat >/tmp/output
    status=$(cat /tmp/status)
    { echo "<<<$name"; cat /tmp/output; echo; echo ">>>$status"; } >RESULTS
}
. /vm/common.sh
. "/vm/$checks.sh"
echo "<<<end
>>>0" >RESULTS
sync
reboot -f
"""


def debian_kernel(directory, suite="bookworm", architecture="amd64"):
    """(kernel image, folder of its modules) of a release's kernel for virtual machines, unpacked into a new directory."""
    releases, names = debian.Releases(directory.parent), [f"linux-image-cloud-{architecture}"]
    for name in names:
        names += [needed for needed in releases.dependencies(suite, architecture, name) if re.match("linux-(image|binary|modules)-", needed)]
    releases.packages(suite, architecture, names, directory)
    return next(directory.rglob("vmlinuz*")), next(directory.rglob("modules/*/kernel")).parent


def module_files(modules):
    """Paths of the modules, in an order in which they can be loaded; each says itself what it needs."""
    by_name = {path.name.partition(".")[0].replace("-", "_"): path for path in [*modules.rglob("*.ko"), *modules.rglob("*.ko.xz")]}
    order = []

    def add(name):
        if name not in by_name:
            return  # built in
        needs = re.search(rb"\0depends=([^\0]*)\0", module_content(by_name[name]))
        for other in needs[1].decode().split(",") if needs and needs[1] else []:
            add(other.replace("-", "_"))
        if by_name[name] not in order:
            order.append(by_name[name])

    for name in MODULES:
        add(name)
    return order


def module_content(path):
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def make_initramfs(modules, file, busybox="/bin/busybox"):
    tree = file.with_suffix(".tree")
    for name in ("bin", "proc", "dev", "lower", "memory", "root", "modules.d"):
        (tree / name).mkdir(parents=True)
    shutil.copy(busybox, tree / "bin" / "busybox")
    names = []
    for number, module in enumerate(module_files(modules)):
        names.append(f"/modules.d/{number}.ko\n")
        pathlib.Path(f"{tree}{names[-1].strip()}").write_bytes(module_content(module))
    (tree / "modules").write_text("".join(names))
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    listing = subprocess.run(["find", "."], cwd=tree, check=True, capture_output=True).stdout
    archive = subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=tree, input=listing, check=True, capture_output=True).stdout
    file.write_bytes(gzip.compress(archive, 1))
    return file


class Root:
    """The root file system of a machine, made from files of the node at the same paths. `busybox` may be one of another architecture."""

    def __init__(self, directory, busybox="/bin/busybox"):
        self.directory = pathlib.Path(directory)
        for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "run", "tmp", "vm", "home", "opt", "root"):
            (self.directory / name).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.directory / name).symlink_to(f"usr/{name}")
        shutil.copy(busybox, self.directory / "usr/bin/busybox")
        for name in subprocess.run(["/bin/busybox", "--list"], check=True, capture_output=True, text=True).stdout.split():
            if name != "busybox":
                (self.directory / "usr/bin" / name).symlink_to("busybox")
        for name in ("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf"):
            shutil.copy(f"/etc/{name}", self.directory / "etc" / name)

    def add_program(self, path, target=None):
        """A program with the libraries that it needs."""
        link, path = pathlib.Path(path), pathlib.Path(path).resolve()
        self._copy_file(path, self.directory / (target or str(path)).lstrip("/"))
        if path != link and not target and link.parent.resolve() / link.name != path:
            (self.directory / str(link).lstrip("/")).unlink(missing_ok=True)
            (self.directory / str(link).lstrip("/")).symlink_to(path)
        listed = subprocess.run(["ldd", str(path)], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            self._copy_file(pathlib.Path(library).resolve(), self.directory / library.lstrip("/"))

    @staticmethod
    def _copy_file(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy(source, target)

    def add_tree(self, path):
        """A folder with all that it holds, its owners and modes."""
        target = self.directory / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", str(path), str(target)], check=True)

    def write(self, path, text, mode=0o644):
        target = self.directory / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)


def _read_results(directory):
    """{name: (exit status, output)} of the checks of a machine."""
    text = (directory / "results").read_text(errors="replace")
    found = {}
    for name, output, status in re.findall(r"<<<(\S+)\r?\n(.*?)\r?\n?>>>(\d+)", text, re.S):
        found[name] = int(status), output.replace("\r", "").replace("\0", "").strip()
    if "end" not in found:
        console = (directory / "console").read_text(errors="replace")
        raise RuntimeError(f"the machine did not end its checks:\n{text[-4000:]}\n{console[-4000:]}")
    return found


def run(root, machines, kernel, initramfs, directory, architecture="amd64", timeout=900):
    """Boots machines side by side. `machines`: {name: options of the kernel}; each runs the shell script /vm/NAME.sh of the root file
    system, after /vm/common.sh, in `timeout` seconds. Returns {name of the machine: {name of the check: (exit status, output)}}."""
    directory.mkdir(parents=True, exist_ok=True)
    emulator, console, results, results_options = EMULATORS[architecture]
    root.write("/vm/start", START.replace("RESULTS", results), 0o755)
    disk = directory / "disk"
    subprocess.run([system.program("mksquashfs"), str(root.directory), str(disk), "-noappend", "-no-progress", "-noI", "-noD", "-noF", "-noX"],
                   check=True, capture_output=True)
    running = []
    try:
        for name, options in machines.items():
            (directory / name).mkdir()
            with (directory / name / "qemu").open("wb") as messages:
                running.append(subprocess.Popen(
                    [system.program(emulator[0]), *emulator[1:], "-m", "1024", "-smp", "2", "-nodefaults", "-display", "none",
                     "-no-reboot", "-serial", f"file:{directory}/{name}/console",
                     *(word.replace("RESULTS", f"{directory}/{name}/results") for word in results_options),
                     "-kernel", str(kernel), "-initrd", str(initramfs), "-append", f"console={console} panic=-1 checks={name} {options}",
                     "-drive", f"file={disk},format=raw,if=virtio,readonly=on"], stdin=subprocess.DEVNULL, stdout=messages, stderr=messages))
        deadline = time.monotonic() + timeout  # emulated processors are slow on a busy machine
        for process in running:
            process.wait(timeout=max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass  # what the machine has written tells how far it came
    finally:
        for process in running:
            process.kill()
            process.wait()
    return {name: _read_results(directory / name) for name in machines}
