"""podman-hpc shared-run in steps of a real Slurm on several nodes."""

import json
import os
import re
import subprocess

import pytest
from helpers import system
from helpers.images import Image, Layer, busybox_layer

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

PROGRAM = """podman-hpc --runtime=runc --events-backend=file"""
OPTIONS = "--network=host --log-driver=none --ulimit=nofile=1024:1024 --ulimit=nproc=4096:4096"


class Steps:
    def __init__(self, cluster, user, prefix, archive):
        self.cluster, self.user, self.prefix = cluster, user, prefix
        self.srun("-N2", "-n2", text=f"{PROGRAM} load -q -i {archive}")

    def arguments(self, options, text):
        return ("-w", "node1,node2", *options, "bash", "-c", f"PATH={self.prefix}/bin:$PATH; {text}")

    def srun(self, *options, text, status=0):
        result = self.cluster.srun(*self.arguments(options, text), user=self.user, cwd="/")
        assert result.returncode == status, result.stdout + result.stderr
        return result.stdout.splitlines()

    def srun_on_all(self, text):
        """Two tasks on each of the four nodes."""
        result = self.cluster.srun("-N4", "-n8", "--overcommit", "bash", "-c", f"PATH={self.prefix}/bin:$PATH; {text}", user=self.user, cwd="/", timeout=600)
        errors = [line for line in result.stderr.splitlines() if not line.startswith("Converting layers: ")]  # the progress of a slow node
        assert result.returncode == 0 and not errors, result.stdout + result.stderr
        return result.stdout.splitlines()

    def left(self):
        """Processes of the user on both nodes, without those that keep a rootless user's namespaces."""
        return [line for node in ("node1", "node2") for line in self.cluster.run(node, "ps", "-o", "args=", "-u", str(self.user.uid)).stdout.splitlines()]

    def assert_nothing_is_left(self):
        assert system.remains(self.left) == []
        containers = self.srun("-N2", "-n2", text=f"{PROGRAM} ps -aq")
        assert containers == []


@pytest.fixture(scope="module")
def steps(cluster, user, opt, build_dir, images, plain_busybox):
    prefix = opt / "podman-hpc"
    subprocess.run(["cmake", "--install", str(build_dir), "--component", "podman-hpc", "--prefix", str(prefix)], check=True, capture_output=True)
    return Steps(cluster, user, prefix, images.archive(plain_busybox, "busybox"))


def test_one_container_for_each_node_and_step(steps):
    lines = steps.srun("-N2", "-n5", "--distribution=block", "--overcommit", text=f"""exec timeout 50 {PROGRAM} shared-run {OPTIONS} localhost/busybox \\
sh -c 'echo $SLURM_NODEID $SLURM_STEP_TASKS_PER_NODE $SLURM_PROCID $PMI_FD $(readlink /proc/self/fd/3 | cut -d: -f1) $(readlink /proc/self/ns/mnt)'""")
    found = sorted(line.split() for line in lines)
    assert [line[2] for line in found] == ["0", "1", "2", "3", "4"] and all(line[3:5] == ["3", "socket"] for line in found)
    assert re.fullmatch(r"\d\(?.*", found[0][1]) and {line[0] for line in found} == {"0", "1"}
    assert len({(line[0], line[5]) for line in found}) == 2
    steps.assert_nothing_is_left()


def test_status_of_each_task(steps):
    steps.srun("-N1", "-n3", "-w", "node1", "--overcommit", "--kill-on-bad-exit=0", status=2,
               text=f"exec {PROGRAM} shared-run {OPTIONS} localhost/busybox sh -c 'exit $SLURM_PROCID'")
    steps.assert_nothing_is_left()


def test_two_steps_at_once_have_two_containers(steps):
    step = f"{PROGRAM} shared-run {OPTIONS} localhost/busybox sh -c 'sleep 1; readlink /proc/self/ns/mnt'"
    running = [steps.cluster.start("login", "srun", *steps.arguments(("-N1", "-w", "node1", "-n2", "--overcommit"), f"exec {step}"), user=steps.user, cwd="/")
               for _ in range(2)]
    found = [set(process.communicate(timeout=300)[0].split()) for process in running]
    assert [len(names) for names in found] == [1, 1] and found[0] != found[1]
    steps.assert_nothing_is_left()


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_cancelled_step_leaves_no_container(steps, signal):
    mark = f"/tmp/started-{signal}"
    process = steps.cluster.start("login", "srun", *steps.arguments(
        ("-N2", "-n4", "--overcommit"), f"exec {PROGRAM} shared-run {OPTIONS} -v /tmp:/host localhost/busybox sh -c ': >/host/started-{signal}; exec sleep 1000'"),
        user=steps.user, cwd="/")
    assert system.eventually(lambda: all(steps.cluster.run(node, "test", "-e", mark).returncode == 0 for node in ("node1", "node2")))
    steps.cluster.run("login", "scancel", f"--signal={signal}", f"--user={steps.user.name}", check=True)
    process.communicate(timeout=300)
    assert process.returncode != 0
    steps.assert_nothing_is_left()


def test_many_runs_on_all_nodes_beside_migrations(steps, images):
    """One squash store on the shared directory; SARUS_TEST_STORE_RUNS=200 is the long form."""
    runs = int(os.environ.get("SARUS_TEST_STORE_RUNS", "40"))
    names = [f"store{number}" for number in range(1 + (12 if runs >= 200 else 6))]
    archives = [images.archive(Image([busybox_layer(), Layer().file("name", f"{name}\n").bytes()], {"Env": ["PATH=/bin"]}), name) for name in names]
    store = steps.user.home / "squash-of-all"
    started = steps.user.home / "started"
    # All in one step: its first Podman on a node keeps the namespaces of the others.
    lines = steps.srun_on_all(f"""export SQUASH_DIR={store}
hpc() {{ {PROGRAM} "$@"; }}
if [ $SLURM_PROCID = 0 ]; then
    for archive in {" ".join(map(str, archives))}; do hpc load -q -i $archive >/dev/null || echo "load $?"; done
    hpc migrate localhost/{names[0]} >/dev/null || echo "migrate $?"
elif [ $SLURM_LOCALID = 0 ]; then
    hpc images -q >/dev/null
fi
[ $SLURM_LOCALID != 0 ] || : >{started}.$SLURM_NODEID
until [ -e {started}.0 ] && [ -e {started}.$SLURM_NODEID ]; do sleep 0.1; done
if [ $SLURM_PROCID = 0 ]; then
    for name in {" ".join(names[1:])}; do (hpc migrate localhost/$name >/dev/null; echo "migrated $?") & done
fi
for i in $(seq {runs // 8}); do
    hpc run --rm --pull=never {OPTIONS} localhost/{names[0]} cat /name
    echo "run $?"
done
wait""")
    assert {line: lines.count(line) for line in lines} == {names[0]: runs // 8 * 8, "run 0": runs // 8 * 8, "migrated 0": len(names) - 1}
    records = json.loads((store / "overlay-images/images.json").read_text())
    assert sorted(name for record in records for name in record["names"]) == sorted(f"localhost/{name}:latest" for name in names)
    assert len([file for file in (store / "overlay/l").iterdir() if "squash" in file.name]) == len(names)
    steps.assert_nothing_is_left()
