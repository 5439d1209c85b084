"""Root's commands with the environment and in the directory of a user."""

import json

import pytest
from helpers import system

pytestmark = pytest.mark.asroot


@pytest.mark.parametrize("command", [("doctor", "--registry", "localhost:1"), ("pull", "localhost:1/image")], ids=lambda command: command[0])
@pytest.mark.parametrize("variable, file", [("HOME", ".docker/config.json"), ("XDG_RUNTIME_DIR", "containers/auth.json")])
def test_no_program_starts_that_a_user_names(root_engine, user, tmp_path, variable, file, command):
    """Some sudo leave HOME, and su the other. A name of a credential helper with slashes leads to a program in the working directory."""
    directory = user.home / f"trap-{variable}-{command[0]}"
    for path in (directory, (directory / file).parent, directory / "docker-credential-"):
        path.mkdir()
    trap = directory / "trap.sh"
    trap.write_text(f"#!/bin/sh\n: > {tmp_path}/sprung\n")
    trap.chmod(0o755)
    helper = "/../trap.sh"
    (directory / file).write_text(json.dumps({"credsStore": helper, "credHelpers": {"localhost:1": helper}}))
    for path in (directory, *directory.rglob("*")):
        user.own(path)
    result = root_engine.sarus(*command, env={variable: str(directory)}, cwd=directory)
    assert "localhost:1" in result.stdout + result.stderr and result.returncode != 0, result
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("variable, file", [("HOME", ".docker/config.json"), ("XDG_RUNTIME_DIR", "containers/auth.json")])
def test_no_helper_of_a_users_environment_starts(root_engine, user, tmp_path, variable, file):
    """With the user's PATH, a plain name is enough."""
    directory = user.home / f"helper-{variable}"
    for path in (directory, (directory / file).parent):
        path.mkdir()
    helper = directory / "docker-credential-mine"
    helper.write_text(f"#!/bin/sh\n: > {tmp_path}/sprung\n")
    helper.chmod(0o755)
    (directory / file).write_text(json.dumps({"credHelpers": {"localhost:1": "mine"}}))
    for path in (directory, *directory.rglob("*")):
        user.own(path)
    result = root_engine.sarus("pull", "localhost:1/image", env={variable: str(directory), "PATH": f"{directory}:{system.PATH}"})
    assert result.returncode != 0 and f'Root does not use the {variable} "{directory}", which is not root\'s' in result.stderr, result
    assert not (tmp_path / "sprung").exists()
