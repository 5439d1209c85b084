"""Root's commands with the environment and in the directory of a user."""

import json

import pytest

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
