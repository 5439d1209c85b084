"""slurm_global_sync_hook in steps of a real Slurm with four nodes."""

import json
import re

import pytest
from helpers import installation
from helpers.system import eventually

pytestmark = pytest.mark.asroot

SYNC = "--annotation=com.hooks.slurm-global-sync.enabled=true"


@pytest.fixture(params=["prestart-setuid", "createContainer-rootless"])
def case(request):
    """At createContainer, a rootless hook is in two user namespaces."""
    return request.param.split("-")


@pytest.fixture
def engine(engines, case):
    """On nodes with a /dev/fuse that is open to all."""
    return engines(case[1], "crun").variant(sandbox=())


@pytest.fixture
def image(engine, load_image, plain_busybox):
    return load_image(engine, "busybox", plain_busybox)


@pytest.fixture
def base(engine):
    """Where the user's tasks find each other: the parent of the home directories, as documented."""
    return engine.user.home.parent


@pytest.fixture
def run(engine, image, base, case):
    """The words of a synchronized container's command, before those of the program. `timeout` stands in the hook's file."""
    directory = engine.prefix / "etc/hooks.d"
    before = set(directory.iterdir())
    passwd = engine.prefix / "var/sync-passwd"
    passwd.write_text(f"{engine.user.home.name}:x:{engine.user.uid}:{engine.user.gid}::/:/bin/sh\n")
    installation.set_configuration(engine.prefix, hooksDir=str(directory))

    def configure(timeout=100):
        hook = {"path": str(engine.prefix / "bin/slurm_global_sync_hook"),
                "env": [f"HOOK_BASE_DIR={base}", f"PASSWD_FILE={passwd}", f"SLURM_GLOBAL_SYNC_TIMEOUT={timeout}"]}
        when = {"annotations": {"^com.hooks.slurm-global-sync.enabled$": "^true$"}}
        (directory / "09-sync.json").write_text(json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": [case[0]]}))
        return f"{engine.program} run {SYNC} {image}"

    yield configure
    for file in set(directory.iterdir()) - before:
        file.unlink()
    passwd.unlink()


def steps(base, engine):
    return base / engine.user.home.name / ".oci-hooks/slurm-global-sync"


def late(rank):
    """Words of a script: this task comes two seconds after the others. The nodes have one clock."""
    return f"test $SLURM_PROCID != {rank} || {{ sleep 2; echo late $(cat /proc/uptime); }}; exec"


BEGAN = "sh -c 'echo began $(cat /proc/uptime)'"


def check_times(result, tasks):
    assert result.returncode == 0, result.stderr
    came, = re.findall(r"late (\S+)", result.stdout)
    began = re.findall(r"began (\S+)", result.stdout)
    assert len(began) == tasks and min(map(float, began)) >= float(came)


def test_no_container_of_a_step_starts_before_the_last_one_is_there(cluster, engine, run, base):
    check_times(cluster.srun("--nodes=4", "--ntasks=8", "--overcommit", "sh", "-c", f"{late(5)} {run()} {BEGAN}", user=engine.user), tasks=8)
    assert list(steps(base, engine).iterdir()) == []


def test_heterogeneous_step_waits_for_all_components(cluster, engine, run):
    script = engine.user.home / "component.sh"
    script.write_text(f"#!/bin/sh\n{late(0)} {run()} {BEGAN}\n")
    script.chmod(0o755)
    check_times(cluster.srun("--nodes=1", "--ntasks=1", script, ":", "--nodes=2", "--ntasks=2", script, user=engine.user), tasks=3)


def test_task_that_died_before_its_hook_is_named(cluster, engine, run, base):
    result = cluster.srun("--nodes=2", "--ntasks=2", "--kill-on-bad-exit=0", "sh", "-c", f"test $SLURM_PROCID = 0 || exit 3; exec {run(timeout=3)} true",
                          user=engine.user)
    assert result.returncode != 0
    assert "1 of the step's 2 tasks did not start their container within 3 s: rank 1" in result.stderr
    assert list(steps(base, engine).iterdir()) == []


def test_batch_script_waits_for_nobody(cluster, engine, run):
    script = engine.user.home / "alone.sh"
    script.write_text(f"#!/bin/sh\n{run(timeout=3)} echo done\n")
    result = cluster.run("login", "sbatch", "--wait", "--ntasks=4", "--nodes=2", f"--output={engine.user.home}/alone.txt", script, user=engine.user)
    assert result.returncode == 0, result.stderr
    assert (engine.user.home / "alone.txt").read_text() == "done\n"


def test_requeued_job_starts_its_containers(cluster, engine, run, base):
    """What the first run leaves behind in the shared file system, killed by Slurm, stops nobody."""
    script = engine.user.home / "requeued.sh"
    first = f"test $SLURM_PROCID != 1 || sleep 600; exec {run()} echo first"
    script.write_text(f"#!/bin/sh\nif [ -z \"$SLURM_RESTART_COUNT\" ]; then srun sh -c '{first}'; else srun {run()} echo second; fi\n")
    output = engine.user.home / "requeued.txt"
    job = cluster.run("login", "sbatch", "--parsable", "--requeue", "--nodes=2", "--ntasks=2", f"--output={output}", script, user=engine.user,
                      check=True).stdout.strip()
    arrival = steps(base, engine) / f"jobid-{job}-stepid-0/arrival/slurm-procid-0"
    assert eventually(arrival.exists), cluster.logs()
    cluster.run("login", "scontrol", "requeue", job, check=True)

    def is_over():
        cluster.run("login", "scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm waits two minutes otherwise
        return output.exists() and "second\nsecond\n" in output.read_text()

    assert eventually(is_over, 300, 0.5), output.read_text() + cluster.logs()
    assert f"jobid-{job}-stepid-0-restart-1" not in [path.name for path in steps(base, engine).iterdir()]
