"""mps_hook, with a program that speaks the protocol of NVIDIA's control program: a node with GPUs is not needed."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest
from helpers import system

from test_hooks import hooks, hooks_engine, image  # noqa: F401 (fixtures)

STAND_IN = pathlib.Path(__file__).parent / "helpers/mps_control.py"
TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "etc/templates/hooks.d/20-mps-hook.json.in"


def install_stand_in(programs):
    shutil.copy(STAND_IN, programs / "nvidia-cuda-mps-control")
    (programs / "nvidia-cuda-mps-control").chmod(0o755)


class Mps:
    """A node with the control program, whose pipe directory is not the default one."""

    def __init__(self, hook, directory):
        self.hook = hook
        self.directory = directory
        self.programs = directory / "bin"
        self.pipes = directory / "pipes"
        self.programs.mkdir()
        install_stand_in(self.programs)
        self.behave()
        (directory / "config.json").write_text(json.dumps({"process": {"user": {"uid": os.getuid(), "gid": os.getgid()}},
                                                           "root": {"path": "rootfs"}}))

    def behave(self, **behaviour):
        (self.programs / "behaviour.json").write_text(json.dumps(behaviour))

    def environment(self, **more):
        return {"PATH": f"{self.programs}:/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "MPS_TIMEOUT": "100", "HOOK_LOG": "none", **more}

    def start(self, pass_fds=(), **more):
        state = json.dumps({"ociVersion": "1.0.0", "id": "mps", "status": "creating", "pid": os.getpid(), "bundle": str(self.directory)})
        process = subprocess.Popen([str(self.hook)], env=self.environment(**more), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, pass_fds=pass_fds)
        process.stdin.write(state)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, **more):
        process = self.start(**more)
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess([], process.returncode, output, errors)

    def control(self, command):
        return subprocess.run([str(self.programs / "nvidia-cuda-mps-control")], env=self.environment(), input=command, text=True,
                              capture_output=True, check=False)

    def servers(self):
        return [int(word) for word in self.control("get_server_list\n").stdout.split()]

    def calls(self):
        path = self.pipes / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def daemon(self):
        return int((self.pipes / "nvidia-cuda-mps-control.pid").read_text())


@pytest.fixture
def mps(build_dir, tmp_path):
    tmp_path.chmod(0o755)
    made = Mps(build_dir / "mps_hook", tmp_path)
    yield made
    made.behave()
    made.control("quit\n")


def test_daemon_and_server_run_when_the_container_starts(mps):
    result = mps.run()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert len(mps.servers()) == 1
    assert f"start_server -uid {os.getuid()}" in mps.calls()


@pytest.mark.parametrize("own", [False, True])
def test_started_by_hand_it_serves_the_caller(mps, own):
    """Without a container on standard input, as the original does; also at a terminal, where nobody types one."""
    users = pathlib.Path(tempfile.mkdtemp())  # the path of a socket is short
    place = users / f"nvidia-mps-{os.getuid()}/pipe" if own else mps.pipes
    environment = mps.environment()
    if own:
        del environment["CUDA_MPS_PIPE_DIRECTORY"]
        environment["MPS_USER_DIRECTORY"] = str(users)
    controller, terminal = os.openpty()
    try:
        for stdin in (subprocess.DEVNULL, terminal):
            result = subprocess.run([str(mps.hook)], env=environment, stdin=stdin, capture_output=True, text=True, timeout=300)
            assert (result.returncode, result.stdout) == (0, f"CUDA MPS has a server for uid {os.getuid()}, in {place}\n"), result.stderr
        assert (place / "calls").read_text().splitlines().count(f"start_server -uid {os.getuid()}") == 1
    finally:
        os.close(controller)
        os.close(terminal)
        if own:
            subprocess.run([str(mps.programs / "nvidia-cuda-mps-control")], env=mps.environment(CUDA_MPS_PIPE_DIRECTORY=str(place)), input="quit\n", text=True,
                           capture_output=True, check=False)
        shutil.rmtree(users)


def test_server_that_runs_is_left_alone(mps):
    mps.run()
    server = mps.servers()
    assert mps.run().returncode == 0
    assert mps.servers() == server and sum(call.startswith("start_server") for call in mps.calls()) == 1


def test_hook_waits_until_the_server_has_registered(mps):
    mps.behave(registers_after=0.5)
    assert mps.run().returncode == 0
    assert mps.servers()


def test_many_starts_at_once_start_one_server(mps):
    mps.behave(registers_after=0.2)
    processes = [mps.start() for _ in range(16)]
    assert [process.communicate(timeout=300)[1] for process in processes] == [""] * 16
    assert [process.returncode for process in processes] == [0] * 16
    assert sum(call.startswith("start_server") for call in mps.calls()) == 1


def test_dead_daemon_behind_an_old_socket_is_replaced(mps):
    mps.run()
    server = mps.servers()[0]
    system.kill(mps.daemon())
    system.kill(server)
    assert (mps.pipes / "control").exists()
    assert mps.run().returncode == 0
    assert mps.servers() not in ([], [server])


def test_daemon_inherits_no_descriptor(mps):
    reader, writer = os.pipe()
    process = mps.start(pass_fds=[writer])
    os.close(writer)
    assert process.communicate(timeout=300)[1] == "" and mps.servers()
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.parametrize("behaviour, problem", [
    ({"refuses_servers": True}, "CUDA MPS does not start a server for uid"),
    ({"no_daemon": True}, "Failed to initialize: no CUDA-capable device is detected"),
    ({"registers_after": 600}, "has not answered in time"), ({"hangs": "-d"}, "nvidia-cuda-mps-control -d has not answered in time"),
    ({"hangs": "start_server"}, "(start_server -uid"), ({"hangs": "get_server_list"}, "(get_server_list) has not answered in time")])
def test_failure_is_named_and_has_status_1(mps, behaviour, problem):
    mps.behave(**behaviour)
    # Enough to get as far as the command that hangs.
    timeout = {"-d": 20, "start_server": 20, "get_server_list": 1}.get(behaviour.get("hangs"), 1 if "registers_after" in behaviour else 20)
    result = mps.run(MPS_TIMEOUT=str(timeout))
    assert result.returncode == 1 and problem in result.stderr, result.stderr


def test_without_the_control_program_the_status_is_127(mps):
    result = mps.run(PATH="/no/such:/usr/bin")
    assert result.returncode == 127 and "nvidia-cuda-mps-control was not found in PATH (/no/such:/usr/bin)" in result.stderr


@pytest.mark.asroot
def test_pipe_directory_of_another_user_is_refused(mps):
    mps.pipes.mkdir()
    os.chown(mps.pipes, 12345, 12345)
    result = mps.run()
    assert result.returncode == 1 and "belongs to another user: uid 12345" in result.stderr and not mps.calls()


@pytest.mark.asroot
@pytest.mark.parametrize("trap", ["foreign", "open", "link", "file"])
def test_user_directory_that_somebody_else_prepared_is_refused(mps, trap):
    own = mps.directory / f"nvidia-mps-{os.getuid()}"
    if trap == "link":
        (mps.directory / "elsewhere").mkdir(mode=0o700)
        own.symlink_to("elsewhere")
    elif trap == "file":
        own.write_text("")
    else:
        own.mkdir(mode=0o700 if trap == "foreign" else 0o777)
        own.chmod(0o700 if trap == "foreign" else 0o777)
        os.chown(own, 12345 if trap == "foreign" else os.getuid(), -1)
    (mps.directory / "rootfs").mkdir()
    result = subprocess.run(["unshare", "--mount", str(mps.hook)], text=True, capture_output=True, check=False,
                            env={**mps.environment(MPS_USER_DIRECTORY=str(mps.directory)), "CUDA_MPS_PIPE_DIRECTORY": ""},
                            input=json.dumps({"ociVersion": "1.0.0", "id": "mps", "status": "creating", "pid": os.getpid(), "bundle": str(mps.directory)}))
    assert result.returncode == 1 and str(own) in result.stderr and not mps.calls()


# In the engine

EACH_MODE = pytest.mark.parametrize("hooks_engine", ["setuid-crun", "rootless-runc"], indirect=True)


@pytest.fixture
def engine_mps(hooks):  # noqa: F811
    programs = hooks.directory / "programs"
    programs.mkdir()
    install_stand_in(programs)
    (programs / "behaviour.json").write_text("{}")
    parent = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # short, as names of sockets must be
    parent.chmod(0o1777)
    hooks.add("20-mps", hooks.engine.prefix / "bin/mps_hook", ["precreate", "prestart"],
              when=json.loads(TEMPLATE.read_text())["when"],
              env=[f"PATH={programs}:/usr/bin:/bin", f"MPS_USER_DIRECTORY={parent}"])
    own = parent / f"nvidia-mps-{hooks.engine.user.uid}"
    yield own
    subprocess.run([str(programs / "nvidia-cuda-mps-control")], input="quit\n", text=True, check=False, capture_output=True,
                   env={"PATH": "/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": str(own / "pipe")})
    # The daemon answers before it removes its socket.
    assert system.eventually(lambda: not [pid for pid, _, command in system.processes() if str(programs) in command])
    shutil.rmtree(programs)
    shutil.rmtree(parent)


@EACH_MODE
def test_container_has_the_pipe_directory_of_its_user(hooks, image, engine_mps):  # noqa: F811
    result = hooks.engine.run("--annotation=mps.enable=true", image, "sh", "-c", "test -S /tmp/nvidia-mps/control && cat /tmp/nvidia-mps/calls")
    assert result.returncode == 0, result.stderr
    assert f"start_server -uid {hooks.engine.user.uid}" in result.stdout
    status = engine_mps.stat()
    assert status.st_uid == hooks.engine.user.uid and stat.S_IMODE(status.st_mode) == 0o700


def daemon_of(own):
    return int((own / "pipe/nvidia-cuda-mps-control.pid").read_text())


def test_daemon_outlives_the_container_that_started_it(hooks, image, engine_mps):  # noqa: F811
    daemons = set()
    for _ in range(2):
        assert hooks.engine.run("--annotation=mps.enable=true", image, "true").returncode == 0
        daemons.add(daemon_of(engine_mps))
        os.kill(daemon_of(engine_mps), 0)
    assert len(daemons) == 1 and (engine_mps / "pipe/calls").read_text().count("start_server") == 1


@EACH_MODE
def test_daemon_keeps_no_mount_of_the_container(hooks, image, engine_mps):  # noqa: F811
    assert hooks.engine.run("--annotation=mps.enable=true", image, "true").returncode == 0
    mounts = pathlib.Path(f"/proc/{daemon_of(engine_mps)}/mountinfo").read_text()
    assert "/rootfs" not in mounts


@EACH_MODE
def test_container_gets_the_variables_and_the_log_directory(hooks, image, engine_mps):  # noqa: F811
    result = hooks.engine.run("--annotation=mps.enable=true", image, "sh", "-c",
                              "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY; touch $CUDA_MPS_LOG_DIRECTORY/written")
    assert (result.returncode, result.stdout) == (0, "/tmp/nvidia-mps /var/log/nvidia-mps\n"), result.stderr
    assert (engine_mps / "log/written").exists()


@pytest.mark.parametrize("hooks_engine", ["setuid-crun"], indirect=True)
@pytest.mark.parametrize("annotation", ["mps.enable", "com.hooks.nvidia_cuda_mps.enabled"])
def test_environment_file_switches_the_hook_on(hooks, image, engine_mps, annotation):  # noqa: F811
    file = hooks.engine.user.home / "mps.toml"
    file.write_text(f'image = "{image}"\n[annotations]\n{annotation} = "true"\n')
    hooks.engine.user.own(file)
    assert hooks.engine.run(f"--edf={file}", "test", "-S", "/tmp/nvidia-mps/control").returncode == 0


@EACH_MODE
def test_variable_of_the_container_says_where_the_pipe_directory_is(hooks, image, engine_mps):  # noqa: F811
    result = hooks.engine.run("--annotation=mps.enable=true", "-e", "CUDA_MPS_PIPE_DIRECTORY=/tmp/elsewhere", image, "sh", "-c",
                              "test -S /tmp/elsewhere/control && echo $CUDA_MPS_PIPE_DIRECTORY")
    assert (result.returncode, result.stdout) == (0, "/tmp/elsewhere\n"), result.stderr


@pytest.mark.parametrize("place", ["/proc/driver", "/sys/kernel"])
@pytest.mark.parametrize("hooks_engine", ["setuid-crun"], indirect=True)
def test_variable_leads_to_no_file_system_of_the_kernel(hooks, image, engine_mps, place):  # noqa: F811
    result = hooks.engine.run("--annotation=mps.enable=true", "-e", f"CUDA_MPS_PIPE_DIRECTORY={place}", image, "true", check=False)
    assert result.returncode == 1 and place in result.stderr, result.stderr


def test_hook_works_at_prestart_alone(hooks, image, engine_mps):  # noqa: F811
    hooks.add("20-mps", hooks.engine.prefix / "bin/mps_hook", ["prestart"], when={"annotations": {"^mps.enable$": "^true$"}},
              env=[f"PATH={hooks.directory / 'programs'}:/usr/bin:/bin", f"MPS_USER_DIRECTORY={engine_mps.parent}"])
    result = hooks.engine.run("--annotation=mps.enable=true", image, "test", "-S", "/tmp/nvidia-mps/control")
    assert result.returncode == 0, result.stderr


@EACH_MODE
def test_next_container_replaces_a_daemon_that_died_with_its_step(hooks, image, engine_mps):  # noqa: F811
    assert hooks.engine.run("--annotation=mps.enable=true", image, "true").returncode == 0
    first = daemon_of(engine_mps)
    os.killpg(os.getpgid(first), signal.SIGKILL)
    assert (engine_mps / "pipe/control").exists()
    assert hooks.engine.run("--annotation=mps.enable=true", image, "true").returncode == 0
    assert daemon_of(engine_mps) != first


@EACH_MODE
def test_daemon_has_the_users_rights_alone(hooks, image, engine_mps):  # noqa: F811
    assert hooks.engine.run("--annotation=mps.enable=true", image, "true").returncode == 0
    process = (engine_mps / "pipe/nvidia-cuda-mps-control.pid").read_text()
    text = pathlib.Path(f"/proc/{process}/status").read_text()
    assert f"Uid:\t{hooks.engine.user.uid}\t" in text


@EACH_MODE
def test_without_the_annotation_nothing_is_started(hooks, image, engine_mps):  # noqa: F811
    assert hooks.engine.run(image, "true").returncode == 0
    assert not engine_mps.exists()
