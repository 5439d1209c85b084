"""The test cluster itself (helpers/cluster.py, scripts/cluster)."""

import contextlib
import os
import pathlib
import random
import secrets
import subprocess
import sys
import time

import pytest
from helpers import cluster_processes, system
from helpers.cluster import Cluster

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]


def test_every_node_has_its_own_name_address_and_namespaces(cluster):
    names = {node: cluster.run(node, "hostname", check=True).stdout.strip() for node in cluster.nodes}
    assert names == {node: node for node in cluster.nodes}
    for kind in ("net", "mnt", "pid", "ipc", "uts", "cgroup"):
        own = {cluster.run(node, "readlink", f"/proc/self/ns/{kind}", check=True).stdout for node in ("login", *cluster.nodes)}
        assert len(own) == 5, kind
    for node in cluster.nodes:
        assert cluster.address(node) in cluster.run(node, "ip", "-brief", "address", "show", "eth0", check=True).stdout


def test_a_step_runs_on_all_nodes_as_its_user(cluster, user):
    result = cluster.srun("-N4", "-n8", "sh", "-c", "echo $(hostname) $(id -un)", user=user)
    assert (sorted(result.stdout.splitlines()), result.stderr) == (sorted(2 * [f"{node} {user.name}" for node in cluster.nodes]), "")


def test_directories_of_a_node_are_its_own_and_homes_are_shared(cluster, user):
    for directory in ("/run", "/tmp", "/dev/shm", "/var/spool"):
        cluster.run("node1", "touch", f"{directory}/mark", check=True)
        assert cluster.run("node1", "test", "-e", f"{directory}/mark").returncode == 0
        assert cluster.run("node2", "test", "-e", f"{directory}/mark").returncode == 1
    cluster.run("node1", "touch", user.home / "mark", user=user, check=True)
    assert cluster.run("node2", "test", "-e", user.home / "mark").returncode == 0


def traces(name):
    """What shows that a cluster exists or has existed."""
    found = [f"process {path.parent.name}" for path in pathlib.Path("/proc").glob("[0-9]*/cgroup") if f"test-cluster-{name}/" in text_of(path) + "/"]
    found += [f"keeper {pid}" for pid, _, command in system.processes() if command.endswith(f"cluster_processes.py keeper {name}")]
    found += [f"cgroup {path}" for path in system.cgroups() if path.name == f"test-cluster-{name}"]
    found += [f"file {path}" for place in (cluster_processes.BASE, pathlib.Path("/tmp")) for path in place.glob(f"*{name}*")]
    found += [f"loop device {device}" for device, file in system.loop_devices().items() if name in file]
    return found


def members(name):
    """Processes that hold a namespace of the cluster, wherever they are: while they live, so does what is in it."""
    pids = [line.split()[1] for line in traces(name) if line.startswith("process")]
    return system.members(system.namespaces(pids) - system.namespaces([os.getpid()]))


def text_of(path):
    try:
        return path.read_text().replace("\n", "/\n")
    except OSError:  # the process has ended
        return ""


def host_state():
    """Mounts and interfaces that show in the machine's own namespaces."""
    links = subprocess.run(["ip", "-brief", "link"], check=True, capture_output=True, text=True).stdout
    return [mount for mount in system.mounts() if mount in ("/run", "/tmp", "/var/spool", "/etc/slurm", "/etc/hosts", "/dev/fuse")], \
        [line.split()[0] for line in links.splitlines() if line.startswith(("node", "login", "bridge"))]


@pytest.fixture
def name():
    return f"kill-{os.getpid()}-{secrets.token_hex(3)}"


@pytest.fixture
def image(name, engines, images, plain_busybox):
    """An image of the cluster's name, which its loop device shows."""
    engine = engines("setuid", "crun")
    yield engine.load(images.archive(plain_busybox, name), name)
    engine.sarus("rmi", f"load/library/{name}")


@pytest.fixture
def start_script(source_dir, name):
    """Starts a script which starts a cluster, reports "up" and keeps it."""
    code = f"""
import sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, {str(source_dir / "tests/integration")!r})
from helpers.cluster import Cluster
cluster = Cluster("/home", nodes=2, name={name!r})
print("up", flush=True)
time.sleep(300)
"""
    started = []

    def start():
        started.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for script in started:
        script.kill()
        script.communicate()


ROUNDS = range(int(os.environ.get("SARUS_TEST_KILLS", "5")))


@pytest.mark.parametrize("number", ROUNDS)
def test_nothing_remains_when_the_starting_script_is_killed(start_script, name, number):
    before = host_state()
    script = start_script()
    time.sleep(random.uniform(0, 1.5))
    inhabitants = members(name)
    script.kill()
    script.wait()
    assert system.eventually(lambda: not traces(name)), traces(name)
    assert system.eventually(lambda: not system.alive(inhabitants)), system.alive(inhabitants)
    assert host_state() == before


@pytest.mark.parametrize("number", ROUNDS)
def test_nothing_remains_after_the_end_whatever_was_killed_before(start_script, name, engines, image, number):
    """Any process of the cluster, its inits and keeper included, while containers of a step run and those of another one are frozen."""
    program = engines("setuid", "crun").program
    script = start_script()
    assert script.stdout.readline() == "up\n"
    cluster = Cluster.existing(name)
    for mark in range(2):
        cluster.run("login", "sbatch", "--output=/dev/null", "--nodes=2", f"--wrap=srun {program} run {image} sleep 300", user=engines("setuid", "crun").user,
                    check=True)
    assert system.eventually(lambda: any(line.startswith("loop device") for line in traces(name))), cluster.logs()
    cluster.run("login", "scontrol", "suspend", "1")
    pids = [int(line.split()[1]) for line in traces(name) if line.split()[0] in ("process", "keeper")]
    inhabitants = members(name)
    with contextlib.suppress(ProcessLookupError):
        system.kill(random.choice(pids))
    time.sleep(random.uniform(0, 0.5))
    script.kill()
    script.wait()

    def clean():
        cluster_processes.sweep()  # as the next command does if the keeper was killed
        return not traces(name)

    assert system.eventually(clean, interval=0.2), traces(name)
    assert system.eventually(lambda: not system.alive(inhabitants)), system.alive(inhabitants)


def test_killed_keeper_takes_all_processes_along(start_script, name):
    script = start_script()
    assert script.stdout.readline() == "up\n"
    keeper = next(line for line in traces(name) if line.startswith("keeper"))
    system.kill(int(keeper.split()[1]))
    assert system.eventually(lambda: not [line for line in traces(name) if line.startswith("process")]), traces(name)


def test_clusters_run_beside_each_other(cluster, home_base):
    other = Cluster(shared=home_base, nodes=2)
    try:
        for each in cluster, other:
            assert each.srun("-N2", "hostname").stdout.split() != []
    finally:
        other.stop()
    assert not traces(other.name)
    assert cluster.srun("-N4", "hostname").returncode == 0


@pytest.fixture
def script(source_dir):
    def run(*arguments):
        return subprocess.run([source_dir / "scripts/cluster", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    return run


def test_script_starts_enters_and_stops_a_cluster(script, name):
    started = script("up", "--name", name, "--nodes", "2")
    try:
        assert (started.returncode, started.stderr) == (0, "")
        assert started.stdout.endswith(f"scripts/cluster run --name {name} login\n")
        assert f"already up: end it with scripts/cluster down --name {name}\n" in script("up", "--name", name).stderr
        assert script("run", "--name", name, "node3", "true").stderr == f"the cluster '{name}' has no node 'node3', but login, node1, node2\n"
        assert sorted(script("run", "--name", name, "login", "srun", "-N2", "hostname").stdout.split()) == ["node1", "node2"]
        assert script("run", "--name", name, "node1", "sh", "-c", "exit 7").returncode == 7
    finally:
        stopped = script("down", "--name", name)
    assert (stopped.returncode, stopped.stdout, stopped.stderr, traces(name)) == (0, "", "", [])
    assert "is not up" in script("run", "--name", name, "login", "true").stderr


@pytest.mark.parametrize("next_verb", ["up", "run", "down"])
def test_script_removes_what_is_left_of_a_cluster_whose_keeper_was_killed(script, name, next_verb):
    assert script("up", "--name", name, "--nodes", "1").returncode == 0
    keeper, = (int(line.split()[1]) for line in traces(name) if line.startswith("keeper"))
    system.kill(keeper)
    try:
        result = script(next_verb, "--name", name, *{"up": ["--nodes", "1"], "run": ["login", "true"], "down": []}[next_verb])
        expected = {"up": (0, ""), "run": (1, f"the cluster '{name}' is not up: start it with scripts/cluster up --name {name}\n"), "down": (0, "")}
        assert (result.returncode, result.stderr) == expected[next_verb]
    finally:
        script("down", "--name", name)
    assert traces(name) == []


@pytest.mark.parametrize("arguments, message", [
    (["up", "--name", "x/y"], "argument --name: letters, digits, '_', '-' and '.' make a name"), (["down", "--name", ".."], "argument --name: letters, "),
    (["up", "--nodes", "0"], "argument --nodes: a number from 1 to 64 is needed"), (["up", "--nodes", "-1"], "argument --nodes: a number from 1"),
    (["run", "--user", "nobody-of-that-name", "login"], "argument --user: there is no user 'nobody-of-that-name'")])
def test_script_says_what_is_wrong_with_its_arguments(script, arguments, message):
    result = script(*arguments)
    assert result.returncode == 2 and message in result.stderr, result.stderr
