"""How an image gets into the repository: what is found there if publishing it fails or is killed at any of its system calls.

Two versions of an image differ in their files and in their environment, and have equally large squashfs files.
"""

import json
import os
import re
import shutil
import subprocess
import threading

import pytest

pytestmark = pytest.mark.asroot

CALLS = ("access,chdir,close,fchmod,fcntl,fdatasync,flock,fstat,fsync,ftruncate,getdents64,getcwd,link,linkat,lseek,lstat,mkdir,mkdirat,newfstatat,"
         "open,openat,pread64,pwrite64,read,readlink,readlinkat,rename,renameat,renameat2,rmdir,stat,statx,symlink,symlinkat,unlink,unlinkat,utimensat,write")
TARGET = "docker.io/library/target"


@pytest.fixture
def engine(setuid_engine, images, user):
    """The engine, with the images load/library/old and load/library/new; the repository is emptied before and afterwards."""
    repository = user.home / ".sarus"

    def clear():
        shutil.rmtree(repository / "images", ignore_errors=True)
        (repository / "metadata.json").unlink(missing_ok=True)

    clear()
    for version in ("old", "new"):
        image = images.busybox({"Env": [f"VERSION={version}", "PATH=/bin"]}, extra=lambda layer, text=version: layer.file("version", text))
        setuid_engine.load(images.archive(image, f"publication-{version}"), version)
    assert len({squashfs(setuid_engine, f"load/library/{version}").stat().st_size for version in ("old", "new")}) == 1
    yield setuid_engine
    clear()


def squashfs(engine, name):
    return engine.user.home / ".sarus" / "images" / f"{name}/latest.squashfs"


def tag(engine, version, target="target"):
    result = engine.sarus("tag", f"load/library/{version}", target)
    assert result.returncode == 0, result.stdout + result.stderr


def strace(engine, *arguments, options):
    command = ["strace", "--quiet=all", "--user", engine.user.name, *options, engine.program, *arguments]
    return subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


def steps_of(engine, arguments, begin, directory):
    """[(call, number)] of a command's system calls on files, from the one that `begin` matches to what it prints in the end."""
    file = directory / "trace"
    result = strace(engine, *arguments, options=["--trace", CALLS, "--output", str(file)])
    assert result.returncode == 0, result.stderr
    numbers, steps = {}, []
    for line in file.read_text().splitlines():
        call = line.split("(")[0]
        numbers[call] = numbers.get(call, 0) + 1
        if line.startswith("write(1,") and steps:
            break
        if steps or re.search(begin, line):
            steps.append((call, numbers[call]))
    assert len(steps) > 20, steps
    return steps


def version_in_force(engine, step, name=TARGET):
    """Which version a command of this moment uses. Its two files are found as `run` finds them."""
    result = engine.sarus("inspect", "--json", name)
    assert result.returncode == 0, f"{step}: neither: {result.stderr}"
    environment = json.loads(result.stdout)["env"][0].removeprefix("VERSION=")
    files = {version: os.stat(squashfs(engine, f"load/library/{version}")).st_ino for version in ("old", "new")}
    assert os.stat(squashfs(engine, name)).st_ino == files[environment], f"{step}: mixed: the environment of {environment}"
    return environment


def check_in_force(engine, step, status):
    version = version_in_force(engine, step)
    if status in (0, 1):
        assert version == ("new" if status == 0 else "old"), f"{step}: status {status}, but {version} is in force"
    listed = engine.sarus("images")  # it repairs
    assert (listed.returncode, listed.stdout.count("\n")) == (0, 4), f"{step}: {listed.stdout}{listed.stderr}"
    assert version_in_force(engine, step) == version, f"{step}: not the same after a repair"


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["signal=KILL", "error=EIO"])
def test_publication_that_is_interrupted_at_any_call_leaves_the_old_image_or_the_new_one(engine, tmp_path, fault):
    command = ["tag", "load/library/new", "target"]
    tag(engine, "old")
    steps = steps_of(engine, command, "^linkat", tmp_path)
    assert len([call for call, _ in steps if call.startswith("rename")]) == 3, "squashfs file, metadata, index"
    for call, number in steps:
        tag(engine, "old")
        result = strace(engine, *command, options=["--trace", call, "--output", "/dev/null", "--inject", f"{call}:{fault}:when={number}"])
        check_in_force(engine, f"{fault} at {call} {number}", result.returncode)
    tag(engine, "old")
    assert version_in_force(engine, "in the end") == "old"
    assert engine.sarus("images", "--verify").returncode == 0


@pytest.mark.parametrize("skipped", [0, 1, 2], ids=["squashfs", "metadata", "index"])
def test_renames_that_keep_failing_leave_what_runs_and_what_the_status_says(engine, tmp_path, skipped):
    command = ["tag", "load/library/new", "target"]
    tag(engine, "old")
    renames = [(call, number) for call, number in steps_of(engine, command, "^linkat", tmp_path) if call.startswith("rename")]
    call, number = renames[skipped]
    tag(engine, "old")
    result = strace(engine, *command, options=["--trace", call, "--output", "/dev/null", "--inject", f"{call}:error=EIO:when={number}+"])
    expected = "old" if skipped == 0 else "new"
    assert result.returncode == (1 if skipped == 0 else 0)
    assert ("is stored, but not yet completely" in result.stderr) == (skipped > 0)
    assert engine.output(TARGET, "sh", "-c", "echo $VERSION; cat /version") == f"{expected}\n{expected}"
    check_in_force(engine, call, result.returncode)
    names = sorted(path.name for path in squashfs(engine, TARGET).parent.iterdir() if path.suffix != ".used")
    assert names == ["latest.meta", "latest.squashfs"]
    metadata = json.loads((squashfs(engine, TARGET).parent / "latest.meta").read_text())
    assert metadata["Env"][0] == f"VERSION={expected}"


@pytest.mark.parametrize("fault", ["signal=KILL", "error=EIO"])
def test_first_publication_that_is_interrupted_between_its_renames_is_found(engine, tmp_path, fault):
    command = ["tag", "load/library/new", "target"]
    renames = [(call, number) for call, number in steps_of(engine, command, "^linkat", tmp_path) if call.startswith("rename")]
    engine.sarus("rmi", "target")
    call, number = renames[1]
    result = strace(engine, *command, options=["--trace", call, "--output", "/dev/null", "--inject", f"{call}:{fault}:when={number}"])
    assert result.returncode in (0, -9)
    check_in_force(engine, f"{fault} at {call} {number}", 0)


def test_load_that_is_interrupted_between_its_renames_leaves_one_of_the_images(engine, images, open_directory):
    archives = {version: images.directory / f"publication-{version}.tar" for version in ("old", "new")}
    engine.load(archives["old"], "target")
    command = ["load", str(archives["new"]), "target"]
    renames = [(call, number) for call, number in steps_of(engine, command, r"\.meta-", open_directory) if call.startswith("rename")]
    for call, number in renames:
        for fault in ("signal=KILL", "error=EIO"):
            engine.load(archives["old"], "target")
            result = strace(engine, *command, options=["--trace", call, "--output", "/dev/null", "--inject", f"{call}:{fault}:when={number}"])
            output = engine.output("load/library/target", "sh", "-c", "echo $VERSION; cat /version").split("\n")
            assert output in (["old", "old"], ["new", "new"]), f"{fault} at {call} {number}: {result.stderr}"
            if fault == "error=EIO":
                assert output[0] == ("new" if result.returncode == 0 else "old"), f"{call} {number}: status {result.returncode}"


def test_runs_beside_alternating_publications_see_one_version(engine):
    tag(engine, "old")
    done = threading.Event()
    failures = []

    def alternate():
        version = "new"
        while not done.is_set():
            result = engine.sarus("tag", f"load/library/{version}", "target")
            if result.returncode != 0:
                failures.append(result.stderr)
            version = "old" if version == "new" else "new"

    writer = threading.Thread(target=alternate)
    writer.start()
    try:
        seen = [engine.output(TARGET, "sh", "-c", "echo $VERSION; cat /version").split("\n") for _ in range(60)]
    finally:
        done.set()
        writer.join()
    assert failures == []
    assert all(environment == files for environment, files in seen), seen
    assert len({files for _, files in seen}) == 2, "only one version was ever seen"
