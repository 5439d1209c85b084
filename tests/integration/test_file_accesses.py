"""What a start asks of file systems that many nodes share: opens, stats and locks, counted by strace."""

import collections
import os
import re
import subprocess

import pytest
from helpers import installation

pytestmark = pytest.mark.asroot

LOOKUPS = {"open", "openat", "openat2", "creat"}
QUERIES = {"stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "statfs", "fstat", "fstatfs"}
LOCKS = {"flock"}
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)")
HOOKS = 3


class Access:
    """One system call on a file."""

    def __init__(self, name, arguments):
        self.name = name
        strings = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
        descriptor = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", arguments)
        path = strings[0] if strings and not name.startswith(("fstat", "flock", "fcntl")) else ""
        base = descriptor[1] if descriptor else ""
        self.path = os.path.normpath(path if path.startswith("/") else f"{base}/{path}") if path or base else ""
        self.is_check = "O_PATH" in arguments and "O_NOFOLLOW" in arguments or "AT_SYMLINK_NOFOLLOW" in arguments
        self.by_descriptor = not path
        locks = name == "fcntl" and ("F_SETLK" in arguments or "F_OFD_SETLK" in arguments)
        if "AT_STATX_DONT_SYNC" in arguments:
            name = ""  # answered by the node itself
        self.kind = "lock" if name in LOCKS or locks else "open" if name in LOOKUPS else "stat" if name in QUERIES else None


def trace(engine, image, directory, *options):
    """{program: [Access]} of one start, for the front end and the starter, until the OCI runtime is executed."""
    file = directory / "trace"
    command = ["strace", "--follow-forks", "--decode-fds=path", "--user", engine.user.name, "--trace", "%file,%desc,flock",
               "--string-limit", "4096", "--output", str(file), engine.program, "run", *options, image, "true"]
    if engine.sandbox:
        command = [str(installation.SANDBOX), *engine.sandbox, "--", *command]
    result = subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    found = {"sarus": [], "sarus-starter": []}
    program, main = "sarus", None
    for line in file.read_text().splitlines():
        call = CALL.match(line)
        if call is None or main not in (None, call["pid"]):
            continue
        main = call["pid"]
        if call["name"] == "execve":
            program = re.search(r'"([^"]*)"', call["arguments"])[1].rsplit("/", 1)[1]
            continue
        access = Access(call["name"], call["arguments"])
        if access.kind:
            found[program].append(access)
    return found


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun"])
def traced(request, engines, load_image, plain_busybox, tmp_path):
    """(engine, accesses) of one start with three hooks in an installation whose security checks are on."""
    engine = engines(*request.param.split("-"))
    image = load_image(engine, "busybox", plain_busybox)
    directory = engine.prefix / "etc" / "hooks.d"
    program = engine.prefix / "bin" / "mpi_hook"
    files = [directory / f"{number}0-count.json" for number in range(HOOKS)]
    for file in files:
        file.write_text('{"version": "1.0.0", "hook": {"path": "%s"}, "when": {"annotations": {"^x$": "^y$"}}, "stages": ["createRuntime"]}' % program)
        if engine.rootless:
            os.chown(file, engine.user.uid, engine.user.gid)
    installation.set_configuration(engine.prefix, hooksDir=str(directory), securityChecks=True)
    engine.output(image, "true")  # the first start on a node may have an image to unpack
    yield engine, trace(engine, image, tmp_path)
    for file in files:
        file.unlink()


def table(title, accesses):
    kinds = collections.Counter(access.kind for access in accesses)
    print(f"{title}: {kinds['open']} opens, {kinds['stat']} stats, {kinds['lock']} locks")
    for access in accesses:
        print(f"    {access.name} {access.path}{'' if not access.by_descriptor else ' (by descriptor)'}")
    return kinds


def test_at_most_nine_accesses_to_the_repository(traced):
    engine, accesses = traced
    repository = engine.user.home / ".sarus"
    # The starter may pass through the home, on the way to an installation there: that belongs to the installation.
    found = [access for access in accesses["sarus"] if access.path in (str(repository), str(repository.parent))]
    found += [access for program in accesses.values() for access in program if access.path.startswith(f"{repository}/")]
    kinds = table(f"repository, {engine.mode}", found)
    assert sum(kinds.values()) <= 9
    assert kinds["open"] == 2, "the image and its metadata"
    assert kinds["lock"] == 0


def test_no_path_is_checked_twice(traced, temp_dir):
    engine, accesses = traced
    checks = collections.Counter(access.path for access in accesses["sarus-starter"] if access.is_check and not access.by_descriptor)
    assert checks[str(engine.prefix / "bin" / "mpi_hook")] == 1
    # Bundles and containers are on the node, after the checks. A link and what it leads to are both looked at.
    made = ("/run/", str(engine.prefix / "var"), str(temp_dir), str(engine.prefix / "dropbear"), str(engine.prefix / "bin/hook_tool"))
    assert {path: count for path, count in checks.items() if count > 1 and not path.startswith(made)} == {}


def test_files_of_the_installation_are_looked_up_once_to_check_and_once_to_use(traced):
    engine, accesses = traced
    found = [access for program in accesses.values() for access in program
             if f"{access.path}/".startswith(f"{engine.prefix}/") and not access.path.startswith((f"{engine.prefix}/var", f"{engine.prefix}/dropbear"))]
    kinds = table(f"installation, {engine.mode}", found)
    names = collections.Counter(access.path for access in accesses["sarus-starter"] if access in found and not access.by_descriptor
                                and access.path != "/proc/self/exe")
    assert max(names.values()) <= 2, names
    assert kinds["lock"] == 0
    programs = [path for directory in ("bin", "libexec") for path in (engine.prefix / directory).iterdir()]  # each is checked, links twice
    assert sum(kinds.values()) - len(programs) - sum(path.is_symlink() for path in programs) <= 38
