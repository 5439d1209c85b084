"""sethomevar_hook: by itself, in Podman's precreate stage and in the engine's."""

import json
import os
import pwd
import subprocess

import pytest
from test_hook_podman import podman  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine, image  # noqa: F401 (fixtures)


def run(build_dir, config, **environment):
    text = config if isinstance(config, str) else json.dumps(config)
    return subprocess.run([str(build_dir / "sethomevar_hook")], input=text, env=environment, capture_output=True, text=True, check=False, timeout=60)


def configuration(uid, *variables):
    return {"zebra": 18446744073709551615, "process": {"user": {"uid": uid, "gid": uid}, "env": list(variables)}}


@pytest.fixture
def accounts(open_directory):
    """A passwd file with lines that are no entries."""
    file = open_directory / "passwd"
    file.write_text(f"\n+::::::\nme:x:{os.getuid()}:1::/users/me:/bin/sh\nother:x:61234:1::/users/other:/bin/sh\nhomeless:x:61235:1:::/bin/sh\n")
    return file


@pytest.mark.asroot
@pytest.mark.parametrize("variables, expected", [([], ["HOME=/users/other"]), (["HOME=/a", "A=1", "HOME=/b"], ["HOME=/a", "A=1", "HOME=/users/other"])])
def test_the_last_home_is_replaced_by_the_accounts(build_dir, accounts, variables, expected):
    result = run(build_dir, configuration(61234, *variables), PASSWD_FILE=str(accounts))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == configuration(61234, *expected) and "18446744073709551615" in result.stdout


def test_accounts_of_the_node_need_no_setting(build_dir):
    result = run(build_dir, configuration(os.getuid()))
    assert json.loads(result.stdout)["process"]["env"] == [f"HOME={pwd.getpwuid(os.getuid()).pw_dir}"]


@pytest.mark.asroot
def test_directory_service_is_asked_for_an_unknown_account_as_the_user(build_dir, open_directory):
    program = open_directory / "getent"
    program.write_text('#!/bin/sh\n/usr/bin/env >&2\necho "someone:x:$2:1::/of/uid$(/usr/bin/id -u):/bin/sh"\n')
    program.chmod(0o755)
    result = run(build_dir, configuration(61239), PATH=str(open_directory), SECRET="1")
    assert json.loads(result.stdout)["process"]["env"] == ["HOME=/of/uid61239"], result.stderr
    assert "SECRET" not in result.stderr


@pytest.mark.asroot
def test_directory_service_that_does_not_answer_is_an_error(build_dir, open_directory):
    program = open_directory / "getent"
    program.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
    program.chmod(0o755)
    result = run(build_dir, configuration(61239), PATH=str(open_directory))
    assert (result.returncode, result.stdout) == (1, "") and "did not answer within 10 s" in result.stderr


@pytest.mark.asroot
@pytest.mark.parametrize("config, message", [(configuration(61236), "There is no account with the uid 61236"), (configuration(61235), "no home directory"),
                                             ("{", "standard input"), ({"process": {"env": 1, "user": {"uid": 61234}}}, "process.env"),
                                             ({"ociVersion": "1", "id": "a", "pid": 7, "status": "creating", "bundle": "/"}, "supports the stage precreate only")])
def test_failure_is_an_error_without_output(build_dir, accounts, config, message):
    result = run(build_dir, config, PASSWD_FILE=str(accounts))
    assert (result.returncode, result.stdout) == (1, "") and message in result.stderr


@pytest.mark.asroot
def test_podman_sets_the_callers_home(podman, build_dir):  # noqa: F811
    accounts = podman.directory / "passwd"
    accounts.write_text(f"caller:x:{podman.user.uid}:1::/users/caller:/bin/sh\n")
    podman.add("home", build_dir / "sethomevar_hook", stages=["precreate"], PASSWD_FILE=accounts)
    copied = podman.root / "usr/bin/sh"
    subprocess.run(["cp", "/bin/busybox", str(copied)], check=True)
    result = podman.run("/bin/sh", "-c", "echo $HOME", options=["--env=HOME=/of/the/command"])
    assert result.stdout == "/users/caller\n", result.stderr


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun", "rootless-crun"], indirect=True)
def test_the_engine_sets_the_callers_home(hooks, image):  # noqa: F811
    accounts = hooks.program("passwd", f"caller:x:{hooks.engine.user.uid}:1::/users/caller:/bin/sh\n")
    hooks.add("60-home", hooks.engine.prefix / "bin/sethomevar_hook", ["precreate"], env=[f"PASSWD_FILE={accounts}"])
    assert hooks.engine.output(image, "sh", "-c", "echo $HOME") == "/users/caller"
