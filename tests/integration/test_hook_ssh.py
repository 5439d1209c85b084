"""ssh_hook with Dropbear and real clients: logins, their environment, keys, and the end of the daemon."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from helpers import installation, ssh, system, terminal

ENGINES = ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"]


@pytest.fixture(params=ENGINES)
def ssh_engine(request, engines):
    yield from ssh.with_keys(engines(*request.param.split("-")))


@pytest.fixture(params=["setuid-crun" if os.getuid() == 0 else "rootless-crun"])
def one_engine(request, engines):
    yield from ssh.with_keys(engines(*request.param.split("-")))


@pytest.fixture(scope="module")
def client(user, workspace):
    return ssh.Client(user, workspace / "ssh-client")


@pytest.fixture(scope="module")
def shells():
    return ssh.image()


@pytest.fixture
def image(ssh_engine, load_image, shells):
    return load_image(ssh_engine, "shells", shells)


@pytest.fixture
def one_image(one_engine, load_image, shells):
    return load_image(one_engine, "shells", shells)


def test_a_client_with_the_users_key_runs_commands_as_soon_as_the_container_runs(ssh_engine, image, client):
    with ssh.container(ssh_engine, image, client) as (port, _):
        result = client.run(port, "id -u; id -g; echo $PATH; cmp /proc/1/cgroup /proc/self/cgroup && cat /proc/self/status")
        lines = result.stdout.splitlines()
        assert lines[:3] == [str(ssh_engine.user.uid), str(ssh_engine.user.gid), "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"]
        status = dict(line.split(":\t", 1) for line in lines[3:] if ":\t" in line)
        assert status["NoNewPrivs"] == "1" and set(status["CapEff"] + status["CapPrm"] + status["CapInh"] + status["CapAmb"]) == {"0"}
        assert client.run(port, "exit 7", check=False).returncode == 7
    assert system.eventually(lambda: not ssh.listens(port))


def test_a_login_on_a_terminal_is_the_users(ssh_engine, image, client):
    """Rootless, the devices of terminals do not belong to the group tty."""
    with ssh.container(ssh_engine, image, client) as (port, _):
        result = client.run(port, "tty; stat -c %u $(tty)", options=["-tt"])
        assert re.fullmatch(rf"/dev/pts/\d+\s+{ssh_engine.user.uid}\s*", result.stdout)


VALUES = {"QUOTES": "a'b\"c$d`e\\ ; rm", "LINES": "first\nsecond\n\n", "TEXT": "\u00e9\u6f22", "BLANK": "", "BASH_FUNC_greet%%": "() {  echo hello\n}",
          "SLURM_PROCID": "3", "PMI_RANK": "3", "PMIX_RANK": "3"}


def variables(text):
    entries = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    return {name: value for name, value in entries.items() if not name.startswith("SSH_") and name not in ("TERM", "SHLVL", "PWD", "OLDPWD", "_")}


@pytest.fixture
def login_shell(one_engine):
    """login_shell(path): the shell of the engine's user in all containers."""
    file = one_engine.prefix / "etc/passwd"
    before = file.read_text()

    def change(path=None, home=None):
        lines = [line.split(":") for line in before.splitlines()]
        for fields in lines:
            if fields[0] == one_engine.user.name:
                fields[5], fields[6] = fields[5] if home is None else home, path or fields[6]
        file.write_text("".join(":".join(fields) + "\n" for fields in lines))

    yield change
    file.write_text(before)


@pytest.mark.parametrize("shell, profile", [("/bin/bash", True), ("/bin/dash", True), ("/bin/sh", True), ("/usr/bin/zsh", True), ("/bin/bash", False),
                                            ("/bin/dash", False)])
def test_a_login_shell_has_the_environment_of_the_containers_command(one_engine, load_image, images, client, login_shell, shell, profile):
    name = "shells" if profile else "without-profile"
    made = load_image(one_engine, name, ssh.image(profile=ssh.PROFILE if profile else "PATH=/elsewhere\nexport PATH\n"))
    login_shell(shell)
    with ssh.container(one_engine, made, client, env=VALUES, shell="/bin/bash") as (port, _):
        expected = variables(client.run(port, "cat /proc/1/environ").stdout)
        assert VALUES.items() <= expected.items()
        if shell in ("/bin/dash", "/bin/sh"):  # they pass on no variable that is none of a shell
            del expected["BASH_FUNC_greet%%"]
        assert variables(client.run(port, input="/usr/bin/env -0\n", options=["-T"]).stdout) == expected
        assert client.run(port, input="echo $0\n", options=["-T"]).stdout == f"-{os.path.basename(shell)}\n"
        others = variables(client.run(port, "/usr/bin/env -0").stdout)
        assert set(others) <= {"USER", "LOGNAME", "HOME", "SHELL", "PATH", "MAIL"}


def test_the_documented_files_exist(one_engine, one_image, client):
    command = "for f in /opt/oci-hooks/dropbear /opt/oci-hooks/ssh/dropbear; do ls $f/environment $f/bin/dropbear $f/bin/dbclient; done; " \
              "cat /etc/profile.d/ssh-hook.sh; grep QUOTES /opt/oci-hooks/dropbear/environment; ls ~/.ssh"
    with ssh.container(one_engine, one_image, client, env=VALUES) as (port, _):
        lines = client.run(port, command).stdout.splitlines()
    assert sorted(lines[:6]) == sorted(f"/opt/oci-hooks/{folder}/{name}" for folder in ("dropbear", "ssh/dropbear")
                                       for name in ("environment", "bin/dropbear", "bin/dbclient"))
    assert lines[6:10] == ["#!/bin/sh", 'if [ "$SSH_CONNECTION" ]; then', "    . /opt/oci-hooks/dropbear/environment", "fi"]
    assert lines[10] == "export QUOTES='a'\\''b\"c$d`e\\ ; rm'"
    assert lines[11:] == ["authorized_keys", "dropbear_ecdsa_host_key", "id_dropbear"]


def test_a_session_has_no_seccomp_filter_and_a_command_of_exec_has_it(one_engine, one_image, client):
    """The OCI runtime installs the filter of the container's command when the daemon runs already."""
    configuration = one_engine.prefix / "etc/sarus.json"
    before = configuration.read_text()
    installation.set_configuration(one_engine.prefix, seccompProfile=str(one_engine.prefix / "etc/seccomp/default.json"))
    filters = ["grep", "Seccomp_filters", "/proc/self/status"]
    try:
        with ssh.container(one_engine, one_image, client, options=["--name=filtered"]) as (port, _):
            session, command = client.run(port, *filters).stdout, one_engine.sarus("exec", "filtered", *filters).stdout
    finally:
        configuration.write_text(before)
    assert int(command.split()[1]) == int(session.split()[1]) + 1


def test_containers_of_one_user_reach_each_other(ssh_engine, image, client):
    """By the command ssh, which takes its words one by one, ignores what it does not know, and explains itself."""
    with ssh.container(ssh_engine, image, client) as (port, _):
        inside = f"ssh -x -p {port} localhost"
        assert client.run(port, f"{inside} 'printf \"%s|\" \"a  b\" $HOME'").stdout == f"a  b|{ssh.home_inside(ssh_engine)}|"
        debug, everything = (client.run(port, f"{variable} {inside} -v true").stderr for variable in ("", "DROPBEAR_TRACE2=1"))
        assert "TRACE4" in debug and "TRACE5" not in debug and "TRACE5" in everything


def test_the_client_accepts_only_the_users_own_containers(one_engine, one_image, client, tmp_path_factory):
    """Whoever listens first on the port of another node is not trusted."""
    directory = tmp_path_factory.mktemp("foreign")
    dropbear = one_engine.prefix / "dropbear/bin"
    subprocess.run([dropbear / "dropbearkey", "-t", "ecdsa", "-f", directory / "key"], check=True, capture_output=True)
    foreign = system.free_port()
    server = subprocess.Popen([dropbear / "dropbear", "-F", "-E", "-r", directory / "key", "-p", str(foreign), "-P", ""], stderr=subprocess.DEVNULL)
    try:
        with ssh.container(one_engine, one_image, client) as (port, _):
            assert system.eventually(lambda: ssh.listens(foreign))
            result = client.run(port, f"ssh -p {foreign} localhost true", check=False)
            assert result.returncode != 0 and "does not have your host key: no container of yours listens there" in result.stderr
    finally:
        server.kill()
        server.wait()


def test_files_are_copied_by_sftp(one_engine, one_image, client, workspace):
    directory = installation.unused(workspace / "sftp")
    directory.mkdir()
    directory.chmod(0o777)
    (directory / "file").write_text("content")
    with ssh.container(one_engine, one_image, client) as (port, _):
        client.run(port, f"{client.user.name}@127.0.0.1", program="sftp",
                   input=f"put {directory}/file /tmp/copy\nget /tmp/copy {directory}/back\n")
        assert (directory / "back").read_text() == "content"


def test_an_image_without_an_sftp_server_says_so(one_engine, load_image, plain_busybox, client):
    with ssh.container(one_engine, load_image(one_engine, "busybox", plain_busybox), client) as (port, _):
        result = client.run(port, f"{client.user.name}@127.0.0.1", program="sftp", input="ls\n", check=False)
        assert result.returncode != 0 and "The image has no SFTP server" in result.stderr


def test_many_bytes_pass_through_a_forwarded_port(one_engine, one_image, client):
    size = 100_000_000
    target, local = system.free_port(), system.free_port()
    with ssh.container(one_engine, one_image, client) as (port, _):
        server = client.start(port, f"{client.user.name}@127.0.0.1", f"head -c {size} /dev/zero | busybox nc -l -p {target} 127.0.0.1")
        tunnel = client.start(port, "-N", f"-L{local}:127.0.0.1:{target}", f"{client.user.name}@127.0.0.1")
        try:
            assert system.eventually(lambda: ssh.listens(target) and ssh.listens(local))
            received = subprocess.run(["timeout", "60", "bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{local}; head -c {size} <&3 | wc -c"],
                                      capture_output=True, text=True)
            assert int(received.stdout) == size, received.stderr
        finally:
            for process in (server, tunnel):
                process.kill()
                process.wait()


def test_fifty_clients_log_in_at_once(one_engine, one_image, client):
    rounds = 2 if os.environ.get("CI") else 5
    with ssh.container(one_engine, one_image, client, command="trap 'exit 0' TERM; echo started; while :; do sleep 1; done") as (port, _):
        for _ in range(rounds):
            clients = [client.start(port, f"{client.user.name}@127.0.0.1", f"echo {i}") for i in range(50)]
            results = [(process.communicate(timeout=300), process.returncode) for process in clients]
            assert [(out, status) for (out, _), status in results] == [(f"{i}\n", 0) for i in range(50)], results

        def zombies():
            states = client.run(port, "cat /proc/[0-9]*/stat 2> /dev/null").stdout.splitlines()
            return [line for line in states if line.rsplit(")", 1)[1].split()[0] == "Z" and "(sleep)" not in line]

        assert system.remains(zombies) == []


def refused(engine, image, *options, env=None):
    """What a container that does not start prints."""
    result = engine.run(image, "true", options=["--ssh", *options], check=False, env=env)
    assert result.returncode == 1, result.stdout
    return result.stderr


def annotation(name, value):
    return f"--annotation=com.hooks.ssh.{name}={value}"


def test_a_second_container_of_the_user_on_a_node_goes_on_without_a_daemon(one_engine, one_image, client):
    with ssh.container(one_engine, one_image, client) as (port, _):
        listener = client.run(port, "cat /opt/oci-hooks/ssh/dropbear/dropbear.pid /var/run/dropbear/dropbear.pid").stdout.split()
        assert len(set(listener)) == 1
        result = one_engine.run(one_image, "sh", "-c", f"ssh -p {port} localhost hostname", options=["--ssh", annotation("port", port)])
        assert result.stdout
        assert re.search(rf"No SSH daemon starts in this container: port {port} of this node is in use by process \d+ of yours", result.stderr)


def test_of_containers_that_start_at_once_one_has_the_daemon(one_engine, one_image):
    """Also when several have found the port free."""
    count = 8
    for _ in range(3):
        options = ["--ssh", annotation("port", system.free_port())]
        processes = [one_engine.start("run", *options, one_image, "sh", "-c", "echo ready; read line") for _ in range(count)]
        ready = [process.stdout.readline() for process in processes]
        errors = [process.communicate("\n", timeout=300)[1] for process in processes]
        failed = [error for process, error in zip(processes, errors) if process.returncode != 0]
        assert not failed and ready == ["ready\n"] * count, failed
        assert sum("No SSH daemon starts in this container" in error for error in errors) == count - 1, errors


@pytest.mark.asroot
def test_a_port_of_another_user_is_an_error(one_engine, one_image, other_user):
    port = system.free_port()
    server = subprocess.Popen(["python3", "-c", f"import socket; s = socket.create_server(('127.0.0.1', {port})); print(flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, **other_user.identity())
    try:
        server.stdout.readline()
        assert f"Another user's process listens on the SSH port {port} of this node" in refused(one_engine, one_image, annotation("port", port))
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()


@pytest.mark.parametrize("port", ["1023", "0", "65536", "-1", "22x", ""])
def test_a_port_below_1024_or_no_number_is_an_error(one_engine, one_image, port):
    assert "must be a port from 1024 to 65535" in refused(one_engine, one_image, annotation("port", port))


@pytest.mark.parametrize("home", ["", "/nonexistent"])
def test_a_user_without_a_home_directory_is_an_error(one_engine, one_image, login_shell, home):
    login_shell(home=home)
    assert f"SSH needs a home directory, but the container's /etc/passwd has '{home}' for the user {one_engine.user.uid}" in refused(one_engine, one_image)


def test_a_shell_that_the_image_does_not_have_becomes_sh(one_engine, load_image, plain_busybox, client, login_shell):
    login_shell("/opt/no/such/shell")
    with ssh.container(one_engine, load_image(one_engine, "busybox", plain_busybox), client) as (port, _):
        assert client.run(port, "echo $SHELL; tail -n 1 /etc/passwd").stdout.startswith("/bin/sh\n")


@pytest.fixture
def host_home(one_engine, workspace):
    """A home directory that is mounted from the host, with keys of the user's; gives the directory of the keys."""
    home = workspace / "host-home"
    folder = home / ".ssh"
    home.mkdir()
    folder.mkdir(mode=0o700)
    one_engine.user.own(home)
    one_engine.user.own(folder)
    (folder / "config").write_text("# mine\n")
    (folder / "authorized_keys").write_text("# mine, too\n")
    for path in folder.iterdir():
        one_engine.user.own(path)
    yield folder
    subprocess.run(["rm", "-r", home], check=True)


def mounted(engine, folder):
    return f"--mount=type=bind,src={folder.parent},dst={ssh.home_inside(engine)}"


def set_hook(engine, stages=None, launcher=(), **variables):
    """Changes the hook's file; a value of None removes the variable. Returns a function that restores it. `launcher`: a command that runs the hook."""
    file = engine.prefix / "etc/hooks.d/07-ssh-hook.json"
    before = file.read_text()
    hook = json.loads(before)
    env = dict(entry.split("=", 1) for entry in hook["hook"]["env"])
    env.update(variables)
    hook["hook"]["env"] = [f"{name}={value}" for name, value in env.items() if value is not None]
    hook["stages"] = stages or hook["stages"]
    if launcher:
        hook["hook"].update(path=launcher[0], args=[*launcher, hook["hook"]["path"], *hook["hook"]["args"][1:]])
    file.write_text(json.dumps(hook))
    return lambda: file.write_text(before)


@pytest.mark.parametrize("readonly", ["", ",readonly"])
def test_a_mounted_home_directory_stays_as_it_is(one_engine, one_image, client, host_home, readonly):
    before = {path.name: path.read_text() for path in host_home.iterdir()}
    with ssh.container(one_engine, one_image, client, options=[mounted(one_engine, host_home) + readonly]) as (port, _):
        listing = client.run(port, "ls ~/.ssh; cat ~/.ssh/config; grep -c mine ~/.ssh/authorized_keys; touch ~/.ssh/new", check=False).stdout.splitlines()
        assert listing == ["authorized_keys", "config", "dropbear_ecdsa_host_key", "id_dropbear", "# mine", "0"]
    assert {path.name: path.read_text() for path in host_home.iterdir()} == before


def test_without_the_overlay_a_mounted_home_directory_changes(one_engine, one_image, client, host_home):
    restore = set_hook(one_engine, OVERLAY_MOUNT_HOME_SSH="FALSE")
    try:
        with ssh.container(one_engine, one_image, client, options=[mounted(one_engine, host_home)]) as (port, _):
            client.run(port, "true")
        assert {path.name for path in host_home.iterdir()} == {"authorized_keys", "config", "dropbear_ecdsa_host_key", "id_dropbear"}
        lines = (host_home / "authorized_keys").read_text().splitlines()
        assert lines[0] == "# mine, too" and len(lines) == 3
        assert {path.stat().st_uid for path in host_home.iterdir()} == {one_engine.user.uid}
        assert (host_home / "id_dropbear").stat().st_mode & 0o777 == 0o600
    finally:
        restore()


def test_a_kernel_without_overlays_for_users_gets_a_hint(one_engine, one_image, host_home):
    """Kernels before 5.11 and 5.13 refuse the mount in a user namespace."""
    restore = set_hook(one_engine, launcher=["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-P", "merged", "-e", "inject=mount:error=EPERM"])
    try:
        errors = refused(one_engine, one_image, mounted(one_engine, host_home))
    finally:
        restore()
    assert f"Failed to mount an overlay on the container's {ssh.home_inside(one_engine)}/.ssh: " in errors
    assert "OVERLAY_MOUNT_HOME_SSH=False in the hook's JSON file does without the overlay" in errors


def test_a_home_directory_that_others_may_write_is_warned_about(one_engine, one_image, client, host_home):
    host_home.parent.chmod(0o775)
    with ssh.container(one_engine, one_image, client, options=[mounted(one_engine, host_home)]) as (port, _):
        assert client.run(port, "true", check=False).returncode == 255
    result = one_engine.run(one_image, "true", options=["--ssh", mounted(one_engine, host_home), annotation("port", system.free_port())])
    assert f"SSH will refuse your key: others may write to the container's {ssh.home_inside(one_engine)} (chmod go-w)" in result.stderr


@pytest.mark.asroot
def test_a_home_directory_of_another_user_is_warned_about(one_engine, one_image, client, host_home, other_user):
    """A directory ~/.ssh of another user is covered by the overlay."""
    for path in (host_home, *host_home.iterdir()):
        other_user.own(path)
    host_home.chmod(0o755)
    with ssh.container(one_engine, one_image, client, options=[mounted(one_engine, host_home)]) as (port, _):
        client.run(port, "true")
    other_user.own(host_home.parent)
    result = one_engine.run(one_image, "true", options=["--ssh", mounted(one_engine, host_home), annotation("port", system.free_port())])
    assert f"SSH will refuse your key: the container's {ssh.home_inside(one_engine)} belongs to another user" in result.stderr


def test_a_read_only_container_accepts_logins(ssh_engine, image, client):
    with ssh.container(ssh_engine, image, client, options=["--read-only"]) as (port, _):
        assert client.run(port, "touch /x 2>&1; echo $?").stdout.splitlines()[-1] == "1"


@pytest.mark.parametrize("stages", [["prestart"], ["createRuntime", "poststop"], ["createContainer"]])
@pytest.mark.parametrize("mode", ENGINES)
def test_stages(engines, load_image, shells, client, mode, stages):
    """The files of 1.6 use prestart, those of 1.7 createRuntime and poststop."""
    engine = engines(*mode.split("-"))
    ssh.make_keys(engine)
    restore = set_hook(engine, stages, SERVER_PORT=system.free_port(), SERVER_PORT_DEFAULT=None)
    try:
        with ssh.container(engine, load_image(engine, "shells", shells), client) as (port, _):
            assert client.run(port, "id -u").stdout == f"{engine.user.uid}\n"
        assert system.eventually(lambda: not ssh.listens(port))
    finally:
        restore()
        ssh.remove_keys(engine)


def test_pid_files(one_engine, one_image, client, workspace):
    directory = workspace / "pid-files"
    directory.mkdir(exist_ok=True)
    one_engine.user.own(directory)
    options = [annotation("pidfile_container", "/tmp/own/inside.pid"), annotation("pidfile_host", directory / "outside.pid")]
    with ssh.container(one_engine, one_image, client, options=options) as (port, _):
        inside, name = client.run(port, "p=$(cat /tmp/own/inside.pid); echo $p; cat /proc/$p/comm").stdout.split()
        outside = int((directory / "outside.pid").read_text())
        assert name == "dropbear" == pathlib.Path(f"/proc/{outside}/comm").read_text().strip() and int(inside) != outside
        assert (directory / "outside.pid").stat().st_uid == one_engine.user.uid
    assert not (directory / "outside.pid").exists()


def test_the_user_restarts_the_daemon_with_debug_output(one_engine, one_image, client):
    """As the documentation says."""
    with ssh.container(one_engine, one_image, client) as (port, _):
        # It starts as soon as the other has left the port.
        command = "kill $(cat /var/run/dropbear/dropbear.pid); " \
                  f"until DROPBEAR_TRACE2=1 /opt/oci-hooks/dropbear/bin/dropbear -E -r ~/.ssh/dropbear_ecdsa_host_key -p {port} -v 2> /tmp/log; " \
                  "do sleep 0.05; done"
        client.run(port, f"sh -c '{command}' > /dev/null 2>&1 < /dev/null")
        assert system.eventually(lambda: client.run(port, "grep -q TRACE5 /tmp/log", check=False).returncode == 0)


def test_a_login_has_the_size_of_its_terminal(ssh_engine, image, client):
    with ssh.container(ssh_engine, image, client) as (port, _):
        argv = ["ssh", *client.options(port), "-t", f"{client.user.name}@127.0.0.1", "sh"]
        session = terminal.Terminal(argv, client.user.identity(), env=client.user.environment(), cwd="/", size=(33, 77))
        session.type("stty size\n")
        at = session.expect("33 77")
        session.resize(40, 120)
        session.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo $((5 * 5)); exit 4\n")
        session.expect("25", after=at)
        assert session.wait() == 4
        session.close()


@pytest.mark.parametrize("victims", [["sarus-starter"], ["sarus-starter", "sarus-janitor"], ["runtime"], ["ssh-keeper"], ["init"]], ids="+".join)
def test_the_daemon_ends_with_the_container_whoever_is_killed(ssh_engine, image, client, victims):
    command = "trap 'exit 0' TERM HUP; echo started; sleep 1000 & wait"  # SIGHUP tells of a killed starter
    with ssh.container(ssh_engine, image, client, command) as (port, process):
        family = system.descendants(process.pid) | {process.pid}
        names = {pid: system.process_name(pid) for pid in family}
        wanted = [{"runtime": ssh_engine.runtime, "init": "sh"}.get(victim, victim) for victim in victims]
        killed = [pid for pid, name in names.items() if name in wanted]
        assert {names[pid] for pid in killed} == set(wanted), names
        for pid in killed:
            system.kill(pid)
        assert system.eventually(lambda: not ssh.listens(port))
        if victims[0] != "ssh-keeper":
            assert system.eventually(lambda: not {pid for pid, _, _ in system.processes()} & family)
    ssh_engine.sarus("ps")  # removes the record of a container whose janitor was killed


def test_keys_are_made_once(one_engine):
    ssh.remove_keys(one_engine)
    folder = ssh.keys(one_engine)
    first = one_engine.sarus("ssh-keygen")
    assert (first.returncode, first.stdout, first.stderr) == (0, f"Generated SSH keys in {folder}\n", "")
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(made) == {"authorized_keys", "dropbear_ecdsa_host_key", "id_dropbear"} and made["authorized_keys"].startswith(b"ecdsa-sha2-")
    assert all(path.stat().st_mode & 0o077 == 0 and path.stat().st_uid == one_engine.user.uid for path in (folder, *folder.iterdir()))
    again = one_engine.sarus("ssh-keygen")
    assert (again.returncode, again.stdout) == (0, f"SSH keys exist already in {folder}. Use the option '--overwrite' to replace them\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made
    assert one_engine.sarus("ssh-keygen", "--overwrite").returncode == 0
    assert all(path.read_bytes() != made[path.name] for path in folder.iterdir())
    assert {path.name for path in folder.parent.iterdir()} == {"keys", "keys.lock"}


def test_many_processes_make_keys_at_once(one_engine):
    ssh.remove_keys(one_engine)
    processes = [one_engine.start("ssh-keygen") for _ in range(8)]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(output.split()[0] for output in outputs) == ["Generated"] + ["SSH"] * 7


def test_a_lock_that_was_left_behind_stops_nobody(one_engine):
    ssh.remove_keys(one_engine)
    folder = ssh.keys(one_engine).parent
    folder.mkdir(parents=True)
    (folder / "keys.lock").touch()
    for path in (folder.parent, folder, folder / "keys.lock"):
        one_engine.user.own(path)
    assert one_engine.sarus("ssh-keygen").returncode == 0


def test_an_annotation_means_the_same_as_the_option(one_engine, one_image):
    enabled = "--annotation=com.hooks.ssh.enabled=true"
    incompatible = "The use of '--ssh' is incompatible with '--pid=host'. The SSH hook requires the use of a private PID namespace"
    result = one_engine.run(one_image, "true", options=["--pid=host", enabled], check=False)
    assert result.returncode == 1 and incompatible in result.stderr
    assert one_engine.output(one_image, "sh", "-c", "echo $$", options=[enabled, annotation("port", system.free_port())]) == "1"
    ssh.remove_keys(one_engine)
    result = one_engine.run(one_image, "true", options=[enabled], check=False)
    assert result.returncode == 1 and "try to generate the SSH keys with 'sarus ssh-keygen'" in result.stderr


def test_an_environment_definition_means_the_same_as_the_option(one_engine, one_image, client, workspace):
    file = workspace / "ssh.toml"
    port = system.free_port()
    file.write_text(f'image = "{one_image}"\n[annotations.com.hooks.ssh]\nenabled = "true"\nport = "{port}"\n'
                    f'authorize_ssh_key = "{client.public_key}"\n')
    process = one_engine.start("run", f"--edf={file}", "sh", "-c", "trap 'exit 0' TERM; echo started $$; sleep 1000 & wait")
    try:
        assert process.stdout.readline() == "started 1\n"
        assert client.run(port, "echo in").stdout == "in\n"
    finally:
        process.terminate()
        process.communicate(timeout=300)


def test_missing_ssh_software_is_named(one_engine, one_image):
    folder = one_engine.prefix / "dropbear"
    folder.rename(one_engine.prefix / "away")
    try:
        for result in (one_engine.sarus("ssh-keygen", "--overwrite"), one_engine.run(one_image, "true", options=["--ssh"], check=False)):
            assert result.returncode == 1
            assert f"The SSH software is not installed: {folder}/bin/dropbearmulti: No such file or directory" in result.stderr
            assert f"Build it with packaging/dropbear/build {folder}" in result.stderr
    finally:
        (one_engine.prefix / "away").rename(folder)


def test_the_ssh_software_is_static(one_engine):
    program = one_engine.prefix / "dropbear/bin/dropbearmulti"
    assert "INTERP" not in subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
    names = subprocess.run(["strings", "-a", program], check=True, capture_output=True, text=True).stdout
    assert "/utmp" not in names and "nsswitch" not in names


@pytest.mark.parametrize("stage", ["prestart", "createContainer"])
def test_the_hook_of_the_document_works(one_engine, one_image, client, stage):
    """Its pattern has no ^, and its stage is prestart. At createContainer, a rootless hook is in two user namespaces."""
    file = one_engine.prefix / "etc/hooks.d/07-ssh-hook.json"
    before = file.read_text()
    port = system.free_port()
    file.write_text(json.dumps({"version": "1.0.0", "hook": {
        "path": f"{one_engine.prefix}/bin/ssh_hook", "args": ["ssh_hook", "start-ssh-daemon"],
        "env": [f"HOOK_BASE_DIR={one_engine.user.home.parent}", f"PASSWD_FILE={one_engine.prefix}/etc/passwd",
                f"DROPBEAR_DIR={one_engine.prefix}/dropbear", f"SERVER_PORT={port}"]},
        "when": {"annotations": {"com.hooks.ssh.enabled$": "^true$"}}, "stages": [stage]}))
    try:
        process = one_engine.start("run", "--ssh", annotation("authorize_ssh_key", client.public_key), one_image, "sh", "-c",
                                   "trap 'exit 0' TERM; echo started; sleep 1000 & wait")
        assert process.stdout.readline() == "started\n"
        assert client.run(port, "echo in").stdout == "in\n"
        process.terminate()
        process.communicate(timeout=300)
    finally:
        file.write_text(before)


def test_visual_studio_code_works_beside_a_terminal(one_engine, one_image, client):
    """The documented steps: a container with a terminal, and a client with documented options."""
    port = system.free_port()
    argv, identity = one_engine.command("run", "--ssh", "--tty", "--entrypoint", "bash", annotation("authorize_ssh_key", client.public_key),
                                        annotation("port", port), one_image)
    typist = terminal.Terminal(argv, identity, env=one_engine.user.environment(), cwd=one_engine.user.home)
    try:
        typist.type("echo the $((1 + 1))nd\n")
        typist.expect("the 2nd")
        assert client.run(port, "uname").stdout == "Linux\n"
        typist.type("exit\n")
        assert typist.wait() == 0
    finally:
        typist.close()
