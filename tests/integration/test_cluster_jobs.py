"""Jobs of a real Slurm on several nodes: ends of all kinds, limits, and what remains of them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import types

import pytest
from helpers import images, installation, slurm, system
from helpers.cluster import Cluster
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH
from helpers.terminal import Terminal

pytestmark = pytest.mark.asroot

LOOP = "echo ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module", params=["setuid-crun", "setuid-runc", "rootless-crun"])
def any_mode(request, engines, cluster, source_dir):
    """Nodes of the cluster have their own /dev/fuse, which is open to all."""
    return with_epilog(engines(*request.param.split("-")).variant(sandbox=()), cluster, source_dir)


@pytest.fixture
def engine(engines, cluster, source_dir):
    return with_epilog(engines("setuid", "crun"), cluster, source_dir)


def with_epilog(engine, cluster, source_dir):
    """The epilog of the administrator's guide, for this installation."""
    cluster.set_epilog("#!/bin/sh\n" + documented_epilog(source_dir).replace("/opt/sarus", str(engine.prefix)))
    return engine


def documented_epilog(source_dir):
    return re.search(r"This `Epilog`.*?```sh\n(.*?)```", (source_dir / "docs/admin/guide.md").read_text(), re.DOTALL)[1]


@pytest.fixture
def image(engines, load_image, plain_busybox):
    return load_image(engines("setuid", "crun"), "busybox", plain_busybox)


def step(cluster, engine, options, image, *command, run=(), **keywords):
    return cluster.srun(*options, engine.program, "run", *run, image, *command, user=engine.user, **keywords)


class Job:
    """A batch job of the user, with its script and its output in the shared home."""

    def __init__(self, cluster, engine, options, script):
        self.cluster, self.user = cluster, engine.user
        self.output = engine.user.home / f"job-{time.monotonic_ns()}.txt"
        file = self.output.with_suffix(".sh")
        file.write_text(f"#!/bin/sh\n{script}\n")
        result = cluster.run("login", "sbatch", "--parsable", f"--output={self.output}", *options, file, user=engine.user, check=True)
        self.id = result.stdout.strip()

    def state(self):
        shown = self.cluster.run("login", "scontrol", "--oneliner", "show", "job", self.id, check=True).stdout
        return re.search(r"JobState=(\S+)", shown)[1]

    def wait_for(self, state):
        assert system.eventually(lambda: self.state() == state, 300, 0.1), f"{self.state()}\n{self.text()}\n{self.cluster.logs()}"

    def wait_for_text(self, text):
        assert system.eventually(lambda: text in self.text(), 300, 0.05), f"{text!r} is not in {self.text()!r}"

    def text(self):
        return self.output.read_text() if self.output.exists() else ""

    def control(self, *arguments):
        self.cluster.run("login", *arguments, self.id, check=True)


@pytest.fixture
def submit(cluster, engine, image):
    """submit(options, script) -> Job; "SARUS" in the script becomes `PATH/sarus run IMAGE`."""
    jobs = []

    def submit_job(options, script, by=engine):
        jobs.append(Job(cluster, by, options, script.replace("SARUS", f"{by.program} run {image}")))
        return jobs[-1]

    yield submit_job
    for job in jobs:
        cluster.run("login", "scancel", "--signal=KILL", "--full", job.id)
        cluster.run("login", "scancel", job.id)


def assert_nothing_is_left(cluster, user, nodes=None):
    for node in nodes or cluster.nodes:
        assert system.remains(lambda: cluster.left_on(node, user), 300) == [], node


@pytest.mark.parametrize("command, status", [("exit 42", 42), ("kill -TERM $$", 143), ("kill -9 $$", 137), ("exec /nonexistent", 127)])
def test_exit_status_of_a_step_is_the_commands(cluster, engine, image, command, status):
    assert step(cluster, engine, ["-N2"], image, "sh", "-c", command).returncode == status


def test_exit_status_of_a_step_is_the_highest_of_its_tasks(cluster, engine, image):
    assert step(cluster, engine, ["-N4", "-n8"], image, "sh", "-c", "exit $SLURM_PROCID").returncode == 7


def test_sixty_four_tasks_on_one_node(cluster, any_mode, image):
    result = step(cluster, any_mode, ["-N1", "-n64", "--overcommit"], image, "sh", "-c", "echo $SLURM_PROCID")
    assert sorted(map(int, result.stdout.split())) == list(range(64)), result.stderr
    assert result.returncode == 0
    assert_nothing_is_left(cluster, any_mode.user)


def test_system_calls_of_tasks_pass_no_filter(cluster, any_mode, image):
    """Each call of a program below a filter is slower, which MPI over TCP notices."""
    assert step(cluster, any_mode, ["-N2"], image, "grep", "^Seccomp:", "/proc/self/status").stdout == 2 * "Seccomp:\t0\n"


@pytest.mark.parametrize("binding", ["cores", "map_cpu:1,0", "mask_cpu:0x1,0x2", "none"])
def test_processors_of_a_task_are_those_of_cpu_bind(cluster, any_mode, image, binding):
    command = ["sh", "-c", "echo $SLURM_PROCID $(grep Cpus_allowed_list /proc/self/status)"]
    options = ["-N1", "-n2", f"--cpu-bind={binding}"]
    native = cluster.srun(*options, *command, user=any_mode.user)
    contained = step(cluster, any_mode, options, image, *command)
    assert sorted(contained.stdout.splitlines()) == sorted(native.stdout.splitlines()) != []


def test_epilog_ends_what_the_job_left_and_spares_a_job_that_starts_meanwhile(source_dir, tmp_path):
    """The other job begins when the script looks for jobs."""
    uid = 2_000_000_000 + os.getpid()  # nobody's
    start = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sleep", "1000"]
    program = tmp_path / "grep"
    program.write_text(f"#!/bin/sh\n[ -e {tmp_path}/other ] || {{ {' '.join(start)} >/dev/null 2>&1 </dev/null & echo $! >{tmp_path}/other; }}\n"
                       "exec /usr/bin/grep \"$@\"\n")
    program.chmod(0o755)
    left = subprocess.Popen(start)
    try:
        assert system.eventually(lambda: os.stat(f"/proc/{left.pid}").st_uid == uid)
        environment = {"PATH": f"{tmp_path}:{system.PATH}", "SLURM_JOB_UID": str(uid), "SLURM_JOB_USER": "nobody", "SLURM_JOB_ID": "77"}
        subprocess.run(["sh", "-c", documented_epilog(source_dir).replace("/opt/sarus/bin/sarus", "true")], env=environment, check=True)
        assert left.wait(60) == -signal.SIGKILL
        os.kill(int((tmp_path / "other").read_text()), 0)
    finally:
        left.kill()
        system.kill(int((tmp_path / "other").read_text()))


def test_array_tasks_have_their_number(submit):
    job = submit(["--array=0-3", "--open-mode=append"], "SARUS sh -c 'echo number $SLURM_ARRAY_TASK_ID'")
    assert system.eventually(lambda: job.text().count("number") == 4, interval=0.1), job.text()
    assert sorted(job.text().split()[1::2]) == ["0", "1", "2", "3"]


def test_components_of_a_heterogeneous_step(cluster, engine, image):
    command = [engine.program, "run", image, "sh", "-c", "echo $SLURM_HET_SIZE $SLURM_PROCID $1 $(hostname)", "sh"]
    result = cluster.srun("-N1", "-n1", *command, "first", ":", "-N1", "-n2", *command, "second", user=engine.user)
    lines = sorted(line.split()[:3] for line in result.stdout.splitlines())
    assert lines == [["2", "0", "first"], ["2", "1", "second"], ["2", "2", "second"]], result.stderr


def test_tasks_of_a_step_run_different_containers(cluster, engine, image):
    file = engine.user.home / "programs"
    file.write_text(f"0 {engine.program} run {image} echo first\n1-2 {engine.program} run {image} echo other %t\n")
    result = cluster.srun("-N2", "-n3", "--overcommit", "--multi-prog", file, user=engine.user)
    assert sorted(result.stdout.splitlines()) == ["first", "other 1", "other 2"], result.stderr


def test_step_of_an_allocation(cluster, engine, image):
    result = cluster.run("login", "salloc", "-N2", "srun", engine.program, "run", image, "hostname", user=engine.user, check=True)
    assert len(result.stdout.split()) == 2


def test_interactive_step_on_a_terminal(cluster, engine, image):
    argv, environment = cluster.entered("login", "srun", "--pty", engine.program, "run", "-t", image, "sh", user=engine.user, env={"TERM": "xterm"})
    terminal = Terminal(argv, {}, env=environment)
    try:
        terminal.type("echo $((6 * 7)); tty\n")
        terminal.expect("42\n/dev/pts/")
        terminal.type("stty size\n")
        terminal.expect("24 80\n")
        terminal.resize(50, 132)
        terminal.type("until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; echo $((5 * 5))\n")
        terminal.expect("25\n")
        terminal.type("echo $((8 * 8)); sleep 1000\n")
        terminal.expect("64\n")
        assert system.eventually(lambda: any(line == "sleep 1000" for _, _, line in system.processes()))
        terminal.type("\x03")
        terminal.type("echo $((7 * 7)); exit 5\n")
        terminal.expect("49\n")
        assert terminal.wait() == 5
    finally:
        terminal.process.kill()


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1"])
def test_signal_reaches_all_tasks(cluster, any_mode, submit, name):
    job = submit(["-N2"], f"srun -n4 --overcommit SARUS sh -c \"trap 'echo caught; exit 7' {name}; {LOOP}\"; echo status $?", by=any_mode)
    assert system.eventually(lambda: job.text().count("ready") == 4), job.text()
    cluster.run("login", "scancel", f"--signal={name}", f"{job.id}.0", user=any_mode.user, check=True)
    job.wait_for_text("status 7")
    assert job.text().count("caught") == 4


@pytest.mark.thorough
def test_cancelled_job_leaves_nothing(cluster, any_mode, submit):
    job = submit(["-N2", "--exclusive"], f"srun -n4 --overcommit SARUS sh -c \"trap '' TERM; sleep 1234 & {LOOP}\"", by=any_mode)
    assert system.eventually(lambda: job.text().count("ready") == 4), job.text()
    job.control("scancel")
    job.wait_for("CANCELLED")
    assert_nothing_is_left(cluster, any_mode.user)


def test_suspended_job_stands_still_until_it_is_resumed(cluster, engine, submit):
    job = submit(["-N1"], "SARUS sh -c 'while :; do echo tick; sleep 0.05; done'")
    job.wait_for_text("tick")
    job.control("scontrol", "suspend")
    job.wait_for("SUSPENDED")

    def stands_still():
        length = len(job.text())
        time.sleep(0.3)
        return len(job.text()) == length

    assert system.eventually(stands_still), "the job goes on"
    length = len(job.text())
    job.control("scontrol", "resume")
    assert system.eventually(lambda: len(job.text()) > length), "the job does not go on"


def test_requeued_job_starts_again_and_leaves_nothing(cluster, engine, submit):
    job = submit(["-N1", "--requeue", "--open-mode=append"], f'SARUS sh -c "echo restarts ${{SLURM_RESTART_COUNT:-0}}; {LOOP}"')
    job.wait_for_text("restarts 0")
    job.control("scontrol", "requeue")
    job.wait_for("PENDING")
    assert_nothing_is_left(cluster, engine.user)
    cluster.run("login", "scontrol", "update", f"JobId={job.id}", "StartTime=now", check=True)
    job.wait_for_text("restarts 1")


@pytest.mark.thorough
def test_job_beyond_its_time_limit_leaves_nothing(cluster, engine, submit):
    """Slurm looks every 30 seconds. It sends SIGTERM, and SIGKILL after KillWait."""
    files = [engine.user.home / f"limit-{task}.txt" for task in range(2)]  # srun itself may end before it has all output

    def words(word):
        return all(file.exists() and word in file.read_text() for file in files)

    job = submit(["-N2", "--time=1"], f"srun -n2 --output={engine.user.home}/limit-%t.txt SARUS sh -c \"trap 'echo caught' TERM; {LOOP}\"")
    assert system.eventually(lambda: words("ready")), job.text()
    cluster.run("login", "scontrol", "update", f"JobId={job.id}", "EndTime=now+5", check=True)
    job.wait_for("TIMEOUT")
    assert words("caught"), job.text()
    assert_nothing_is_left(cluster, engine.user)


# dd has a buffer of this size, and fills it.
ALLOCATE = "dd if=/dev/zero of=/dev/null bs=300M count=1"


@pytest.mark.parametrize("command", [ALLOCATE, f"sh -c '{ALLOCATE}; exit 137'"], ids=["program", "child"])
def test_container_that_runs_out_of_memory_says_so(cluster, any_mode, image, command):
    script = f'"$@" sh -c "exec {command}"; echo status $?'
    result = cluster.srun("-N1", "-n2", "--mem=100M", "sh", "-c", script, "sh", any_mode.program, "run", image, user=any_mode.user)
    assert result.stdout == 2 * "status 137\n", result.stderr
    lines = [line for line in result.stderr.splitlines() if "Out of memory" in line]
    expected = (r"Out of memory: the kernel killed a process of the container. The limit is 100.00MB \(104857600 bytes in /\S+/job_\d+\S*\), "
                r"the peak was (9\d|100).\d\dMB, files in memory take \S+[KM]?B")
    assert lines and all(re.fullmatch(expected, line) for line in lines), result.stderr  # tasks whose numbers agree say it once


def test_files_of_a_container_leave_memory_to_its_step(cluster, any_mode, image):
    """The kernel killed slurmstepd, and the job hung."""
    script = "dd if=/dev/zero of=/big bs=1M count=600; echo status $?"
    result = step(cluster, any_mode, ["-N1", "--mem=200M"], image, "sh", "-c", script)
    assert (result.stdout, result.returncode) == ("status 1\n", 0) and "No space left on device" in result.stderr, result.stderr


def test_container_within_its_memory_says_nothing(cluster, any_mode, image):
    result = step(cluster, any_mode, ["-N1", "--mem=100M"], image, "sh", "-c", "kill -9 $$")
    assert (result.returncode, "Out of memory" in result.stderr) == (137, False)


def test_user_in_a_container_submits_jobs(cluster, make_setuid_prefix, user, load_image):
    """From the login node, with the client of Slurm mounted as the guide says."""
    engine = installed_with_slurm(make_setuid_prefix, user)

    def extra(layer):
        layer.directory("lib64")
        layer.directory(MULTIARCH.lstrip("/"))
        layer.file(MULTIARCH.lstrip("/") + "/libc.so.6", LIBC.read_bytes(), mode=0o755)
        layer.file(str(LINKER).lstrip("/"), LINKER.read_bytes(), mode=0o755)

    reference = load_image(engine, "slurm-client", images.Image([images.busybox_layer(extra=extra)], {"Env": [images.PATH_VARIABLE]}))
    result = cluster.run("login", engine.program, "run", reference, "srun", "--nodelist=node1,node2", engine.program, "run", reference, "hostname",
                         user=engine.user)
    assert (sorted(result.stdout.split()), result.returncode) == (["node1", "node2"], 0), result.stderr


def installed_with_slurm(make_setuid_prefix, user):
    prefix = make_setuid_prefix("with-slurm")
    clients = types.SimpleNamespace(client_configuration="/etc/slurm", munge="/run/munge")
    hook = {"version": "1.0.0", "hook": {"path": f"{prefix}/bin/mount_hook", "args": ["mount_hook", *slurm.documented_arguments(clients)]},
            "when": {"always": True}, "stages": ["createContainer"]}
    (prefix / "etc/hooks.d/06-slurm-hook.json").write_text(json.dumps(hook))
    return installation.Engine(prefix, user, "setuid", "crun")


def login_session(cluster, engine, image, node):
    """A container that the user has started on a node beside Slurm, as after an SSH login. No earlier job's epilog ends it."""
    state = ["sinfo", "--noheader", f"--nodes={node}", "--format=%T"]
    assert system.eventually(lambda: cluster.run("login", *state).stdout.strip() == "idle", interval=0.2)
    session = cluster.start(node, engine.program, "run", image, "sh", "-c", LOOP, user=engine.user)
    assert session.stdout.readline() == "ready\n", session.stderr.read()
    return session


def test_killed_login_session_leaves_nothing(cluster, any_mode, image):
    """As pam_slurm_adopt does it: all processes of the user at once."""
    session = login_session(cluster, any_mode, image, "node1")
    cluster.run("node1", "pkill", "-KILL", "-U", any_mode.user.uid)
    session.communicate(timeout=300)
    cluster.run("node1", any_mode.program, "ps", user=any_mode.user, check=True)
    assert_nothing_is_left(cluster, any_mode.user, ["node1"])


def test_epilog_ends_what_the_user_has_started_beside_the_job(cluster, engine, image):
    session = login_session(cluster, engine, image, "node1")
    step(cluster, engine, ["-w", "node1"], image, "true")
    session.communicate(timeout=300)
    assert_nothing_is_left(cluster, engine.user, ["node1"])


def test_epilog_leaves_roots_processes_alone(cluster, engine):
    """Slurm's daemon on the node is one of them."""
    for _ in range(2):
        assert cluster.srun("-w", "node1", "true").returncode == 0


def test_killed_slurmstepd_takes_its_containers_along(common, home_base, any_mode, image, source_dir):
    other = Cluster(shared=home_base, visible=[common], nodes=1)
    with_epilog(any_mode, other, source_dir)
    try:
        job = other.start("login", "srun", "sh", "-c", f"{any_mode.program} run {image} sh -c \"trap '' TERM; {LOOP}\"; true", user=any_mode.user)
        assert job.stdout.readline() == "ready\n"
        other.run("node1", "pkill", "-KILL", "-x", "slurmstepd", check=True)
        assert system.remains(lambda: other.left_by_sarus("node1", any_mode.user)) == []
        other.run("login", "scancel", "--user", any_mode.user.name, check=True)
        assert_nothing_is_left(other, any_mode.user)
    finally:
        other.stop()
        job.communicate(timeout=300)


def test_container_has_the_devices_of_its_job(common, home_base, engines, engine, image):
    """Two devices that every machine has, and nobody opens here, stand in for the GPUs of a node. Users can open the second one."""
    gpu = "/dev/autofs"
    other = Cluster(shared=home_base, visible=[common], nodes=1, settings={"GresTypes": "gpu"}, node_settings="Gres=gpu:2",
                    files={"gres.conf": f"Name=gpu File=/dev/kmsg\nName=gpu File={gpu}\n"})
    without_privileges = engines("rootless", "crun").variant(sandbox=())
    try:
        for count in 1, 2:
            options, command = [f"--gres=gpu:{count}"], ["sh", "-c", f": < {gpu}"]
            assert (other.srun(*options, *command, user=engine.user).returncode == 0) == (count == 2)
            for by in engine, without_privileges:
                contained = step(other, by, options, image, *command, run=[f"--device={gpu}:r"])
                assert (contained.returncode == 0) == (count == 2), contained.stderr
                assert count == 2 or by is without_privileges or "ask the workload manager for the device" in contained.stderr
            for request in [], [f"--mount=type=bind,src={gpu},dst={gpu}"]:
                assert step(other, engine, options, image, *command, run=request).returncode != 0
    finally:
        other.stop()


def test_dead_node_takes_its_containers_along(common, home_base, engine, image):
    other = Cluster(shared=home_base, visible=[common], nodes=2)
    try:
        job = other.start("login", "srun", "-N2", engine.program, "run", image, "sh", "-c", LOOP, user=engine.user)
        assert [job.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
        own = system.namespaces(processes_in(other, "node2")) - system.namespaces([os.getpid(), *processes_in(other, "node1")])
        members = system.members(own)
        other.kill("node2")
        assert system.eventually(lambda: not processes_in(other, "node2")), processes_in(other, "node2")
        assert system.eventually(lambda: not system.alive(members)), "a process holds the node's mounts, its /run and its cgroups"
        assert {pid for file in cgroups_of(other, "node2") for pid in file.read_text().split()} == set()
        assert processes_in(other, "node1")
        other.run("login", "scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=dead", check=True)
        job.communicate(timeout=300)
        other.run("node1", engine.program, "ps", user=engine.user, check=True)
        assert_nothing_is_left(other, engine.user, ["node1"])
    finally:
        other.stop()
    assert not [pid for pid, uid, _ in system.processes() if uid == engine.user.uid]


def processes_in(cluster, node):
    """The numbers of a node's processes, seen from the machine."""
    name = f"/test-cluster-{cluster.name}/{node}"
    return [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/cgroup") if name in text_of(path)]


def cgroups_of(cluster, node):
    """The lists of processes of a node's cgroups, those of its containers included."""
    return [file for top in pathlib.Path("/sys/fs/cgroup").iterdir() for file in top.glob(f"test-cluster-{cluster.name}/{node}/**/cgroup.procs")]


def text_of(path):
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""
