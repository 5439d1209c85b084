"""check-node: the report of an administrator's node."""

import re
import subprocess

import pytest


def check(engine, *options):
    argv, identity = engine.command(*options)
    argv = [str(engine.prefix / "share/sarus/check-node") if word == engine.program else word for word in argv]
    return subprocess.run(argv, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=300, **identity)


def found(result, state):
    return [name for each, name in re.findall(r"(?m)^(passed|FAILED|NOT CHECKED): +(.*)", result.stdout) if each == state]


@pytest.mark.thorough
def test_containers_of_a_sound_node_pass(engine):
    result = check(engine)
    assert found(result, "FAILED") == [], result.stdout
    assert len(found(result, "passed")) >= 13 and "Slurm: tasks of a step: no --slurm OPTIONS" in found(result, "NOT CHECKED")
    assert (result.returncode, result.stderr) == (2, "") and result.stdout.endswith("\nNot everything could be checked on this node.\n")


def test_what_fails_is_shown_with_its_messages(rootless_engine):
    """There is no Slurm for srun to ask."""
    engine = rootless_engine
    result = check(engine, "--slurm", "--no-such-option")
    failed, = found(result, "FAILED")
    assert re.fullmatch(r"Slurm: tasks of a step \(status \d+\)", failed)
    assert re.search(r"(?m)^FAILED: .*\n +\| srun: ", result.stdout), result.stdout
    assert result.returncode == 1 and result.stdout.endswith("\nSomething failed. Please send this report to the developers.\n")
    assert len(found(result, "passed")) >= 13
    assert re.search(r"(?m)^distribution +Debian", result.stdout) and re.search(r"(?m)^ok +configuration", result.stdout)
    assert not re.search(rf"\b{engine.user.name}\b", result.stdout.replace(str(engine.prefix), ""))
    assert list(engine.user.home.glob("sarus-check-*")) == []


@pytest.mark.parametrize("options, message", [
    (["--prefix", "/nonexistent"], "/nonexistent/bin/sarus does not exist or cannot be executed: name the installation with --prefix PREFIX"),
    (["--directory", "/proc"], "nothing can be written to /proc: name another directory with --directory DIRECTORY"),
    (["--slurm"], "option '--slurm' needs a value")])
def test_mistakes(rootless_engine, options, message):
    result = check(rootless_engine, *options)
    assert result.returncode == 1 and result.stdout == "" and result.stderr.splitlines()[-1] == f"check-node: {message}"
