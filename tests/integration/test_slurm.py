"""Job steps of a real Slurm: contexts of PMI-2 and PMIx, signals of scancel, and nothing left of a step that was cancelled."""

import subprocess
import time

import pytest
from helpers import installation, mpi, slurm, system
from test_mpi import RANKS, SOURCE, expected_lines

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def cluster(workspace):
    made = slurm.Slurm(workspace / "slurm")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def programs(workspace):
    directory = workspace / "slurm-mpi"
    directory.mkdir()
    return {kind: mpi.compile_program(kind, SOURCE, directory / kind) for kind in ("mpich", "openmpi")}


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def step_engine(request, engines):
    return engines(*request.param.split("-"))


@pytest.fixture
def busybox(step_engine, load_image, plain_busybox):
    return load_image(step_engine, "busybox", plain_busybox)


def step(cluster, engine, options, *arguments):
    """(argv, keyword arguments of subprocess) of `srun OPTIONS sarus ARGUMENTS` by the engine's user."""
    argv, identity = engine.command(*arguments)
    environment = engine.user.environment(**cluster.environment)
    return ([system.program("srun"), "--quiet", *options, *argv],
            {"env": environment, "cwd": engine.user.home, "stdin": subprocess.DEVNULL, "text": True, **identity})


def run_step(cluster, engine, options, *arguments):
    argv, keywords = step(cluster, engine, options, *arguments)
    return subprocess.run(argv, capture_output=True, timeout=120, **keywords)


def test_step_with_pmi2(cluster, engines, load_image, images, programs):
    engine = engines("setuid", "crun")
    image = load_image(engine, "slurm-mpich", mpi.image_with(images, "mpich", programs["mpich"]))
    result = run_step(cluster, engine, ["--mpi=pmi2", "-n", str(RANKS)], "run", image, "/app")
    assert (sorted(result.stdout.splitlines()), result.returncode) == (expected_lines(), 0), result.stderr


@pytest.fixture(scope="module")
def pmix_engine(make_setuid_prefix, user):
    return installation.Engine(make_setuid_prefix("pmix", enablePMIxv3Support=True), user, "setuid", "crun")


@pytest.fixture
def pmix_image(pmix_engine, load_image, images, programs):
    return load_image(pmix_engine, "slurm-openmpi", mpi.image_with(images, "openmpi", programs["openmpi"]))


def test_step_with_pmix(cluster, pmix_engine, pmix_image):
    result = run_step(cluster, pmix_engine, ["--mpi=pmix", "-n", str(RANKS)], "run", pmix_image, "/app")
    assert (sorted(result.stdout.splitlines()), result.stderr, result.returncode) == (expected_lines(), "", 0)


def test_directories_of_slurms_pmix_server_are_in_the_container(cluster, pmix_engine, pmix_image):
    script = 'ls -d "$PMIX_SERVER_TMPDIR" "$1"/spmix_appdir_*; env | grep PMIX_MCA'
    result = run_step(cluster, pmix_engine, ["--mpi=pmix"], "run", pmix_image, "sh", "-c", script, "sh", cluster.directory / "tmp")
    server, clients, *variables = result.stdout.splitlines()
    assert server.startswith(f"{cluster.directory}/spool/pmix.") and clients.startswith(f"{cluster.directory}/tmp/spmix_appdir_")
    assert "PMIX_MCA_psec=native" in variables
    assert result.stderr == ""


def test_directories_of_the_step_are_in_the_container_unless_the_site_refuses(cluster, pmix_engine, pmix_image):
    """Clients do not look for files that are not there."""
    script = 'ls -d "$PMIX_SERVER_TMPDIR" "$1"/spmix_appdir_* 2>/dev/null | wc -l; env | sed -n "s/^PMIX_MCA_//p"'
    try:
        for value, expected in ((None, ["2"]), (False, ["0", "gds=hash"])):
            installation.set_configuration(pmix_engine.prefix, enablePMIxv3Support=value)
            result = run_step(cluster, pmix_engine, ["--mpi=pmix"], "run", pmix_image, "sh", "-c", script, "sh", cluster.directory / "tmp")
            assert (result.stdout.split(), result.stderr) == (expected, ""), value
    finally:
        installation.set_configuration(pmix_engine.prefix, enablePMIxv3Support=True)


def test_no_task_asks_the_controller(pmix_engine, pmix_image, workspace):
    """Ten thousand of them would stop it. A Slurm in a directory of its own has its slurm.conf there."""
    prefix = installation.unused(workspace / "own")
    tmp = prefix / "tmp"
    clients = tmp / f"spmix_appdir_{pmix_engine.user.uid}_1.0"
    for made in (prefix / "bin", prefix / "etc", clients):
        made.mkdir(parents=True)
    pmix_engine.user.own(prefix)
    pmix_engine.user.own(clients)
    for name in ("scontrol", "srun", "squeue"):
        (prefix / "bin" / name).write_text(f"#!/bin/sh\n: > {prefix}/asked\nexec sleep 1000\n")
        (prefix / "bin" / name).chmod(0o755)
    (prefix / "etc/slurm.conf").write_text("Include directories.conf\n")
    (prefix / "etc/directories.conf").write_text(f"SlurmdSpoolDir=/nonexistent\ntmpfs={tmp}\n")
    environment = {"SLURM_MPI_TYPE": "pmix", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_JOB_UID": str(pmix_engine.user.uid),
                   "PMIX_SERVER_TMPDIR": "/nonexistent", "PATH": f"{prefix}/bin:{system.PATH}"}
    result = pmix_engine.run(pmix_image, "ls", "-d", clients, env=environment)
    assert (result.stdout, result.stderr) == (f"{clients}\n", "")
    assert not (prefix / "asked").exists()


class Step:
    """A step in which a command runs that reports on its standard output."""

    def __init__(self, cluster, engine, image, name, command):
        self.cluster = cluster
        self.name = name
        argv, keywords = step(cluster, engine, [f"--job-name={name}"], "run", image, "sh", "-c", command)
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords)

    def wait_for(self, line):
        while True:
            text = self.process.stdout.readline()
            assert text, self.process.stderr.read()
            if text.strip() == line:
                return

    def signal(self, name):
        result = self.cluster.call("scancel", f"--name={self.name}", f"--signal={name}")
        assert result.returncode == 0, result.stderr

    def end(self):
        if self.process.poll() is None:
            self.cluster.call("scancel", "--signal=KILL", f"--name={self.name}")
        return self.process.communicate(timeout=300)


@pytest.fixture
def start_step(cluster, step_engine, busybox):
    steps = []

    def start(command):
        steps.append(Step(cluster, step_engine, busybox, f"sarus-test-{len(steps)}-{time.monotonic_ns()}", command))
        return steps[-1]

    yield start
    for started in steps:
        started.end()


LOOP = "echo ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1"])
def test_signals_of_scancel_reach_the_command(start_step, name):
    started = start_step(f"trap 'echo caught; exit 7' {name}; {LOOP}")
    started.wait_for("ready")
    started.signal(name)
    started.wait_for("caught")
    assert started.process.wait(timeout=300) == 7


def states_of(uid, text):
    return {system.state(pid) for pid, owner, command in system.processes() if owner == uid and command.startswith(text)} - {""}


def test_step_is_suspended_and_resumed(start_step, step_engine):
    started = start_step(f": suspended; {LOOP}")
    started.wait_for("ready")
    command = "sh -c : suspended"
    uid = step_engine.user.uid
    assert states_of(uid, command) <= {"S", "R", "D"}
    started.signal("TSTP")
    assert system.eventually(lambda: states_of(uid, command) == {"T"})
    started.signal("CONT")
    assert system.eventually(lambda: states_of(uid, command) & {"S", "R", "D"})
    started.signal("TERM")
    assert started.process.wait(timeout=300) == 143


def test_cancelled_step_leaves_nothing(start_step, cluster, step_engine):
    started = start_step(f"trap '' TERM; sleep 1234 & {LOOP}")
    started.wait_for("ready")
    assert cluster.call("scancel", f"--name={started.name}").returncode == 0
    started.process.communicate(timeout=300)
    assert system.eventually(lambda: not [command for _, _, command in system.processes() if command == "sleep 1234"])
    # All of the step was killed at once: what is left of the container goes with the next command of the user that looks.
    assert system.eventually(lambda: len(step_engine.sarus("ps").stdout.splitlines()) == 1)


def test_exit_status_of_a_step_is_the_commands(cluster, step_engine, busybox):
    assert run_step(cluster, step_engine, [], "run", busybox, "sh", "-c", "exit 42").returncode == 42
