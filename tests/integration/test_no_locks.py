"""File systems without flock(2), such as Lustre without the mount option: commands warn, name the file, and go on."""

import subprocess

import pytest
from helpers import installation

pytestmark = pytest.mark.asroot


def without_locks(engine, *arguments):
    command = ["strace", "--quiet=all", "--follow-forks", "--user", engine.user.name, "--trace", "flock", "--output", "/dev/null", "--inject",
               "flock:error=ENOLCK", engine.program, *map(str, arguments)]
    if engine.sandbox:
        command = [str(installation.SANDBOX), *engine.sandbox, "--", *command]
    return subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120)


def check(result, path):
    assert result.returncode == 0, result.stdout + result.stderr
    assert f'The filesystem of "{path}" has no file locks' in result.stderr
    return result


def test_commands_that_change_the_repository(setuid_engine, images, plain_busybox):
    repository = setuid_engine.user.home / ".sarus"
    check(without_locks(setuid_engine, "load", images.archive(plain_busybox, "unlocked"), "unlocked"), repository / "metadata.json")
    check(without_locks(setuid_engine, "tag", "load/library/unlocked", "unlocked"), repository / "metadata.json")
    listed = without_locks(setuid_engine, "images")
    assert (listed.returncode, listed.stderr) == (0, "") and "load/library/unlocked" in listed.stdout
    check(without_locks(setuid_engine, "prune"), repository / "cache/lock")
    check(without_locks(setuid_engine, "rmi", "unlocked"), repository / "metadata.json")
    check(without_locks(setuid_engine, "rmi", "load/library/unlocked"), repository / "metadata.json")


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_rootless_containers(engines, load_image, plain_busybox, temp_dir, runtime):
    """Mounted through FUSE (crun), and unpacked (runc: see FUSE in conftest.py)."""
    engine = engines("rootless", runtime)
    image = load_image(engine, "busybox", plain_busybox)
    state = temp_dir / f"sarus-{engine.user.uid}" / "state"
    for _ in range(2):
        result = check(without_locks(engine, "run", "--name=unlocked", image, "echo", "runs"), state / ".unlocked.json")
        assert result.stdout == "runs\n"
