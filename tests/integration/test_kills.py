"""Many starts at once, and SIGKILL and SIGSTOP for every process that takes part in a container, at every step of a start: nothing may be
left on the node (the fixture leaves_nothing_behind looks after each test), and nobody else may be kept from starting.
"""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from helpers import installation, system

pytestmark = pytest.mark.asroot
MANY = pytest.mark.parametrize("count", [32, pytest.param(128, marks=pytest.mark.thorough)])

# Calls of the starter that change something which outlives them: the steps of a start.
STEPS = ["unshare", "mount", "flock", "ioctl", "pwrite64", "ftruncate", "move_mount", "mkdirat", "clone", "execveat"]


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def killed_engine(request, engines):
    """Rootless containers get a FUSE device which they may use, as on most nodes."""
    engine = engines(*request.param.split("-"))
    return engine.variant(sandbox=("--fuse",)) if engine.rootless else engine


@pytest.fixture
def image(killed_engine, load_image, plain_busybox):
    return load_image(killed_engine, "busybox", plain_busybox)


def children(pid):
    found = {}
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as numbers:
                for child in numbers.read().split():
                    with open(f"/proc/{child}/comm") as name:
                        found[name.read().strip()] = int(child)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended meanwhile
    return found


def start(engine, image, *options):
    """(process, {name: pid of a child of the starter}) of a container that sleeps."""
    process = engine.start("run", *options, image, "sh", "-c", "echo ready; exec sleep 3333")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    assert system.eventually(lambda: payload_runs(engine))
    return process, children(process.pid)


def payload_runs(engine):
    return any(command == "sleep 3333" and uid == engine.user.uid for _, uid, command in system.processes())


def check_gone(engine):
    assert system.eventually(lambda: not payload_runs(engine)), "the user's program was left behind"


def finish(process):
    process.kill()
    process.communicate(timeout=300)


@pytest.mark.parametrize("options", [(), ("--pid=private",), ("--init", "--pid=private")])
def test_killed_starter(killed_engine, image, options):
    process, _ = start(killed_engine, image, *options)
    finish(process)
    check_gone(killed_engine)


@pytest.mark.parametrize("options", [(), ("--pid=private",)])
def test_killed_runtime(killed_engine, image, options):
    process, others = start(killed_engine, image, *options)
    system.kill(others[killed_engine.runtime])
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0 and f"{killed_engine.runtime} was killed by signal 9" in errors
    check_gone(killed_engine)


def answering(program):
    """A script whose answer to SIGUSR1 shows that its runtime passes signals on, and so has reported it before."""
    return f"trap '' HUP; trap 'echo answers' USR1; echo ready; while :; do {program} & wait $!; done"


@pytest.mark.parametrize("command", ["run", "exec"])
def test_runtime_killed_with_the_starter(killed_engine, image, command):
    """As the kernel does when memory is full: nobody else knows the program then."""
    with killed_engine.standing(image, "--name=killed-together", script=answering("sleep 3334")) as container:
        process = container
        if command == "exec":
            process = killed_engine.start("exec", "killed-together", "sh", "-c", answering("sleep 3333"))
            assert process.stdout.readline() == "ready\n", process.stderr.read()
        sleeper = {"run": "sleep 3334", "exec": "sleep 3333"}[command]

        def runs():
            return any(line == sleeper and uid == killed_engine.user.uid for _, uid, line in system.processes())

        assert system.eventually(runs)
        runtime = children(process.pid)[killed_engine.runtime]
        system.kill(runtime, signal.SIGUSR1)
        assert process.stdout.readline() == "answers\n"
        system.kill(process.pid, signal.SIGSTOP)
        system.kill(runtime)
        finish(process)
        assert system.eventually(lambda: not runs()), "the user's program was left behind"


def test_killed_janitor_costs_nothing_but_the_janitor(killed_engine, image):
    process, others = start(killed_engine, image)
    system.kill(others["sarus-janitor"])
    assert system.eventually(lambda: "sarus-janitor" not in children(process.pid)), "the starter has not noticed"
    assert payload_runs(killed_engine) and process.poll() is None
    process.terminate()
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    check_gone(killed_engine)
    killed_engine.sarus("ps")  # or another start: only the janitor could remove the record


def test_killed_payload(killed_engine, image):
    process, others = start(killed_engine, image)
    payload = children(others[killed_engine.runtime])["sleep"]
    system.kill(payload)
    process.communicate(timeout=300)
    assert process.returncode == 137
    check_gone(killed_engine)


BACKGROUND = "sleep 3333 & (setsid sleep 3333 &) ; trap '' HUP TERM; "


@pytest.mark.parametrize("options", [(), ("--pid=private",), ("--init", "--pid=private")])
@pytest.mark.parametrize("end, status", [("exit 3", 3), ("exit 255", 255), ("sleep 0.3; exit 0", 0)])
def test_container_ends_with_its_main_process(killed_engine, image, options, end, status):
    result = killed_engine.run(image, "sh", "-c", BACKGROUND + end, options=options, check=False)  # to pipes, both streams
    assert (result.returncode, result.stderr) == (status, "")
    assert not payload_runs(killed_engine)


def test_processes_that_multiply_are_ended_with_the_main_process(killed_engine, image):
    script = 'cat > /tmp/again <<"E"\nsleep 0.05\n(sh /tmp/again &)\nexec sleep 3333\nE\nsh /tmp/again & sleep 0.3; exit 5'
    result = killed_engine.run(image, "sh", "-c", script, check=False)
    assert result.returncode == 5
    check_gone(killed_engine)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_containers_end_where_processes_of_root_are_hidden(engines, load_image, plain_busybox, runtime):
    engine = engines("setuid", runtime).variant(sandbox=("--hidepid",))
    image = load_image(engine, "busybox", plain_busybox)
    result = engine.run(image, "sh", "-c", BACKGROUND + "sleep 0.3; exit 3", check=False)
    assert (result.returncode, result.stderr) == (3, "")
    check_gone(engine)
    process, _ = start(engine, image)
    finish(process)
    check_gone(engine)


@pytest.mark.every_pair
@pytest.mark.parametrize("victim", ["starter", "runtime", "payload"])
def test_killed_with_processes_in_the_background(killed_engine, image, victim):
    process = killed_engine.start("run", image, "sh", "-c", "(sleep 3333 &); echo ready; exec sleep 3334")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    payload = system.eventually(lambda: [pid for pid, uid, command in system.processes() if command == "sleep 3334" and uid == killed_engine.user.uid])[0]
    runtime = children(process.pid)[killed_engine.runtime]
    system.kill({"starter": process.pid, "runtime": runtime, "payload": payload}[victim])
    process.communicate(timeout=300)
    assert process.returncode == {"starter": -signal.SIGKILL, "runtime": 1, "payload": 137}[victim]
    check_gone(killed_engine)


def test_killed_runtime_leaves_no_cgroup(killed_engine, image):
    name = f"killed-{os.getpid()}"
    process = killed_engine.start("run", "--name", name, image, "sh", "-c", "echo ready; exec sleep 3333")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    system.kill(children(process.pid)[killed_engine.runtime])
    process.communicate(timeout=300)
    assert system.eventually(lambda: not any(path.name.endswith(name) for path in system.cgroups()))


@pytest.mark.parametrize("arguments", [["ps"], ["run", "no-such-image", "true"], ["run", "--mount=type=bind,source=/no/such,destination=/x", None, "true"],
                                       ["kill", "no-such-container"], ["run", None, "no-such-command"]])
def test_without_containers_a_user_has_no_directory_of_them(killed_engine, image, arguments):
    killed_engine.sarus(*(argument or image for argument in arguments))
    assert system.eventually(lambda: not pathlib.Path(f"/run/sarus/{killed_engine.user.uid}").exists())  # root's `ps` may be looking there


def test_the_last_container_of_a_user_takes_the_cache_of_crun_along(engines, load_image, plain_busybox):
    """Newer ones keep compiled seccomp filters beside their containers."""
    engine = engines("setuid", "crun")
    image = load_image(engine, "busybox", plain_busybox)
    root = pathlib.Path(f"/run/sarus/{engine.user.uid}")
    with engine.standing(image) as process:
        (root / ".cache/seccomp").mkdir(parents=True, exist_ok=True)
        (root / ".cache/seccomp/08c2").write_bytes(b"filter")
        engine.run(image, "true")
        assert (root / ".cache/seccomp/08c2").exists()
        process.kill()
        assert system.eventually(lambda: not root.exists())


def image_server_of(others):
    return next((pid for name, pid in others.items() if name == "sarus-squashfs"), None)


def test_image_server_dies_with_its_container(killed_engine, image):
    process, others = start(killed_engine, image)
    server = image_server_of(others)
    assert (server is not None) == killed_engine.rootless
    process.terminate()
    process.communicate(timeout=300)
    assert server is None or not any(pid == server for pid, _, _ in system.processes())


def test_signals_for_a_whole_job_leave_its_root_filesystem(killed_engine, image):
    """Workload managers send a signal to every process of a job, and suspend jobs with SIGTSTP; programs go on and write a checkpoint."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM,
               signal.SIGTSTP, signal.SIGCONT)
    process = killed_engine.start("run", image, "sh", "-c", "trap '' HUP INT QUIT TERM USR1 USR2 ALRM XCPU TSTP; echo ready; while read line; do ls /bin/sh; done")
    assert process.stdout.readline() == "ready\n"
    server = image_server_of(children(process.pid))
    assert (server is not None) == killed_engine.rootless
    for number in numbers if server is not None else ():
        system.kill(server, number)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "/bin/sh\n", number
    assert process.communicate("\n", timeout=300) == ("/bin/sh\n", "")
    assert process.returncode == 0


def test_killed_image_server(killed_engine, image):
    process, others = start(killed_engine, image)
    server = image_server_of(others)
    if server is None:
        assert not killed_engine.rootless
    else:
        system.kill(server)
        assert system.eventually(lambda: "sarus-squashfs" not in children(process.pid)), "the starter has not noticed"
    process.terminate()
    said = process.communicate(timeout=300)[1]
    assert ("The process which provides the image (sarus-squashfs) was ended by SIGKILL: " in said) == (server is not None), said
    check_gone(killed_engine)


def runtime_root(engine, temp_dir):
    return temp_dir / f"sarus-{engine.user.uid}" / "state" if engine.rootless else pathlib.Path(f"/run/sarus/{engine.user.uid}")


def remembered(root):
    """What is left in that directory, which itself goes with a user's last container."""
    try:
        return list(root.iterdir())
    except FileNotFoundError:
        return []


def kill_whole_job(engine, image, *options):
    """As a workload manager ends a job: SIGKILL for all processes of its cgroup, in any order."""
    process, others = start(engine, image, *options)
    assert "sarus-janitor" in others, "it would clean up"
    victims = [process.pid, *others.values(), *children(others[engine.runtime]).values()]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them gets a moment to react to the end of another
        for pid in sorted(victims, reverse=True):
            system.kill(pid, number)
    process.communicate(timeout=300)
    for pid, uid, command in system.processes():
        if command == "sleep 3333" and uid == engine.user.uid:
            system.kill(pid)  # the job's other processes get the signal too
    assert system.eventually(lambda: all(system.state(pid) in ("", "Z") for pid in victims))
    check_gone(engine)


def test_everything_of_a_start_is_gone_when_the_whole_job_is_killed(killed_engine, image, temp_dir):
    root = runtime_root(killed_engine, temp_dir)
    kill_whole_job(killed_engine, image, "--name=killed")
    killed_engine.run(image, "true")
    assert system.eventually(lambda: not remembered(root))


@pytest.mark.parametrize("action", ["ps", "kill", "run", "exec"])
def test_container_of_a_killed_job_is_no_more(killed_engine, image, temp_dir, action):
    kill_whole_job(killed_engine, image, "--name=killed")
    if action == "ps":
        result = killed_engine.sarus("ps")
        assert result.returncode == 0 and "killed" not in result.stdout
    elif action == "kill":
        result = killed_engine.sarus("kill", "killed")
        assert (result.returncode, result.stderr.splitlines()[0]) == (1, "There is no container with the name 'killed'")
    elif action == "run":
        assert killed_engine.output(image, "echo", "again", options=["--name=killed"]) == "again"
    else:
        result = killed_engine.sarus("exec", "killed", "true")
        assert (result.returncode, result.stderr.splitlines()[0]) == (1, "There is no running container with the name 'killed'")
        killed_engine.sarus("ps")
    assert not remembered(runtime_root(killed_engine, temp_dir))


def test_containers_that_survive_their_starter_and_janitor_are_still_there(killed_engine, image):
    """One that ignores the SIGHUP which it gets then."""
    process = killed_engine.start("run", "--name=survivor", image, "sh", "-c", "trap '' HUP; echo ready; while :; do sleep 0.1; done")
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    system.kill(children(process.pid)["sarus-janitor"])
    process.kill()
    process.wait()
    try:
        assert "survivor" in killed_engine.sarus("ps").stdout
        again = killed_engine.run(image, "true", options=["--name=survivor"], check=False)
        assert again.returncode == 1 and "A container with the name 'survivor' exists already" in again.stderr
        assert "survivor" in killed_engine.sarus("ps").stdout
    finally:
        assert killed_engine.sarus("kill", "--signal=KILL", "survivor").returncode == 0
    process.communicate(timeout=300)
    assert system.eventually(lambda: "survivor" not in killed_engine.sarus("ps").stdout)


def test_killed_janitor_does_not_make_the_container_a_dead_one(killed_engine, image):
    process, others = start(killed_engine, image, "--name=kept")
    system.kill(others["sarus-janitor"])
    assert "kept" in killed_engine.sarus("ps").stdout
    assert killed_engine.sarus("exec", "kept", "true").returncode == 0
    assert killed_engine.sarus("kill", "--signal=TERM", "kept").returncode == 0
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert "kept" not in killed_engine.sarus("ps").stdout


# Many starts at once


def own_loop_devices(home_base):
    return [name for name, file in system.loop_devices().items() if file.startswith(str(home_base))]


def start_many(engine, image, count):
    return [engine.start("run", image, "sh", "-c", "echo ready; read line", stdin=subprocess.PIPE) for _ in range(count)]


def await_ready(processes):
    for process in processes:
        line = process.stdout.readline()
        assert line == "ready\n", line + process.stderr.read()


def end_all(processes):
    for process in processes:
        process.stdin.close()
        process.stdin = None
    for process in processes:
        process.communicate(timeout=300)
    return collections.Counter(process.returncode for process in processes)


def private_memory(process):
    """Bytes that belong to this process alone."""
    with open(f"/proc/{process.pid}/smaps_rollup") as file:
        return int(re.search(r"^Private_Dirty: +(\d+)", file.read(), re.M)[1]) << 10


@MANY
def test_many_starts_share_one_loop_device(setuid_engine, load_image, plain_busybox, home_base, count):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    assert own_loop_devices(home_base) == []
    processes = start_many(setuid_engine, image, count)
    await_ready(processes)
    devices = own_loop_devices(home_base)
    memory = max(map(private_memory, processes))
    assert end_all(processes) == {1: count}, "read fails at the end of its input"
    assert len(devices) == 1
    assert memory < 1 << 20
    assert system.eventually(lambda: not own_loop_devices(home_base))


@MANY
def test_many_rootless_starts_share_one_server(rootless_engine, load_image, plain_busybox, count):
    engine = rootless_engine.variant(sandbox=("--fuse",))
    image = load_image(engine, "busybox", plain_busybox)
    processes = start_many(engine, image, count)
    await_ready(processes)
    servers = [server for server in (image_server_of(children(process.pid)) for process in processes) if server is not None]
    memory = max(map(private_memory, processes))
    assert end_all(processes) == {1: count}, "read fails at the end of its input"
    assert len(servers) == 1
    assert memory < 1 << 20
    assert system.eventually(lambda: not {pid for pid, _, _ in system.processes()} & set(servers))


# The first starter is killed or stopped at each of its steps


def traced(engine, image, inject=()):
    """A start under strace as root, which leaves the set-user-ID bit its effect. Other processes than `sarus` itself are left alone."""
    argv, _ = engine.variant(sandbox=()).command("run", image, "true")
    sandbox = [str(installation.SANDBOX), *engine.sandbox, "--"] if engine.sandbox else []
    command = [*sandbox, "strace", "--quiet=all", "--user", engine.user.name, *inject, *argv]
    return subprocess.Popen(command, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def steps_of(engine, image, directory):
    """[(call, number)] of the steps of one start: what the process makes of them that `sarus` becomes."""
    file = directory / "trace"
    process = traced(engine, image, ["--trace", ",".join(STEPS), "--output", str(file)])
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found, steps = collections.Counter(), []
    for line in file.read_text().splitlines():
        call = line.split("(")[0]
        if call in STEPS:
            found[call] += 1
            steps.append((call, found[call]))
    return steps


def interrupt(engine, image, call, number, name):
    """A start that gets the signal when it makes a call for the nth time."""
    return traced(engine, image, ["--trace", call, "--output", "/dev/null", "--inject", f"{call}:signal={name}:when={number}"])


@pytest.fixture
def stepped(killed_engine, load_image, plain_busybox, home_base, tmp_path):
    """(engine, image, steps of a start that is alone)."""
    image = load_image(killed_engine, "busybox", plain_busybox)
    # The end of another user's container may remove this user's directory under a start, which makes it once more: two in a row agree.
    steps, before = steps_of(killed_engine, image, tmp_path), None
    while steps != before:
        steps, before = steps_of(killed_engine, image, tmp_path), steps
    assert len(steps) > (5 if killed_engine.rootless else 15), steps
    assert system.eventually(lambda: not own_loop_devices(home_base))
    return killed_engine, image, steps


def check_starts(engine, image, count, step):
    others = [engine.start("run", image, "true") for _ in range(count)]
    for other in others:
        _, errors = other.communicate(timeout=300)
        assert other.returncode == 0, f"{step}: {errors}"


def test_starter_killed_at_each_step(stepped, home_base):
    """Together with others; and where it then had no need to come to this step, because another one had mounted the image, alone."""
    engine, image, steps = stepped
    for call, number in steps:
        first = interrupt(engine, image, call, number, "SIGKILL")
        check_starts(engine, image, 2, (call, number))
        first.communicate(timeout=300)
        if first.returncode == 0:
            assert system.eventually(lambda: not own_loop_devices(home_base))
            first = interrupt(engine, image, call, number, "SIGKILL")
            first.communicate(timeout=300)
            check_starts(engine, image, 1, (call, number))
        assert first.returncode != 0, f"{call} {number} was not reached"
    check_starts(engine, image, 1, "a start after the last one that was killed")  # which removes its record


def is_stopped(pid):
    """Whether the process has been in one stop for some time: the tracer has it stop for a moment at each call."""
    def state():
        with open(f"/proc/{pid}/status") as file:
            return re.findall(r"^(?:State:\t(\S)|\w+ctxt_switches:\t(\d+))", file.read(), re.M)

    before = state()
    time.sleep(0.03)
    return before[0][0] in "Tt" and state() == before


@pytest.mark.thorough
@pytest.mark.parametrize("killed_engine", ["setuid-crun", "setuid-runc", "rootless-crun"], indirect=True)
def test_starter_stopped_at_each_step_keeps_nobody_else_from_starting(stepped, home_base):
    """And goes on when it is told to."""
    engine, image, steps = stepped
    for call, number in steps:
        tracer = interrupt(engine, image, call, number, "SIGSTOP")
        try:
            first = system.eventually(lambda: children(tracer.pid).get("sarus-starter"), interval=0.005)
            assert first and system.eventually(lambda: is_stopped(first), interval=0.01), f"{call} {number} was not reached"
            check_starts(engine, image, 2, (call, number))
        finally:
            for child in children(tracer.pid).values():
                system.kill(child, signal.SIGCONT)
            _, errors = tracer.communicate(timeout=300)
        assert tracer.returncode == 0, f"{call} {number}: {errors}"
        assert system.eventually(lambda: not own_loop_devices(home_base))


@MANY
def test_starts_while_the_first_starter_is_stopped_with_the_lock(setuid_engine, load_image, plain_busybox, home_base, count):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    first = interrupt(setuid_engine, image, "pwrite64", 1, "SIGSTOP")
    try:
        assert system.eventually(lambda: own_loop_devices(home_base))
        processes = start_many(setuid_engine, image, count)
        await_ready(processes)
        assert end_all(processes) == {1: count}
    finally:
        for child in children(first.pid).values():
            system.kill(child, signal.SIGCONT)
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors


def test_a_container_that_is_about_to_begin_is_listed_with_all(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    first = interrupt(setuid_engine, image, "pwrite64", 1, "SIGSTOP")
    try:
        coming, = system.eventually(lambda: json.loads(setuid_engine.sarus("ps", "--all", "--json").stdout))
        assert (coming["status"], coming["pid"], coming["image"], coming["owner"]) == ("creating", 0, f"{image}:latest", "root")
        assert "creating" in setuid_engine.sarus("ps", "--all", "--format=brief").stdout
        assert json.loads(setuid_engine.sarus("ps", "--json").stdout) == []
    finally:
        for child in children(first.pid).values():
            system.kill(child, signal.SIGCONT)
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors
    assert json.loads(setuid_engine.sarus("ps", "--all", "--json").stdout) == []


def test_nothing_of_the_user_stays_in_run_after_the_last_container(engines, load_image, plain_busybox):
    """Also while other containers of the user start: one of them makes the directory again that the end of another has removed."""
    engine = engines("setuid", "crun")
    image = load_image(engine, "busybox", plain_busybox)
    loop = ["sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9 10; do {engine.program} run {image} true || exit 1; done"]
    _, identity = engine.command()
    processes = [subprocess.Popen(loop, env=engine.user.environment(), cwd=engine.user.home, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True, **identity) for _ in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, "")
    assert system.eventually(lambda: not pathlib.Path(f"/run/sarus/{engine.user.uid}").exists())  # root's `ps` may be looking there
