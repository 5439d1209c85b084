"""slurm_global_sync_hook: real processes, in place of the nodes of a step the numbers that Slurm gives them."""

import os
import signal
import stat

import pytest
from helpers.sync_hook import STEP, SyncHook, results
from helpers.system import eventually

DONE = (0, "")


@pytest.fixture
def hook(build_dir, tmp_path):
    made = SyncHook(build_dir / "slurm_global_sync_hook", tmp_path)
    yield made
    made.end()


def arrivals(hook, step=STEP):
    directory = hook.steps / step / "arrival"
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def is_tidy(hook):
    return list(hook.steps.iterdir()) == []


def test_tasks_wait_until_all_have_arrived(hook):
    early = [hook.start(rank, 4, node=rank // 2) for rank in range(3)]
    assert eventually(lambda: arrivals(hook) == ["slurm-procid-0", "slurm-procid-1", "slurm-procid-2"])
    assert all(task.poll() is None for task in early)
    assert results([*early, hook.start(3, 4, node=1)]) == [DONE] * 4
    assert is_tidy(hook)


def test_256_tasks_on_4_nodes(hook):
    tasks = [hook.start(rank, 256, node=rank // 64) for rank in range(256)]
    assert results(tasks) == [DONE] * 256
    assert is_tidy(hook)


def test_directories_are_the_users_alone(hook):
    task = hook.start(0, 2)
    assert eventually(lambda: arrivals(hook))
    for path in (hook.steps, hook.steps / STEP, hook.steps / STEP / "departure"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    task.kill()


@pytest.mark.parametrize("missing", ["SLURM_JOB_ID", "SLURM_STEPID", "SLURM_NTASKS", "SLURM_PROCID"])
def test_container_outside_of_a_step_waits_for_nobody(hook, missing):
    assert results([hook.start(0, 2, **{missing: None})]) == [DONE]
    assert not hook.steps.exists()


def test_missing_tasks_are_named_on_every_node(hook):
    tasks = [hook.start(rank, 6, node=rank, timeout=4) for rank in (0, 4)]
    for status, message in results(tasks):
        assert status == 1
        assert "4 of the step's 6 tasks did not start their container within 4 s: ranks 1-3, 5" in message
        assert "SLURM_GLOBAL_SYNC_TIMEOUT" in message
    assert is_tidy(hook)


@pytest.mark.parametrize("victim", [0, 1], ids=["leader", "follower"])
def test_killed_task_does_not_count(hook, victim):
    """Its successor, in the same step, has to come first."""
    tasks = [hook.start(0, 3)]
    assert eventually(lambda: arrivals(hook))
    tasks.append(hook.start(1, 3))
    assert eventually(lambda: len(arrivals(hook)) == 2)
    tasks[victim].send_signal(signal.SIGKILL)
    assert eventually(lambda: arrivals(hook) == [f"slurm-procid-{1 - victim}"])
    tasks.append(hook.start(2, 3, node=1))
    assert eventually(lambda: len(arrivals(hook)) == 2)
    tasks[victim] = hook.start(victim, 3)
    assert results(tasks) == [DONE] * 3
    assert is_tidy(hook)


def test_rounds_of_one_step_follow_each_other(hook):
    """As in `srun sh -c "sarus run ...; sarus run ..."`."""
    waiting = {rank: 0 for rank in range(6)}
    running = {rank: hook.start(rank, 6, node=rank // 2) for rank in waiting}
    while running:
        for rank, task in list(running.items()):
            if task.poll() is not None:
                assert (task.returncode, task.stderr.read()) == DONE
                waiting[rank] += 1
                running.pop(rank)
                if waiting[rank] < 4:
                    running[rank] = hook.start(rank, 6, node=rank // 2)
    assert is_tidy(hook)


def test_what_killed_tasks_left_behind_is_no_error(hook):
    for name in ("arrival", "departure"):
        (hook.steps / STEP / name).mkdir(parents=True)
    (hook.steps / STEP / "arrival/slurm-procid-1").touch()
    (hook.steps / STEP / "departure/slurm-procid-0").touch()
    (hook.steps / STEP / "arrival").chmod(0o1700)  # all had arrived
    hook.steps.chmod(0o700)
    assert results([hook.start(rank, 2, node=rank) for rank in range(2)]) == [DONE] * 2
    assert is_tidy(hook)


def test_requeued_job_does_not_count_tasks_of_its_first_run(hook):
    first = hook.start(1, 2, node=1)
    assert eventually(lambda: arrivals(hook) == ["slurm-procid-1"])
    first.kill()
    (status, message), = results([hook.start(0, 2, timeout=1, SLURM_RESTART_COUNT=1)])
    assert status == 1 and "rank 1" in message
    assert results([hook.start(rank, 2, node=rank, SLURM_RESTART_COUNT=1) for rank in range(2)]) == [DONE] * 2


def test_directories_of_forgotten_steps_are_removed(hook):
    (hook.steps / "jobid-1-stepid-0/arrival").mkdir(parents=True)
    (hook.steps / "jobid-2-stepid-0/arrival").mkdir(parents=True)
    os.utime(hook.steps / "jobid-1-stepid-0", (1, 1))
    hook.steps.chmod(0o700)
    assert results([hook.start(0, 1)]) == [DONE]
    assert [path.name for path in hook.steps.iterdir()] == ["jobid-2-stepid-0"]


def test_user_without_an_account_is_named(hook):
    hook.passwd.write_text("somebody:x:4294967:1::/:/bin/sh\n")
    (status, message), = results([hook.start(0, 1)])
    assert status == 1 and f"PASSWD_FILE: failed to find uid {hook.uid}" in message
