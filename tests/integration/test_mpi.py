"""MPI jobs on one node, started by the launchers of MPICH and Open MPI, without any hook."""

import pathlib
import subprocess

import pytest
from helpers import installation, mpi, system

SOURCE = pathlib.Path(__file__).parent / "programs" / "mpi_ranks.c"
RANKS = 4


@pytest.fixture(scope="module")
def programs(workspace):
    directory = workspace / "mpi"
    directory.mkdir()
    return {kind: mpi.compile_program(kind, SOURCE, directory / kind) for kind in ("mpich", "openmpi")}


@pytest.fixture
def image(load_image, images, programs):
    """image(engine, kind) -> reference of an image with the ranks' program."""
    return lambda engine, kind: load_image(engine, f"ranks-{kind}", mpi.image_with(images, kind, programs[kind]))


def launch(engine, kind, *arguments, ranks=RANKS):
    options = ["--oversubscribe"] if kind == "openmpi" else []
    command, identity = engine.launched_by([system.program(f"mpirun.{kind}"), *options, "-n", ranks], *arguments)
    return subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, **identity)


def expected_lines(ranks=RANKS):
    total = ranks * (ranks + 1) // 2
    return [f"rank {rank} of {ranks}: sum {total}, shared window ok, message ok, memory ok" for rank in range(ranks)]


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_ranks_share_memory_and_exchange_messages(engines, image, mode, runtime, kind):
    """Debian's MPICH sends large messages through UCX, which opens the other ranks' files in /proc and reads their memory."""
    engine = engines(mode, runtime)
    result = launch(engine, kind, "run", image(engine, kind), "/app")
    assert sorted(result.stdout.splitlines()) == expected_lines(), result.stderr
    assert result.returncode == 0


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_two_ranks_without_privileges(engines, image, runtime):
    engine = engines("rootless", runtime)
    result = launch(engine, "mpich", "run", image(engine, "mpich"), "/app", ranks=2)
    assert (sorted(result.stdout.splitlines()), result.returncode) == (expected_lines(2), 0), result.stderr


def test_pmix_clients_reach_the_files_of_their_server(make_setuid_prefix, user, image):
    """Without them the clients complain, and fetch each value from the server."""
    engine = installation.Engine(make_setuid_prefix("mpi-pmix", enablePMIxv3Support=True), user, "setuid", "crun")
    result = launch(engine, "openmpi", "run", image(engine, "openmpi"), "/app")
    assert (sorted(result.stdout.splitlines()), result.stderr, result.returncode) == (expected_lines(), "", 0)


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_options_that_no_hook_answers_are_reported(engines, load_image, plain_busybox, mode):
    """Without the host's MPI each rank would be a job of its own, and nobody would know why."""
    engine = engines(mode, "crun")
    reference = load_image(engine, "busybox", plain_busybox)
    failed = engine.run(reference, "true", options=["--mpi-type=typo"], check=False)
    assert (failed.returncode, failed.stderr) == (1, "No MPI hook has the type 'typo'\nNo MPI hook is configured\n")
    for option, kind in ("--mpi", "MPI"), ("--glibc", "glibc"):
        result = engine.run(reference, "true", options=[option])
        assert result.stderr.endswith(f"[WARN] The option '{option}' has no effect: no {kind} hook runs for this container\n")
