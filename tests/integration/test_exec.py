"""`sarus exec`: a command in a running container, with the identity and the limits of the container and with nothing more."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from helpers import system


NUMBERS = itertools.count()


class Container:
    """A running container; `script` is what its shell does."""

    def __init__(self, engine, image, name, script="echo ready; sleep 1000", options=(), **keywords):
        self.engine = engine
        self.name = name
        self._standing = contextlib.ExitStack()
        self.process = self._standing.enter_context(engine.standing(image, "--name", name, *options, script=script, **keywords))

    def exec(self, *command, options=(), engine=None, **keywords):
        return (engine or self.engine).sarus("exec", *options, self.name, *command, **keywords)

    def output(self, *command, **keywords):
        result = self.exec(*command, **keywords)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return result.stdout.rstrip("\n")

    def stop(self):
        self._standing.close()
        assert system.eventually(lambda: self.name not in self.engine.sarus("ps").stdout)


@pytest.fixture
def start(engine, busybox):
    """start(script, options) -> a running container."""
    started = []

    def make(*arguments, **keywords):
        container = Container(engine, busybox, f"exec-{os.getpid()}-{next(NUMBERS)}", *arguments, **keywords)
        started.append(container)
        return container

    yield make
    for container in started:
        container.stop()


def test_in_its_own_step_a_command_keeps_its_cgroups_and_variables(start, engine):
    container = start(env={"WHOSE": "container", "ONLY": "container"}, options=["--env=GIVEN=container"])
    script = "echo $WHOSE $ONLY $GIVEN $PATH; cat /proc/self/cgroup"
    variables, *cgroups = container.output("sh", "-c", script, options=["--own-step"], env={"WHOSE": "caller", "GIVEN": "caller"}).splitlines()
    words = container.output("sh", "-c", "echo $WHOSE $ONLY $GIVEN $PATH").split()
    assert variables.split() == ["caller", "container", words[-1]] and words[:3] == ["container"] * 3
    assert cgroups == pathlib.Path("/proc/self/cgroup").read_text().splitlines()


def test_a_container_that_is_held_open_ends_with_its_standard_input(engine, busybox):
    """It runs no command of its own. With a name of several commands, which join it, no signal for all of them ends it."""
    name = f"held-{os.getpid()}"
    process = engine.start("run", "--hold", "--name", name, busybox, "nowhere", "to", "be", "found", stdin=subprocess.PIPE, preexec_fn=ignore_sigterm)
    assert process.stdout.read(1) == "+"
    process.send_signal(signal.SIGTERM)
    for number in 1, 2:
        joined = engine.sarus("run", f"--name={name}", "--join", busybox, "--", "sh", "-c", f"echo {number} >> /mark; cat /mark")
        assert joined.stdout.split() == ["1", "2"][:number], joined
    process.stdin.close()
    assert process.wait(timeout=300) == 0 and name not in engine.sarus("ps").stdout


@pytest.mark.parametrize("signal_name", ["HUP", "TERM"])
def test_kill_ends_a_container_that_is_held_open(engine, busybox, signal_name):
    """Its first process ignores the signals that Slurm sends to all processes of a step."""
    name = f"held-{signal_name.lower()}-{os.getpid()}"
    process = engine.start("run", "--hold", "--name", name, busybox, "true", stdin=subprocess.PIPE)
    assert process.stdout.read(1) == "+"
    harmless = engine.sarus("kill", "--signal=USR1", name)
    assert harmless.returncode == 0 and process.poll() is None
    assert engine.sarus("kill", f"--signal={signal_name}", name).returncode == 0
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGKILL and name not in engine.sarus("ps").stdout


def test_a_keeper_is_a_descriptor(engine, busybox):
    """Slurm's plugin passes it."""
    for wrong in ("abc", "-1", "99999999999"):
        result = engine.sarus("run", "--name=nosuch", "--join", "", f"--keeper={wrong}", "--", "true")
        assert result.returncode == 1 and result.stderr.startswith(f"Incorrect value provided for --keeper option: '{wrong}'"), result
        assert result.stdout == ""


def ignore_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def test_bytes_that_are_no_text_stay_what_they_are(start):
    """Names of files, arguments and variables are bytes; the configuration of OCI runtimes is UTF-8."""
    script = 'pwd; printf "%s\\n" "$1" "$NAME"'
    container = start('mkdir "/tmp/$NAME"; cd "/tmp/$NAME"; echo ready; sleep 1000', options=["--env=NAME=caf\udce9%41"])
    inside = ["--workdir=/tmp/caf\udce9%41"]
    arguments = ["sh", "-c", script, "sh", "\udcff%20ä"]
    assert container.output(*arguments, options=inside, errors="surrogateescape").splitlines() == \
        ["/tmp/caf\udce9%41", "\udcff%20ä", "caf\udce9%41"]


def fields(status):
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)


def test_a_command_sees_the_containers_files_and_processes(start):
    container = start("echo hello > /tmp/file; echo ready; sleep 1000", options=["--pid=private"])
    assert container.output("cat", "/tmp/file") == "hello"
    assert "sleep 1000" in container.output("ps")


def test_identity_and_privileges_are_those_of_the_container(start, engine):
    container = start("cat /proc/self/status > /tmp/status; echo ready; sleep 1000")
    inside, beside = fields(container.output("cat", "/tmp/status")), fields(container.output("cat", "/proc/self/status"))
    for key in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Umask"):
        assert beside[key] == inside[key], key
    assert int(beside["CapPrm"], 16) == 0 and beside["NoNewPrivs"] == "1"
    assert beside["Uid"].split() == [str(engine.user.uid)] * 4


def test_the_cgroup_is_the_containers(start):
    container = start("cat /proc/self/cgroup > /tmp/cgroup; echo ready; sleep 1000")
    assert container.output("cat", "/proc/self/cgroup") == container.output("cat", "/tmp/cgroup")


def test_exec_joins_the_cgroup_of_a_container_with_device_rules(engine, busybox, start):
    if engine.rootless:
        return  # device rules need privileges
    container = start("cat /proc/self/cgroup > /tmp/cgroup; echo ready; sleep 1000", options=["--device=/dev/full"])
    assert container.output("cat", "/proc/self/cgroup") == container.output("cat", "/tmp/cgroup")
    assert container.exec("cat", "/dev/kmsg").returncode != 0


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_the_seccomp_profile_of_the_container_holds(make_setuid_prefix, engines, load_image, plain_busybox, opt, runtime):
    profile = opt / f"exec-seccomp-{runtime}.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}')
    plain = engines("setuid", runtime)
    engine = plain.variant(prefix=make_setuid_prefix(f"exec-seccomp-{runtime}", runtime, seccompProfile=str(profile)))
    container = Container(engine, load_image(plain, "busybox", plain_busybox), f"seccomp-{next(NUMBERS)}")
    try:
        result = container.exec("mkdir", "/tmp/made")
        assert result.returncode == 1 and "Operation not permitted" in result.stderr
        assert fields(container.output("cat", "/proc/self/status"))["Seccomp"].strip() == "2"
    finally:
        container.stop()


def test_variables_are_the_containers_and_those_of_the_options(start, workspace):
    container = start(options=["-e", "FROM_RUN=1", "-e", "BOTH=run"], env={"HOST_AT_RUN": "1"})
    (workspace / "exec.env").write_text("FILE=1\n")
    output = container.output("env", options=["-e", "BOTH=exec", "-e", "COPIED", "--env-file", workspace / "exec.env"],
                              env={"COPIED": "yes", "HOST_AT_EXEC": "1"})
    lines = set(output.splitlines())
    assert {"FROM_RUN=1", "BOTH=exec", "COPIED=yes", "FILE=1", "HOST_AT_RUN=1"} <= lines
    assert "HOST_AT_EXEC=1" not in lines


def test_directory_is_the_containers_or_that_of_the_option(start):
    container = start(options=["-w", "/tmp"])
    assert container.output("pwd") == "/tmp"
    assert container.output("pwd", options=["--workdir", "/usr"]) == "/usr"


def test_exit_status_is_the_commands(start):
    container = start()
    assert container.exec("sh", "-c", "exit 37").returncode == 37
    assert container.exec("sh", "-c", "kill -KILL $$").returncode == 137


def test_input_reaches_the_command(start):
    assert start().output("cat", input="through\n") == "through"


def test_no_descriptor_of_the_starter_reaches_the_command(start):
    container = start()
    listed = container.output("sh", "-c", "sleep 10 & until grep -q ^sleep /proc/$!/cmdline; do :; done; ls /proc/$!/fd; kill $!")
    assert listed.split() == ["0", "1", "2"]


def test_tty(start):
    container = start()
    argv, identity = container.engine.command("exec", "-t", container.name, "sh", "-c", "test -t 0 && test -t 1 && echo terminal; exit 5")
    quoted = " ".join(f"'{word}'" for word in argv)
    result = subprocess.run(["script", "--quiet", "--return", "--command", quoted, "/dev/null"], input="", capture_output=True, text=True,
                            timeout=300, env=container.engine.user.environment(), cwd=container.engine.user.home, **identity)
    assert result.returncode == 5 and "terminal" in result.stdout


def test_a_signal_ends_the_command_and_not_the_container(start):
    container = start()
    process = container.engine.start("exec", container.name, "sh", "-c", "echo begun; exec sleep 1000")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=300) == 143
    process.communicate()
    assert container.process.poll() is None


@pytest.mark.parametrize("launcher, numbers", [(["nohup"], [signal.SIGHUP]), (["env", "--ignore-signal=INT,QUIT,TERM"], [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])])
def test_what_the_caller_ignores_ends_no_command(start, launcher, numbers):
    """Whatever the caller of the container has ignored."""
    container = start()
    process = container.engine.start_by(launcher, "exec", container.name, "sh", "-c", "grep SigIgn /proc/self/status; " + system.UNTIL_SIGPWR)
    ignored, ready = process.stdout.readline(), process.stdout.readline()
    assert ready == "ready\n", ignored + process.stderr.read()
    assert int(ignored.split()[1], 16) == system.signal_set(numbers)
    output, errors = system.finish_with_sigpwr(process, numbers)
    assert (process.returncode, output) == (5, "caught\n"), errors


def test_killing_the_exec_leaves_no_process(start):
    container = start()
    # A process of which the parent is killed while it is being forked is found, too.
    mark = f"{time.monotonic_ns()}"
    process = container.engine.start("exec", container.name, "sh", "-c", f": {mark}; echo begun; while :; do sleep {mark} & done")
    assert process.stdout.readline() == "begun\n"
    assert system.eventually(lambda: any(line == f"sleep {mark}" for _, _, line in system.processes()))
    process.kill()
    process.communicate()
    assert system.eventually(lambda: not [line for _, _, line in system.processes() if mark in line])
    assert container.output("echo", "alive") == "alive"


@pytest.mark.parametrize("options", [[], ["--pid=private"]], ids=["host-pids", "private-pids"])
def test_the_command_ends_with_its_container(start, options):
    container = start(options=options)
    process = container.engine.start("exec", container.name, "sh", "-c", "echo begun; sleep 6544")
    assert process.stdout.readline() == "begun\n"
    container.stop()
    # A file system in user space may end first: what the command reads of its own program is lost then.
    assert process.wait(timeout=300) in ([137, 128 + signal.SIGBUS] if container.engine.rootless else [137])
    process.communicate()
    assert not [line for _, _, line in system.processes() if "sleep 6544" in line]


def test_a_missing_command_is_named(start):
    container = start()
    for command in ("no-such-program", "/no/such/program"):
        result = container.exec(command)
        assert result.returncode == 1 and command in result.stderr, result.stderr
    assert "not found in $PATH" in container.exec("no-such-program").stderr


def test_a_command_ends_with_its_first_process(start):
    container = start()
    result = container.exec("sh", "-c", "sleep 6545 & (setsid sleep 6545 &); exit 255")
    assert result.returncode == 255
    assert system.eventually(lambda: not [line for _, _, line in system.processes() if "sleep 6545" in line])
    assert container.output("echo", "alive") == "alive"


def test_containers_that_are_gone_cannot_be_entered(start):
    container = start()
    container.stop()
    result = container.exec("true")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"There is no running container with the name '{container.name}'")


@pytest.mark.parametrize("name, message", [
    ("nothing", "There is no running container with the name 'nothing'"),
    ("../0/x", "Invalid container name '../0/x'"),
    ("..", "Invalid container name '..'"),
    ("", "Invalid container name ''"),
    (".hidden", "Invalid container name '.hidden'"),
])
def test_names_lead_nowhere_else(user_engine, name, message):
    result = user_engine.sarus("exec", name, "true")
    assert (result.returncode, result.stdout, result.stderr.splitlines()[0]) == (1, "", message)


def test_strangers_cannot_enter(engines, load_image, plain_busybox, other_user):
    engine = engines("setuid", "crun")
    container = Container(engine, load_image(engine, "busybox", plain_busybox), "private-exec")
    try:
        stranger = engine.variant(user=other_user)
        result = container.exec("id", engine=stranger)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.splitlines()[0] == "There is no running container with the name 'private-exec'"
    finally:
        container.stop()


UNSHARE = "unshare -Urm sh -c 'mount -t tmpfs none /proc; echo ready; sleep 1000'"


def test_a_first_process_that_moved_to_its_own_namespaces_is_not_followed(start, engine):
    """Root must not be led to files which an attacker has put in the place of /proc."""
    if engine.user.uid == 0:
        return  # without capabilities, root may not map its id: no attack
    container = start(f"exec {UNSHARE}")
    result = container.exec("id")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == f"The first process of the container '{container.name}' has moved to namespaces of its own"


def test_commands_enter_the_namespaces_of_the_container(start, engine):
    look = "for kind in net ipc uts; do readlink /proc/self/ns/$kind; done; grep -c : /proc/net/dev; ls /dev/shm; " \
        "test -w /dev/mqueue && echo queues"
    options = ["--network=none", "--ipc=private", "--uts=private"]
    container = start("echo of the container > /dev/shm/own; echo ready; sleep 1000", options=options)
    inside = container.output("sh", "-c", look)
    of_node = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "ipc", "uts")]
    assert not set(of_node) & set(inside.splitlines()) and inside.splitlines()[3:] == ["1", "own", "queues"]
    assert inside == container.output("sh", "-c", look), "each command enters the same"
    assert not pathlib.Path("/dev/shm/own").exists()
    assert container.output("sh", "-c", "ip link show lo | grep -c LOOPBACK,UP") == "1"
    shared = start()
    kinds = "for kind in net ipc uts; do readlink /proc/self/ns/$kind; done"
    assert shared.output("sh", "-c", kinds).splitlines() == of_node


def test_a_first_process_that_moved_to_another_network_is_not_followed(start, engine):
    if engine.user.uid == 0:
        return  # without capabilities, root may not map its id: no attack
    container = start("exec unshare -Urn sh -c 'echo ready; sleep 1000'")
    result = container.exec("id")
    assert (result.returncode, result.stdout) == (1, "")
    assert "has moved to namespaces of its own" in result.stderr.splitlines()[0]


def test_namespaces_that_change_all_the_time_never_let_a_command_in(setuid_engine, load_image, plain_busybox):
    """The race: the first process unshares just when it is being entered."""
    image = load_image(setuid_engine, "busybox", plain_busybox)
    for delay in range(6):
        name = f"race-{os.getpid()}-{delay}"
        script = f"echo ready; sleep 0.0{delay}; exec unshare -Urm sh -c 'mount -t tmpfs none /mnt && touch /mnt/moved; sleep 1000'"
        container = Container(setuid_engine, image, name, script)
        try:
            result = container.exec("sh", "-c", "ls /mnt; sleep 0.1; ls /mnt")
            assert "moved" not in result.stdout
        finally:
            container.stop()


def test_inspect_knows_more_of_a_running_container(start, busybox):
    container = start(options=["-w", "/tmp"])
    shown = container.engine.sarus("inspect", container.name).stdout
    assert re.search(rf"^Image: +(docker\.io/)?{re.escape(busybox)}:latest$", shown, re.MULTILINE)
    assert re.search(r"^Directory: +/tmp$", shown, re.MULTILINE)


def test_records_of_killed_starters_are_not_taken_for_containers(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    record = pathlib.Path(f"/run/sarus/{setuid_engine.user.uid}/.stale.json")
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.write_text('{"image":"x","command":[],"environment":[],"workdir":"/"}')
    try:
        assert setuid_engine.sarus("exec", "stale", "true").returncode == 1
        assert setuid_engine.output(image, "echo", "ran", options=["--name=stale"]) == "ran"
        assert not record.exists()
    finally:
        record.unlink(missing_ok=True)


def test_nothing_remains_of_the_record(start, engine):
    container = start()
    container.stop()
    state = engine.prefix.parent / "unused" if engine.rootless else pathlib.Path(f"/run/sarus/{engine.user.uid}")
    assert not list(state.glob(".exec-*"))


JOIN = ("run", "--name", "joined", "--entrypoint", "")


def test_a_container_is_joined_only_as_it_is(engine, load_image, images, plain_busybox):
    """What the plugin for Slurm calls. The record of a container does not change it."""
    image = load_image(engine, "busybox", plain_busybox)
    other = load_image(engine, "joined-other", images.busybox(extra=lambda layer: layer.file("other", b"")))
    with engine.standing(image, "--name", "joined", "--mount=type=bind,source=/usr,destination=/mnt/usr"):
        same = engine.sarus(*JOIN, "--join", image, "--mount=type=bind,source=/usr,destination=/mnt/usr", "--env=A=1", "--workdir=/mnt", "--",
                            "sh", "-c", "echo $A $PWD; ls -d usr")
        assert (same.returncode, same.stdout) == (0, "1 /mnt\nusr\n"), same
        for options, difference in ((["--join", other], f"image: {image}"), (["--join", "nosuch:1"], f"image: {image}"),
                                    (["--join", "", "--read-only"], "read-only root filesystem: no"),
                                    (["--join", "", "-v", "/tmp:/mnt/usr"], "mount on /mnt/usr: /usr instead of /tmp")):
            result = engine.sarus(*JOIN, *options, "--", "echo", "ran")
            assert result.returncode == 1 and result.stdout == "" and f"The container 'joined' runs already and cannot change: {difference}" in result.stderr, result
        assert engine.sarus(*JOIN, "--join", "", "--join-without=read-only", "--", "echo", "ran").stdout == "ran\n"


def test_a_forged_record_gains_nothing(rootless_engine, load_image, plain_busybox, open_directory):
    """A record without privileges is the user's own: it lets a command join, and brings nothing."""
    engine = rootless_engine
    runtime = open_directory / "session"
    runtime.mkdir(mode=0o700)
    engine.user.own(runtime)
    image = load_image(engine, "busybox", plain_busybox)
    session = {"XDG_RUNTIME_DIR": str(runtime)}
    with engine.standing(image, "--name", "joined", env=session):
        record, = runtime.rglob(".joined.json")
        content = json.loads(record.read_text().splitlines()[0])
        assert "settings" in content
        with open(record, "r+", encoding="ascii") as file:
            file.write(json.dumps({**content, "settings": ["mount on /mnt/x", "/usr", "root in the container", "yes"]}))
            file.truncate()
        result = engine.sarus(*JOIN, "--join", "", "-v", "/usr:/mnt/x", "--remap-root", "--", "sh", "-c", "id -u; ls /mnt/x 2>/dev/null | wc -l", env=session)
        assert result.stdout == f"{engine.user.uid}\n0\n", result
