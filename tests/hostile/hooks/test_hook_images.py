"""Images and states made to harm the hooks which read them as root: nothing outside of the image changes, nothing hangs, and whoever reads
the message gets one that he can read."""

import json
import os
import shutil
import socket
import struct
import subprocess

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_library
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH

pytestmark = pytest.mark.asroot

SECONDS = 300
MEMORY = 1 << 30
HOOKS = ["mpi_hook", "glibc_hook", "ldcache_hook", "mount_hook", "decorator_hook"]
ACTIVATION = "OCI_ATTACKED=all"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The image and the host's libraries as they are before somebody changes them."""
    directory = tmp_path_factory.mktemp("template")
    root = hook_bundle.make_root(directory / "rootfs")
    compile_library(directory / "host/libmpi.so.12.2.0", "int mpi(void) { return 1; }\n", "libmpi.so.12")
    compile_library(directory / "host/libdep.so.1.3", "int dep(void) { return 1; }\n", "libdep.so.1")
    compile_library(root / "usr/lib/libmpi.so.12.1.0", "int mpi(void) { return 0; }\n", "libmpi.so.12")
    compile_library(root / f"usr{MULTIARCH}/libc.so.6", "int old(void) { return 0; }\n", "libc.so.6", "GLIBC_2.5 { old; };\n")
    return directory


class Attack:
    """A root filesystem, a hook that is to edit it, and a directory of the host which the image would like to reach."""

    def __init__(self, directory, template, program):
        self.directory = directory
        self.program = program
        self.root = directory / "rootfs"
        shutil.copytree(template, directory, symlinks=True, dirs_exist_ok=True)
        self.outside = directory / "outside"
        self.outside.mkdir()
        (self.outside / "ld.so.cache").write_text("the host's\n")
        (self.outside / "libmpi.so.12").write_text("the host's\n")
        host = f"{directory}/host"
        (directory / "host/added").write_text("added\n")
        self.added = f"{host}/added"
        inventories = directory / "inventories"
        inventories.mkdir()
        (inventories / "vendor.cfg").write_text(json.dumps({"activation_flag": ACTIVATION.partition("=")[0], "driver_feature": ["files"], "inventory": {
            "files": {"libraries": [f"{host}/libdep.so.1.3"], "miscellaneous": [self.added], "directories": [host]}}}))
        self.arguments = {"mount_hook": [f"--mount=type=bind,src={self.added},dst=/etc/added",
                                         f"--mount=type=bind,src={host}/libdep.so.1.3,dst=<FI_PROVIDER_PATH>/libdep-fi.so"],
                          "decorator_hook": [f"--config-dir={inventories}"]}.get(program.name, [])
        self.environment = [ACTIVATION] if program.name == "decorator_hook" else []
        self.settings = {"mpi_hook": {"MPI_LIBS": f"{host}/libmpi.so.12.2.0", "MPI_DEPENDENCY_LIBS": f"{host}/libdep.so.1.3"},
                         "glibc_hook": {"GLIBC_LIBS": f"{LIBC}:{LINKER}"}, "mount_hook": {"LDCONFIG_PATH": "/sbin/ldconfig"}}.get(program.name, {})
        self.before = self.snapshot()

    def snapshot(self):
        return {str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns) for path in [self.outside, *self.outside.iterdir()]}

    def run(self, state=None, environment=(), settings=None):
        """Runs the hook in a mount namespace of its own, and then looks from there at what it did to the directory outside."""
        (self.directory / "config.json").write_text(json.dumps({"root": {"path": str(self.root)}, "process": {"env": [*self.environment, *environment]}}))
        if state is None:
            state = json.dumps({"ociVersion": "1.0.0", "id": "attack", "pid": 0, "bundle": str(self.directory)})
        script = 'outside=$1; shift; "$0" "$@"; status=$?; cat /proc/self/mountinfo >"$outside.mounts"; ' \
                 'cat "$outside"/* >&2; grep -c " $outside" /proc/self/mountinfo >&2; exit $status'
        command = ["unshare", "--mount", "--propagation", "private", "/usr/bin/prlimit", f"--as={MEMORY}", "/bin/sh", "-c", script,
                   str(self.program), str(self.outside), *self.arguments]
        result = subprocess.run(command, env=self.settings if settings is None else settings, input=state, capture_output=True, text=True,
                                errors="surrogateescape", timeout=SECONDS)
        seen = "the host's\nthe host's\n0\n"
        assert result.stderr.endswith(seen), "the directory outside is another one than before:\n" + result.stderr
        result.stderr = result.stderr[:-len(seen)]
        assert self.snapshot() == self.before
        assert 0 <= result.returncode < 128, f"the hook crashed: {result.returncode}\n{result.stderr}"
        assert not any(ord(character) < 32 and character != "\n" for character in result.stderr), repr(result.stderr)
        return result

    def mounts(self):
        """Where something was mounted in the image."""
        points = (line.split()[4] for line in (self.directory / "outside.mounts").read_text().splitlines())
        return {point.removeprefix(str(self.root)) for point in points if point.startswith(f"{self.root}/")}

    def works(self, **keywords):
        result = self.run(**keywords)
        assert result.returncode == 0, result.stderr

    def replace(self, path, make):
        """Puts something else in the place of a file or directory of the image."""
        target = self.root / path
        if target.is_symlink() or target.is_file():
            target.unlink()
        elif target.is_dir():
            target.rename(self.directory / "put aside")
        target.parent.mkdir(parents=True, exist_ok=True)
        make(target)


@pytest.fixture(params=HOOKS)
def attack(request, tmp_path, template, build_dir):
    return Attack(tmp_path, template, build_dir / request.param)


def test_image_that_is_as_it_should_be_gets_what_the_hook_brings(attack):
    """Without this, the tests below would prove little."""
    attack.works()
    expected = {"mpi_hook": {"/usr/lib/libmpi.so.12.1.0", "/usr/lib/libdep.so.1.3"}, "glibc_hook": {f"/usr{MULTIARCH}/libc.so.6"}, "ldcache_hook": set(),
                "mount_hook": {"/etc/added", "/usr/lib/libdep-fi.so"}, "decorator_hook": {attack.added}}[attack.program.name]
    assert expected <= attack.mounts()
    assert (attack.root / "etc/ld.so.cache").exists()


def make_socket(path):
    directory = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(directory)


def sparse(size, start=b""):
    def make(path):
        path.write_bytes(start)
        os.truncate(path, size)
    return make


def elf_header(section_offset, sections, segment_offset, segments):
    machine = struct.unpack_from("<H", LIBC.read_bytes(), 18)[0]
    return (b"\x7fELF\x02\x01\x01" + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, segment_offset, section_offset, 0, 64, 56, segments, 64, sections, 0))


NO_FILES = {
    "fifo": os.mkfifo,
    "socket": make_socket,
    "zero device": lambda path: os.mknod(path, 0o20666, os.makedev(1, 5)),
    "terminal": lambda path: os.mknod(path, 0o20666, os.makedev(5, 0)),
    "directory": lambda path: path.mkdir(),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a descriptor": lambda path: path.symlink_to("/proc/self/fd/0"),
    "empty": lambda path: path.write_bytes(b""),
    "huge": sparse(1 << 40),
    "huge ELF": sparse(1 << 40, elf_header((1 << 40) - 65535 * 64, 65535, (1 << 39), 65535)),
    "ELF beyond its end": lambda path: path.write_bytes(elf_header(2**64 - 64, 65535, 2**64 - 56, 65535)),
    "unreadable": lambda path: (path.write_bytes(b"x"), path.chmod(0)),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("place", ["usr/lib/libmpi.so.12.9.9", f"usr{MULTIARCH}/libm.so.6", "etc/ld.so.cache", "etc/ld.so.conf"])
def test_what_is_no_file_in_the_place_of_a_file(attack, place, kind):
    attack.replace(place, NO_FILES[kind])
    result = attack.run()
    if kind == "directory" and place == "etc/ld.so.cache":
        assert result.returncode == 0 or "/etc/ld.so.cache" in result.stderr  # it may have to be written, and cannot be
    elif kind.startswith("huge") and place == "etc/ld.so.conf":
        assert result.returncode == 1 and "/etc/ld.so.conf of the container is larger than the limit" in result.stderr
    else:
        assert result.returncode == 0, result.stderr


@pytest.mark.every_pair
@pytest.mark.parametrize("kind", ["fifo", "zero device", "huge ELF", "link to itself", "directory"])
def test_c_library_that_is_none(attack, kind):
    attack.replace(f"usr{MULTIARCH}/libc.so.6", NO_FILES[kind])
    attack.run()


@pytest.mark.parametrize("place", ["etc", "lib", "lib64", "usr/lib", f"usr{MULTIARCH}", "usr/lib64", "etc/ld.so.cache", "etc/ld.so.conf",
                                   "usr/lib/libmpi.so.12.1.0", "usr/lib/libmpi.so.12", "usr/lib/libdep.so.1.3", "usr/lib/libdep.so.1"])
@pytest.mark.parametrize("upwards", [False, True])
def test_links_to_the_host(attack, place, upwards):
    file = "/libmpi.so.12" if "lib" in place.rsplit("/", 1)[-1] and ".so" in place else "/ld.so.cache" if "ld.so" in place else ""
    attack.replace(place, lambda path: path.symlink_to(("/.." * 20 if upwards else "") + f"{attack.outside}{file}"))
    attack.run()


CONFIGURATIONS = {
    "includes itself": "include /etc/ld.so.conf\n",
    "includes everything": "include /etc/*\ninclude /*/*\n",
    "includes devices": "include /dev/*\ninclude /proc/self/*\n",
    "climbs": "include ../../../../../../etc/*.conf\n/../../../../..\n",
    "long line": "/" + "x" * 900_000 + "\n",
    "many directories": "".join(f"/usr/lib/{number}\n" for number in range(900)),
    "wildcards": "include /" + "*/" * 200 + "*\n",
    "costly pattern": "include /usr/lib/" + "*a" * 2000 + "b\n",
    "control characters": "/usr/\x1b[2J\x07lib\n\x00\n",
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_linker_configuration(attack, kind):
    (attack.root / "etc/ld.so.conf").write_text(CONFIGURATIONS[kind])
    (attack.root / "usr/lib" / ("a" * 250)).write_text("")
    attack.works()


def test_linker_configurations_that_include_each_other(attack):
    for number in range(200):
        (attack.root / f"etc/{number}.conf").write_text("include /etc/*.conf\n" * 50)
    (attack.root / "etc/ld.so.conf").write_text("include *.conf\n")
    result = attack.run()
    assert result.returncode == 1 and "/etc/ld.so.conf includes too much" in result.stderr


@pytest.mark.parametrize("content", [b"glibc-ld.so.cache1.1" + b"\xff" * 10_000, b"ld.so-1.7.0\0" + b"\xff" * 100, b"\0" * 100,
                                     b"glibc-ld.so.cache1.1" + struct.pack("<II", 2**32 - 1, 2**32 - 1) + bytes(1000)])
def test_damaged_linker_cache(attack, content):
    (attack.root / "etc/ld.so.cache").write_bytes(content)
    attack.works()


def test_names_that_would_mean_something_to_a_shell_or_a_terminal(attack):
    for name in ("libmpi.so.12.1.0;reboot", "libmpi.so.12\n.3", "libmpi.so.\x1b[31m12", "libmpi.so.12.$(id)", "libmpi.so.12.1.`id`", "libmpi.so. 12",
                 "libmpi.so.99999999999999999999", "libmpi.so.12." + ".".join("1" * 100), "-libmpi.so.12", "libmpi.so.12.1\udcff"):
        compile_library(attack.directory / "named", "int mpi(void) { return 0; }\n", "libmpi.so.12").rename(attack.root / "usr/lib" / name)
    attack.run()


def test_sonames_that_are_paths(attack):
    for number, soname in enumerate(("../../../../../../etc/passwd", "/etc/passwd", "", "libmpi.so.12/../../x", "libmpi.so.12\x1b[2J")):
        compile_library(attack.root / f"usr/lib/libmpi.so.12.1.{number + 1}", "int mpi(void) { return 0; }\n", soname or None)
    attack.run()


def test_library_path_of_the_container(attack):
    os.mkfifo(attack.root / "tmp/fifo")
    (attack.root / "tmp/loop").symlink_to("loop")
    odd = ["", ".", "/tmp/fifo", "/tmp/loop", "/proc/self/fd", str(attack.outside), "/.." * 100 + str(attack.outside), "$ORIGIN", "relative"]
    path = ":".join(odd + [f"/{number}" for number in range(50_000)])
    attack.works(environment=[f"LD_LIBRARY_PATH={path}"])


@pytest.mark.parametrize("attack", ["mount_hook"], indirect=True)
@pytest.mark.parametrize("value", ["/proc", "/proc/self/fd", "/sys/kernel", "/dev", "relative", "..", "", "/" + "x" * 5000, "/" + "a/" * 300,
                                   "/usr/lib\x1b[2J", "/etc/passwd", "OUTSIDE", "/../../../../../../../..OUTSIDE", "/tmp/link", "/tmp/loop", "/tmp/fifo", ":/opt"])
def test_path_of_providers_of_the_container(attack, value):
    (attack.root / "tmp/link").symlink_to(attack.outside)
    (attack.root / "tmp/loop").symlink_to("loop")
    os.mkfifo(attack.root / "tmp/fifo")
    attack.run(environment=[f"FI_PROVIDER_PATH={value.replace('OUTSIDE', str(attack.outside))}"])


@pytest.mark.parametrize("attack", ["mpi_hook", "glibc_hook"], indirect=True)
def test_settings_of_the_image_are_not_the_hooks(attack):
    """The hook's own variables come from its JSON file only."""
    environment = [f"{name}={value}" for name, value in attack.settings.items()]
    result = attack.run(environment=[*environment, "LD_PRELOAD=/tmp/x.so", "GLIBC_TUNABLES=x"], settings={"PATH": "/usr/bin:/bin"})
    assert result.returncode == 1
    assert ("MPI_LIBS" if attack.program.name == "mpi_hook" else "GLIBC_LIBS") in result.stderr


STATES = {
    "nothing": "",
    "no JSON": "state\n",
    "an array": "[]",
    "a number": "1e999",
    "cut off": '{"ociVersion": "1.0.0", "id": "x", "pid": ',
    "deep": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "no bundle": '{"id": "x", "pid": 0}',
    "bundle is a number": '{"id": "x", "pid": 0, "bundle": 5}',
    "bundle is gone": '{"id": "x", "pid": 0, "bundle": "/nonexistent"}',
    "bundle is relative": '{"id": "x", "pid": 0, "bundle": "../rootfs"}',
    "bundle holds NUL": '{"id": "x", "pid": 0, "bundle": "/tmp\\u0000/x"}',
    "pid is a text": '{"id": "x", "pid": "1", "bundle": "BUNDLE"}',
    "pid is negative": '{"id": "x", "pid": -1, "bundle": "BUNDLE"}',
    "pid is huge": '{"id": "x", "pid": 18446744073709551615, "bundle": "BUNDLE"}',
    "pid is gone": '{"id": "x", "pid": 2147483647, "bundle": "BUNDLE"}',
    "not UTF-8": '{"id": "\udcff\udcfe", "pid": 0, "bundle": "/nonexistent"}',
}


@pytest.mark.parametrize("kind", STATES)
def test_state_that_is_none(attack, kind):
    result = attack.run(state=STATES[kind].replace("BUNDLE", str(attack.directory)))
    assert result.returncode == 1, result.stderr
    assert "[ERROR]" in result.stderr and len(result.stderr) < 2000


def test_unknown_parts_of_a_state_are_no_reason_to_fail(attack):
    state = {"ociVersion": "9.9.9", "id": "x", "pid": 0, "bundle": str(attack.directory), "status": "unheard", "future": {"a": [1, 2 ** 64, None]},
             "annotations": {"": "", "\x1b[2J": "x" * 100_000}}
    attack.works(state=json.dumps(state))


def test_state_of_megabytes_is_refused_or_read(attack):
    state = {"ociVersion": "1.0.0", "id": "x", "pid": 0, "bundle": str(attack.directory), "annotations": {"a": "x" * (30 << 20)}}
    attack.run(state=json.dumps(state))
