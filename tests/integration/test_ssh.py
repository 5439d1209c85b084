"""`sarus ssh-keygen` and `sarus run --ssh`: the engine's side, with a stand-in for the SSH hook."""

import contextlib
import json
import os

import pytest
from helpers import installation

MISSING_KEYS = "Failed to check the SSH keys. Hint: try to generate the SSH keys with 'sarus ssh-keygen'."

# As the real one, it keeps the keys in <HOOK_BASE_DIR>/<user>/.oci-hooks/ssh/keys. Besides, it notes how it was called.
STAND_IN = """#!/bin/sh
command=$1
shift
user=$(awk -F: -v uid="$(id -u)" '$3 == uid {print $1; exit}' "$PASSWD_FILE" /etc/passwd 2>/dev/null)
keys=$HOOK_BASE_DIR/$user/.oci-hooks/ssh/keys
case "$command" in
    keygen)
        [ "$1" = --overwrite ] || [ ! -e "$keys/id_dropbear" ] || { echo "keys exist" >&2; exit 1; }
        mkdir -p "$keys" && { echo "options=$*"; echo "ids=$(id -u) $(id -g)"; env; } > "$keys/id_dropbear" ;;
    check-user-has-sshkeys) [ -e "$keys/id_dropbear" ] || { echo "no keys in $keys" >&2; exit 1; } ;;
    start-ssh-daemon) cat > "$RECORD" ;;
esac
"""


@contextlib.contextmanager
def with_stand_in(engine):
    program = engine.prefix / "bin" / "ssh_hook"
    before = program.read_bytes() if program.exists() else None
    program.unlink(missing_ok=True)
    program.write_text(STAND_IN)
    program.chmod(0o755)
    own(engine, program)
    hook = engine.prefix / "etc/hooks.d/07-ssh-hook.json"
    yield engine
    hook.unlink(missing_ok=True)
    program.unlink()
    if before is not None:
        program.write_bytes(before)
        program.chmod(0o755)
    (keys(engine) / "id_dropbear").unlink(missing_ok=True)


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def ssh_engine(request, engines):
    with with_stand_in(engines(*request.param.split("-"))) as engine:
        yield engine


@pytest.fixture
def engine_with_keys(any_engine):
    with with_stand_in(any_engine) as engine:
        assert engine.sarus("ssh-keygen").returncode == 0
        yield engine


def own(engine, path):
    if engine.rootless:
        os.chown(path, engine.user.uid, engine.user.gid)


def keys(engine):
    return engine.user.home / ".oci-hooks" / "ssh" / "keys"


@pytest.fixture
def image(ssh_engine, load_image, plain_busybox):
    return load_image(ssh_engine, "busybox", plain_busybox)


def test_keygen_calls_the_hook_as_the_user(ssh_engine, home_base):
    result = ssh_engine.sarus("ssh-keygen", env={"LEAK": "1"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    lines = (keys(ssh_engine) / "id_dropbear").read_text().splitlines()
    assert lines[:2] == ["options=", f"ids={ssh_engine.user.uid} {ssh_engine.user.gid}"]
    assert {f"HOOK_BASE_DIR={home_base}", f"PASSWD_FILE={ssh_engine.prefix}/etc/passwd", f"DROPBEAR_DIR={ssh_engine.prefix}/dropbear"} <= set(lines)
    assert "LEAK=1" not in lines


def test_keygen_overwrites_on_request_only(ssh_engine):
    assert ssh_engine.sarus("ssh-keygen").returncode == 0
    again = ssh_engine.sarus("ssh-keygen")
    assert (again.returncode, again.stderr.splitlines()) == (1, ["keys exist", "Failed to generate the SSH keys"])
    assert ssh_engine.sarus("ssh-keygen", "--overwrite").returncode == 0
    assert (keys(ssh_engine) / "id_dropbear").read_text().startswith("options=--overwrite\n")


def test_log_level_is_passed_to_the_hook(ssh_engine):
    assert ssh_engine.sarus("--debug", "ssh-keygen", "--overwrite").returncode == 0
    assert (keys(ssh_engine) / "id_dropbear").read_text().startswith("options=--overwrite --debug\n")


def test_keys_are_checked_before_the_start(ssh_engine, image):
    result = ssh_engine.run(image, "echo", "started", options=["--ssh"], check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"no keys in {keys(ssh_engine)}", MISSING_KEYS]
    assert ssh_engine.sarus("ssh-keygen").returncode == 0
    assert ssh_engine.output(image, "echo", "started", options=["--ssh"]) == "started"


def test_missing_hook_is_named(ssh_engine, image):
    (ssh_engine.prefix / "bin" / "ssh_hook").rename(ssh_engine.prefix / "bin" / "away")
    try:
        for arguments in (["ssh-keygen"], ["run", "--ssh", image, "true"]):
            result = ssh_engine.sarus(*arguments)
            assert result.returncode == 1
            assert f"Failed to run the SSH hook {ssh_engine.prefix}/bin/ssh_hook: No such file or directory" in result.stderr
    finally:
        (ssh_engine.prefix / "bin" / "away").rename(ssh_engine.prefix / "bin" / "ssh_hook")


def test_hook_starts_in_a_private_pid_namespace_of_an_annotated_container(ssh_engine, image):
    directory = ssh_engine.prefix / "var" / "ssh"
    directory.mkdir()
    own(ssh_engine, directory)
    configured = ssh_engine.prefix / "etc" / "hooks.d"
    installation.set_configuration(ssh_engine.prefix, hooksDir=str(configured))
    file = configured / "07-ssh-hook.json"
    file.write_text(json.dumps({
        "version": "1.0.0",
        "hook": {"path": f"{ssh_engine.prefix}/bin/ssh_hook", "args": ["ssh_hook", "start-ssh-daemon"],
                 "env": [f"RECORD={directory}/state", "PATH=/usr/bin:/bin"]},
        "when": {"annotations": {"^com.hooks.ssh.enabled$": "^true$"}},
        "stages": ["createRuntime"],
    }))
    own(ssh_engine, file)
    try:
        assert ssh_engine.sarus("ssh-keygen").returncode == 0
        ssh_engine.run(image, "true")
        assert not (directory / "state").exists()
        options = ["--ssh", "--annotation=com.hooks.ssh.authorize_ssh_key=/home/me/key.pub"]
        assert ssh_engine.output(image, "sh", "-c", "echo $$", options=options) == "1"
        annotations = json.loads((directory / "state").read_text())["annotations"]
        expected = {"com.hooks.ssh.enabled": "true", "com.hooks.slurm-global-sync.enabled": "true",
                    "com.hooks.ssh.authorize_ssh_key": "/home/me/key.pub"}
        assert expected.items() <= annotations.items()
    finally:
        file.unlink()
        (directory / "state").unlink(missing_ok=True)
        directory.rmdir()


@pytest.mark.parametrize("command, nodes, warns", [("/usr/bin/mpirun", 2, True), ("mpiexec", 4, True), ("mpirun", 1, False), ("true", 2, False)])
def test_mpirun_that_cannot_reach_other_nodes_is_warned_about(any_engine, load_image, plain_busybox, command, nodes, warns):
    image = load_image(any_engine, "busybox", plain_busybox)
    result = any_engine.run(image, command, "-n", "4", "app", check=False, env={"SLURM_JOB_NUM_NODES": nodes})
    message = f"{command.split('/')[-1]} in a container reaches the other nodes of the job only with '--ssh': start the ranks with 'srun sarus run' instead"
    assert (message in result.stderr) == warns, result.stderr


SCRIPT = "if [ $SLURM_PROCID = 0 ]; then mpirun --hostfile hosts app; fi"


@pytest.mark.parametrize("nodes, rank, command, options, variables, warns", [
    (2, 0, SCRIPT, [], {}, True),
    (1, 0, SCRIPT, [], {}, False),
    (2, 1, SCRIPT, [], {}, False),
    (2, 0, "true", [], {}, False),
    (2, 0, SCRIPT, [], {"OMPI_MCA_plm": "rsh"}, False),
    (2, 0, SCRIPT, ["--env=PRTE_MCA_plm=ssh"], {}, False),
    (2, 0, SCRIPT.replace("--host", "--mca plm rsh --host"), [], {}, False),
])
def test_open_mpi_that_would_need_srun_is_warned_about(engine_with_keys, load_image, plain_busybox, nodes, rank, command, options, variables, warns):
    image = load_image(engine_with_keys, "busybox", plain_busybox)
    result = engine_with_keys.run(image, "sh", "-c", command, options=["--ssh", *options], check=False,
                                  env={"SLURM_JOB_NUM_NODES": nodes, "SLURM_PROCID": rank, **variables})
    message = "An Open MPI that was built for Slurm starts its ranks with srun and not with ssh: set OMPI_MCA_plm=rsh and OMPI_MCA_ras=^slurm"
    assert (message in result.stderr) == warns, result.stderr


def test_launcher_that_the_image_names_is_no_reason_to_warn(engine_with_keys, load_image, images):
    made = images.busybox({"Env": ["OMPI_MCA_plm=rsh"]})
    result = engine_with_keys.run(load_image(engine_with_keys, "with-launcher", made), "sh", "-c", SCRIPT, options=["--ssh"], check=False,
                                  env={"SLURM_JOB_NUM_NODES": 2, "SLURM_PROCID": 0})
    assert "built for Slurm" not in result.stderr
