"""MPI programs in containers on several nodes of a real Slurm: with the host's MPI through the hook, and with their own."""

import json
import pathlib
import re

import pytest
from helpers import installation, mpi

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

PROGRAMS = pathlib.Path(__file__).parent / "programs"
LINE = re.compile(r"(\d+) of (\d+) on (\S+): sum (\d+), library (\S+) (\d+)")


@pytest.fixture(scope="module")
def programs(workspace):
    directory = workspace / "cluster-mpi"
    directory.mkdir()
    return {kind: mpi.compile_program(kind, PROGRAMS / "mpi_bench.c", directory / kind) for kind in ("mpich", "openmpi")}


@pytest.fixture(scope="module")
def engine(make_setuid_prefix, user):
    """An installation whose MPI hook has the host's MPICH."""
    prefix = make_setuid_prefix("cluster-mpi", enablePMIxv3Support=True)
    (prefix / "etc/hooks.d/05-mpi-hook.json").write_text(json.dumps(mpi.hook_for_mpich(prefix)))
    return installation.Engine(prefix, user, "setuid", "crun")


@pytest.fixture
def image(load_image, images, programs, engine):
    """image(kind) -> reference of an image with the program and all libraries of that MPI."""
    return lambda kind: load_image(engine, f"cluster-{kind}", mpi.image_with(images, kind, programs[kind]))


def ranks_of(result):
    """[(rank, size, host, sum, (device, inode))], sorted by rank."""
    found = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0 and found and all(found), result.stdout + result.stderr
    return sorted((int(rank), int(size), host, int(total), (device, inode)) for rank, size, host, total, device, inode in map(re.Match.groups, found))


def assert_world(ranks, nodes, size):
    assert [rank for rank, *_ in ranks] == list(range(size))
    assert {(world, total) for _, world, _, total, _ in ranks} == {(size, size * (size - 1) // 2)}
    assert len({host for _, _, host, _, _ in ranks}) == nodes


def test_mpich_of_the_image_is_replaced_by_the_hosts(cluster, engine, image, programs):
    """The documented command. The library's inode shows whose it is."""
    native = ranks_of(cluster.srun("-N2", "-n4", programs["mpich"], "library", user=engine.user))
    contained = ranks_of(cluster.srun("-N2", "-n4", engine.program, "run", "--mpi", image("mpich"), "/app", "library", user=engine.user))
    own = ranks_of(cluster.srun("-N2", "-n4", engine.program, "run", image("mpich"), "/app", "library", user=engine.user))
    for ranks in native, contained, own:
        assert_world(ranks, 2, 4)
    libraries = [{library for *_, library in ranks} for ranks in (native, contained, own)]
    assert libraries[0] == libraries[1] and libraries[0].isdisjoint(libraries[2])


@pytest.mark.parametrize("kind, protocol", [("mpich", "pmi2"), ("openmpi", "pmix")])
def test_own_mpi_of_the_image_on_all_nodes(cluster, engine, image, kind, protocol):
    options = [f"--mpi={protocol}", "-N4", "-n8"]
    result = cluster.srun(*options, engine.program, "run", image(kind), "/app", "library", user=engine.user)
    assert_world(ranks_of(result), 4, 8)
    assert not [line for line in result.stderr.splitlines() if not line.startswith("srun: job ")]


def test_sixty_four_ranks_on_one_node(cluster, engine, image):
    result = cluster.srun("-N1", "-n64", "--overcommit", engine.program, "run", "--mpi", image("mpich"), "/app", "library", user=engine.user, timeout=180)
    assert_world(ranks_of(result), 1, 64)


def received(cluster, node):
    return int(cluster.run(node, "cat", "/sys/class/net/eth0/statistics/rx_bytes", check=True).stdout)


def test_messages_between_nodes_cross_the_bridge_and_those_within_a_node_do_not(cluster, engine, image):
    size, count = 1 << 20, 2
    sent = 64 * size * count
    for options, crosses in (["-w", "node1,node2", "-N2"], True), (["-w", "node1"], False):
        before = received(cluster, "node2") + received(cluster, "node1")
        result = cluster.srun(*options, "-n2", engine.program, "run", "--mpi", image("mpich"), "/app", "bandwidth", size, count, user=engine.user)
        assert result.returncode == 0, result.stderr
        bytes_on_the_wire = received(cluster, "node2") + received(cluster, "node1") - before
        assert (bytes_on_the_wire > sent) == crosses, bytes_on_the_wire
        assert crosses or bytes_on_the_wire < sent / 10


def test_batch_job_starts_the_ranks(cluster, engine, image):
    output = engine.user.home / "batch.txt"
    cluster.run("login", "sbatch", "--wait", "-N2", "-n4", f"--output={output}",
                f"--wrap=srun {engine.program} run --mpi {image('mpich')} /app library", user=engine.user, cwd=engine.user.home, check=True)
    assert len(output.read_text().splitlines()) == 4
