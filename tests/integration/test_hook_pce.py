"""pce_hook: by itself, in Podman's precreate stage and in the engine's."""

import json
import os
import subprocess

import pytest
from test_hook_podman import podman, probed  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine, image  # noqa: F401 (fixtures)

CONFIG = {"zebra": 18446744073709551615, "process": {"env": ["A=1", "B=2", "A=3"]}, "mounts": [{"destination": "/proc"}]}


@pytest.fixture
def edit(build_dir, tmp_path):
    def call(edits=None, config=CONFIG, raw=None):
        environment = {}
        if edits is not None or raw is not None:
            (tmp_path / "edits.json").write_text(raw if raw is not None else json.dumps(edits))
            environment["PCE_INPUT"] = str(tmp_path / "edits.json")
        text = config if isinstance(config, str) else json.dumps(config)
        return subprocess.run([str(build_dir / "pce_hook")], input=text, env=environment, capture_output=True, text=True, check=False)

    return call


def test_without_edits_the_configuration_passes_unchanged(edit):
    result = edit()
    assert result.returncode == 0 and json.loads(result.stdout) == CONFIG and "18446744073709551615" in result.stdout


def test_mounts_are_appended_and_the_last_variable_is_replaced(edit):
    edits = [{"env": ["A=x=y", "NEW="], "mounts": [{"hostPath": "../a", "containerPath": "/b", "type": None, "options": ["rbind"]}]},
             {"env": ["NEW=2"], "mounts": [{"hostPath": "/c", "containerPath": "/proc", "type": "bind", "options": []}], "unknown": 1}]
    changed = json.loads(edit({"precreate": "0.1.0", "containerEdits": edits}).stdout)
    assert changed["process"]["env"] == ["A=1", "B=2", "A=x=y", "NEW=2"]
    assert changed["mounts"] == [{"destination": "/proc"}, {"destination": "/b", "source": "../a", "options": ["rbind"]},
                                 {"destination": "/proc", "source": "/c", "type": "bind", "options": []}]


def test_mounts_need_two_paths_alone(edit):
    """As in the sample file of the original. The runtime would fail without an option."""
    changed = json.loads(edit({"containerEdits": [{"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}]}, {}).stdout)
    assert changed == {"mounts": [{"destination": "/b", "source": "/a", "options": ["rbind"]}]}


def test_what_is_absent_is_created(edit):
    assert json.loads(edit({"containerEdits": [{"env": ["A=1"]}]}, {}).stdout) == {"process": {"env": ["A=1"]}}


@pytest.mark.parametrize("edits, message", [
    ("{", "pce_input: invalid json"), ("[]", "pce_input: invalid type"), ('{"containerEdits": {}}', "invalid type"),
    ('{"containerEdits": null}', "invalid type"), ('{"containerEdits": [{"env": null}]}', "invalid type"),
    ('{"containerEdits": [{"mounts": [{"hostPath": "/a"}]}]}', "'containerpath' is missing"),
    ('{"containerEdits": [{"env": ["NOTHING"]}]}', "invalid env entry"), ('{"containerEdits": [{"env": ["=x"]}]}', "empty environment variable name"),
    ('{"containerEdits": [{"netDevices": [{"hostInterfaceName": "eth9"}]}]}', "containeredits[0]: edits of 'netdevices' are not supported"),
    ('{"containerEdits": [{"deviceNodes": [{"path": "/dev/no-such"}]}]}', "failed to examine the device /dev/no-such"),
    ('{"containerEdits": [{"mounts": [{"hostPath": "/a", "containerPath": "b", "options": ["bind"]}]}]}', "mounts[0].containerpath: expected an absolute"),
    ('{"containerEdits": [], "containerEdits": []}', "edits.json: the key 'containeredits' is there twice"),
    ('{"precreate": 1}', "invalid type"), ("[" * 100000, "invalid json")])
def test_bad_edits_are_an_error_without_output(edit, edits, message):
    result = edit(raw=edits)
    assert (result.returncode, result.stdout) == (1, "") and message in result.stderr.lower()


@pytest.mark.parametrize("config", ["", "{", "[]", "null", "{} {}", '{"a": 1e400}', '{"a": 18446744073709551616}'])
def test_bad_configuration_is_an_error_without_output(edit, config):
    result = edit(None, config)
    assert (result.returncode, result.stdout) == (1, "") and "standard input" in result.stderr


def test_missing_edits_are_an_error(build_dir):
    for path in ("", "/no/such", "/", "relative"):
        result = subprocess.run([str(build_dir / "pce_hook")], input="{}", env={"PCE_INPUT": path}, capture_output=True, text=True, check=False)
        assert (result.returncode, result.stdout) == (1, "") and "PCE_INPUT: " in result.stderr


@pytest.mark.asroot
@pytest.mark.parametrize("changed, owner, mode", [("edits.json", 61234, 0o644), ("edits.json", 0, 0o646), ("edits.json", 0, 0o664),
                                                  ("", 61234, 0o755), ("", 0, 0o757), ("", 0, 0o775)])
@pytest.mark.parametrize("name", ["edits.json", "link.json"])
def test_edits_that_others_can_change_are_refused_by_root(build_dir, tmp_path, name, changed, owner, mode):
    """Edits can name hooks, which run as root."""
    folder = tmp_path / "edits"
    folder.mkdir(mode=0o755)
    (folder / "edits.json").write_text("{}")
    (folder / "link.json").symlink_to("edits.json")

    def run():
        return subprocess.run([str(build_dir / "pce_hook")], input="{}", env={"PCE_INPUT": str(folder / name)}, capture_output=True, text=True, check=False)

    assert run().returncode == 0
    (folder / changed).chmod(mode)
    os.chown(folder / changed, owner, 0)
    result = run()
    assert (result.returncode, result.stdout) == (1, "") and "is not root's alone" in result.stderr


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun"], indirect=True)
def test_the_engine_runs_no_hook_of_a_users_edits(hooks, image):  # noqa: F811
    ran = hooks.directory / "ran-by-a-user"
    program = hooks.program("hook", HOOK.format(file=ran))
    edits = hooks.program("edits.json", json.dumps({"containerEdits": [{"hooks": [{"hookName": "createContainer", "path": str(program)}]}]}))
    edits.chmod(0o666)
    hooks.add("10-pce", hooks.engine.prefix / "bin/pce_hook", ["precreate"], env=[f"PCE_INPUT={edits}"])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1 and f"PCE_INPUT: {edits} is not root's alone" in result.stderr
    assert not ran.exists()


# A program of the stage createContainer, which writes what its arguments say into a file. It reads the container's state, because
# crun fails with status -33 now and then where a hook does not.
HOOK = """#!/bin/sh
cat >/dev/null
echo "$*" >{file}
"""


@pytest.mark.asroot
def test_podman_applies_the_edits(podman, build_dir):  # noqa: F811
    (podman.directory / "file").write_text("from the host\n")
    hook = podman.directory / "hook"
    hook.write_text(HOOK.format(file=podman.directory / "ran"))
    hook.chmod(0o755)
    edits = {"containerEdits": [{"mounts": [{"hostPath": f"{podman.directory}/file", "containerPath": "/opt/file", "options": ["rbind", "ro"]}]},
                                {"deviceNodes": [{"path": "/dev/site", "hostPath": "/dev/fuse", "permissions": "rw"}],
                                 "hooks": [{"hookName": "createContainer", "path": str(hook), "args": ["hook", "was here"]}]}]}
    (podman.directory / "edits.json").write_text(json.dumps(edits))
    podman.add("pce", build_dir / "pce_hook", stages=["precreate"], PCE_INPUT=f"{podman.directory}/edits.json")
    assert probed(podman, "/opt/file", "/dev/site") == ["r from the host", "rw"]
    assert (podman.directory / "ran").read_text() == "was here\n"


@pytest.mark.asroot
def test_the_engine_applies_the_edits(hooks, image):  # noqa: F811
    ran = hooks.program("ran", "")
    program = hooks.program("hook", HOOK.format(file=ran))
    edits = hooks.program("edits.json", json.dumps({"containerEdits": [
        {"env": ["FROM_USER=2", "FROM_HOOK=3"], "hooks": [{"hookName": "createContainer", "path": str(program), "args": ["hook", "was here"]}]}]}))
    hooks.add("10-pce", hooks.engine.prefix / "bin/pce_hook", ["precreate"], env=[f"PCE_INPUT={edits}"])
    output = hooks.engine.output(image, "env", options=["--env", "FROM_USER=1"]).splitlines()
    assert "FROM_USER=2" in output and "FROM_HOOK=3" in output and "FROM_USER=1" not in output
    assert ran.read_text() == "was here\n"


@pytest.mark.asroot
def test_the_engine_gives_the_device_of_the_edits(hooks, image):  # noqa: F811
    edits = hooks.program("edits.json", json.dumps({"containerEdits": [{"deviceNodes": [{"path": "/dev/of-the-site", "hostPath": "/dev/zero"}]}]}))
    hooks.add("10-pce", hooks.engine.prefix / "bin/pce_hook", ["precreate"], env=[f"PCE_INPUT={edits}"])
    assert hooks.engine.output(image, "sh", "-c", "head -c 3 /dev/of-the-site | od -An -tx1").split() == ["00"] * 3
    assert not os.path.exists("/dev/of-the-site")


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun", "setuid-runc"], indirect=True)
@pytest.mark.parametrize("layout", ["--shared-root", "--unified"], ids=["as-mounted", "unified"])
def test_a_device_of_the_edits_can_be_used_beside_one_of_the_user(hooks, image, layout):  # noqa: F811
    """The rule that the hook writes holds in the cgroup which the user's device makes necessary, and nothing more than it."""
    edits = hooks.program("edits.json", json.dumps({"containerEdits": [
        {"deviceNodes": [{"path": "/dev/site", "hostPath": "/dev/fuse", "permissions": "rw"},
                         {"path": "/dev/read-only", "hostPath": "/dev/loop-control", "permissions": "r"}]}]}))
    hooks.add("10-pce", hooks.engine.prefix / "bin/pce_hook", ["precreate"], env=[f"PCE_INPUT={edits}"])
    hooks.engine = hooks.engine.variant(sandbox=(layout,))
    script = "(: <>/dev/site) && echo usable; (: </dev/read-only) && echo read; (: >/dev/read-only) && echo written; true"
    result = hooks.engine.run(image, "sh", "-c", script, options=["--device=/dev/kmsg:r"])
    assert result.stdout.split() == ["usable", "read"], result.stderr
    assert "Operation not permitted" in result.stderr
