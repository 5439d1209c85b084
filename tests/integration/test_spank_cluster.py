"""The plugin for Slurm on several nodes: tasks, bindings, names and ranks of MPI."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import installation, mpi, slurm, ssh, system
from helpers.cluster import Cluster
from test_mpi import SOURCE

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def spank_engine(make_setuid_prefix, user):
    prefix = make_setuid_prefix("spank-cluster", containerStorage={"directory": "/tmp"})  # of each node
    if not (prefix / "lib/slurm/spank_sarus.so").exists():
        pytest.skip("the plugin was not built: Slurm's headers are missing (Debian package libslurm-dev)")
    return installation.Engine(prefix, user, "setuid", "crun")


@pytest.fixture(scope="module")
def site(spank_engine, common, home_base):
    """Two devices that every machine has, and nobody opens here, stand in for the GPUs of a node."""
    made = Cluster(shared=home_base, visible=[common], settings={"SchedulerParameters": "bf_interval=1", "GresTypes": "gpu", "KillWait": "30"}, node_settings="Gres=gpu:2",
                   files={"plugstack.conf": f"include {spank_engine.prefix}/etc/plugstack.conf\n",
                          "gres.conf": "Name=gpu File=/dev/autofs\nName=gpu File=/dev/kmsg\n"})
    yield made
    made.stop()


@pytest.fixture
def srun(site, user):
    """srun(OPTIONS) as the user -> its output."""

    def run(*arguments, program="srun", **keywords):
        result = site.run("login", program, *arguments, user=user, **keywords)
        assert result.returncode == 0, result.stdout + result.stderr + site.logs()
        return result.stdout.rstrip("\n")

    return run


@pytest.fixture
def image(spank_engine, load_image, plain_busybox):
    return load_image(spank_engine, "spank-cluster", plain_busybox)


@pytest.fixture
def go(user):
    """A file that a test makes when its tasks are to go on."""
    file = user.home / "go"
    file.unlink(missing_ok=True)
    return file


def test_tasks_of_all_nodes_are_in_containers(srun, image):
    script = 'echo "$SLURM_PROCID $(cat /proc/sys/kernel/hostname) $(test -e /etc/debian_version || echo contained)"'
    lines = srun("--nodelist=node1,node2", "--ntasks=4", f"--container-image={image}", "sh", "-c", script).splitlines()
    assert sorted(lines) == ["0 node1 contained", "1 node1 contained", "2 node2 contained", "3 node2 contained"]


def test_bindings_reach_the_container(srun, image):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("the machine has one CPU")
    lines = srun("--ntasks=2", "--nodes=1", "--cpu-bind=map_cpu:0,1", "--mem-bind=map_mem:0", f"--container-image={image}", "sh", "-c",
                 'echo "$SLURM_LOCALID $SLURM_MEM_BIND $(grep Mems_allowed_list /proc/self/status) $(grep Cpus_allowed_list /proc/self/status)"').splitlines()
    found = sorted((words[0], *words[1].split(",")[-1:], words[3], words[-1]) for words in map(str.split, lines))
    assert found == [("0", "map_mem:0", "0", "0"), ("1", "map_mem:0", "0", "1")]


def test_engine_without_privileges(srun, spank_engine, image):
    starter = spank_engine.prefix / "libexec/sarus-starter"
    mode = starter.stat().st_mode
    starter.chmod(0o755)
    try:
        lines = srun("--nodelist=node1,node2", "--ntasks=4", f"--container-image={image}", "sh", "-c", "echo $(id -u) $(cat /proc/self/uid_map)").splitlines()
    finally:
        starter.chmod(mode)
    assert len(lines) == 4 and all(line.startswith(f"{spank_engine.user.uid} ") and not line.endswith(" 4294967295") for line in lines), lines


@pytest.mark.parametrize("kind, protocol", [("mpich", "pmi2"), ("openmpi", "pmix")])
def test_ranks_on_two_nodes_find_each_other(srun, spank_engine, load_image, images, workspace, kind, protocol):
    program = mpi.compile_program(kind, SOURCE.parent / "mpi_ranks.c", workspace / f"spank-cluster-{kind}")
    ranks = load_image(spank_engine, f"spank-cluster-{kind}", mpi.image_with(images, kind, program))
    lines = srun(f"--mpi={protocol}", "--nodes=2", "--ntasks=4", f"--container-image={ranks}", "/app").splitlines()
    assert len(lines) == 4 and all("sum 10" in line for line in lines), lines


def test_steps_join_the_containers_of_a_name_on_each_node(srun, image, user):
    script = user.home / "join.sh"
    script.write_text(f"""#!/bin/sh
srun --overlap --container-name=shared --container-image={image} sh -c 'hostname > /mark; sleep 1000' &
until srun --overlap --quiet --container-name=shared sh -c 'echo "$SLURM_NODEID $(cat /mark)"' 2>/dev/null > joined && test "$(wc -l < joined)" = 2; do sleep 0.2; done
cat joined
""")
    script.chmod(0o755)
    result = srun("--quiet", "--nodelist=node1,node2", "--ntasks=2", script, program="salloc", cwd=user.home)
    assert sorted(result.splitlines()) == ["0 node1", "1 node2"]


JOB_AND_CGROUP = 'echo "$SLURM_JOB_ID $(grep -o "job_[0-9]*" /proc/self/cgroup | sort -u)"'


def test_jobs_with_one_name_have_a_container_each(srun, site, image, user):
    options = ["--quiet", "--nodelist=node1", "--mem=100M", f"--container-image={image}", "--container-name=env", "sh", "-c"]
    first = site.start("login", "srun", *options, f"{JOB_AND_CGROUP}; echo > /mark; sleep 1000", user=user)
    try:
        lines = [first.stdout.readline().rstrip("\n"), srun(*options, f"{JOB_AND_CGROUP}; test ! -e /mark")]
    finally:
        first.terminate()
        first.communicate(timeout=300)
    assert [line.split()[1] for line in lines] == [f"job_{line.split()[0]}" for line in lines] and lines[0] != lines[1], lines


def test_a_named_container_lasts_as_long_as_its_job(srun, site, image, user, spank_engine):
    """The plugin removes it at the end of the job: nothing else knows that this user's job is over."""
    script = user.home / "kept.sh"
    script.write_text(f"""#!/bin/sh
srun --quiet --container-name=kept --container-image={image} sh -c 'echo first > /mark'
srun --quiet --container-name=kept sh -c 'echo second >> /mark'
srun --quiet --container-name=kept cat /mark
""")
    script.chmod(0o755)
    assert srun("--quiet", "--nodelist=node1", script, program="salloc", cwd=user.home).splitlines() == ["first", "second"]
    listed = ["env", "-i", spank_engine.program, "ps", "--all", "--json"]
    assert system.eventually(lambda: '"kept.job' not in site.run("node1", *listed, user=user, check=True).stdout)


def kept_on(site, user, engine, node):
    return [container["name"] for container in json.loads(site.run(node, "env", "-i", engine.program, "ps", "--all", "--json", user=user, check=True).stdout)]


def test_a_container_is_saved_when_its_task_has_ended(srun, site, image, user, spank_engine):
    """That of the first task of the step, which is removed then."""
    script = 'echo "task $SLURM_PROCID" > /mark; rm /bin/cal'
    srun("--quiet", "--nodelist=node1,node2", "--ntasks=2", f"--container-image={image}", "--container-save=saved.sqsh", "sh", "-c", script, cwd=user.home)
    assert (user.home / "saved.sqsh").stat().st_uid == user.uid
    assert srun("--quiet", f"--container-image={user.home}/saved.sqsh", "sh", "-c", "cat /mark; ls /bin/cal 2>/dev/null; true") == "task 0"
    assert kept_on(site, user, spank_engine, "node1") == [] == kept_on(site, user, spank_engine, "node2")
    assert [path.name for path in user.home.iterdir() if path.name.startswith("saved")] == ["saved.sqsh"]


def test_a_file_is_replaced_by_the_container_of_a_later_step(srun, image, user):
    """A container with a name goes on, and keeps the status and signals of its command."""
    script = user.home / "again.sh"
    script.write_text(f"""#!/bin/sh
srun --quiet --container-name=env --container-image={image} --container-save=$HOME/again.sqsh sh -c 'echo first > /mark; exit 3'
echo "status $?"
srun --quiet --container-name=env --container-save=$HOME/again.sqsh sh -c 'echo second >> /mark'
srun --quiet --container-image=$HOME/again.sqsh cat /mark
srun --quiet --container-name=env sh -c 'wc -l < /mark'
srun --quiet --container-image={image} --container-save=$HOME/again.sqsh sh -c 'kill -KILL $$' 2>/dev/null
echo "status $?"
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1", "--ntasks=1", script, program="salloc", cwd=user.home).splitlines()
    assert lines == ["status 3", "first", "second", "2", "status 137"]


def test_a_container_that_cannot_be_saved_is_named(site, image, user, spank_engine):
    """Before its command where that can be known; otherwise the container stays until the end of the job."""
    closed = site.run("login", "srun", "--quiet", "--nodelist=node1", f"--container-image={image}", "--container-save=/nowhere/x.sqsh", "echo", "ran", user=user)
    assert closed.returncode != 0 and closed.stdout == "" and "--container-save: Failed to write to /nowhere: No such file or directory" in closed.stderr
    directory = user.home / "vanishing"
    directory.mkdir()
    user.own(directory)
    late = site.run("login", "srun", "--quiet", "--nodelist=node1", f"--container-image={image}", f"--container-mounts={user.home}:{user.home}",
                    f"--container-save={directory}/x.sqsh", "rmdir", directory, user=user)
    assert late.returncode != 0 and late.stderr.count("The container was not saved (--container-save)") == 1, late
    assert re.search(r"sarus save --container \d+\.0 FILE", late.stderr)
    assert system.eventually(lambda: kept_on(site, user, spank_engine, "node1") == [])


def test_step_that_joins_a_container_is_a_step_of_its_own(srun, spank_engine, load_image, images, workspace, user):
    """Its tasks have its ranks, cgroup, PMI and variables: MPI runs in them."""
    program = mpi.compile_program("mpich", SOURCE.parent / "mpi_ranks.c", workspace / "spank-cluster-joined")
    ranks = load_image(spank_engine, "spank-cluster-joined", mpi.image_with(images, "mpich", program))
    own = 'echo "$SLURM_PROCID $SLURM_NTASKS $WHOSE $(grep -o "step_[0-9]*" /proc/self/cgroup | sort -u) step_$SLURM_STEP_ID"'
    script = user.home / "joined-step.sh"
    script.write_text(f"""#!/bin/sh
rm -f started
WHOSE=first srun --overlap -n1 --container-name=shared --container-image={ranks} sh -c 'echo ready; exec sleep 1000' > started &
until grep -q ready started; do sleep 0.1; done
WHOSE=own srun --overlap -n2 --container-name=shared sh -c '{own}' | sort
srun --overlap -n2 --mpi=pmi2 --container-name=shared /app
kill $!
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1", "--ntasks=2", script, program="salloc", cwd=user.home).splitlines()
    assert lines[:2] == [f"{rank} 2 own step_1 step_1" for rank in (0, 1)] and sum("of 2: sum 3" in line for line in lines[2:]) == 2, lines


def test_cpus_signals_and_the_end_of_a_step_that_joins_are_its_own(srun, image, user):
    """What happens to it does not happen to the step whose container it joins."""
    script = user.home / "joined-end.sh"
    go = user.home / "joined-go"
    script.write_text(f"""#!/bin/sh
rm -f {go} first second third
wait_for() {{ until grep -q "$1" "$2"; do sleep 0.1; done; }}
srun --overlap -n1 --container-name=whole --container-image={image} --container-mounts={user.home}:{user.home} \
    sh -c 'echo ready; until test -e {go}; do sleep 0.1; done; cat /mark' > first &
wait_for ready first
srun --overlap -n1 --cpu-bind=map_cpu:1 --container-name=whole grep Cpus_allowed_list /proc/self/status
srun --overlap -n1 --container-name=whole sh -c 'trap "echo caught; exit 7" USR1; echo ready $SLURM_STEP_ID; while :; do sleep 0.1; done' > second &
signalled=$!
wait_for ready second
scancel --signal=USR1 $SLURM_JOB_ID.$(sed 's/ready //' second)
wait $signalled 2>/dev/null
echo "status $?"
tail -n 1 second
srun --overlap -n1 --container-name=whole sh -c 'echo by another > /mark; echo ready $SLURM_STEP_ID; exec sleep 1000' > third 2>/dev/null &
wait_for ready third
scancel $SLURM_JOB_ID.$(sed 's/ready //' third)
wait $! 2>/dev/null || echo ended
touch {go}
wait
tail -n 1 first
srun --overlap -n1 --container-name=whole:no_exec cat /mark
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1", "--ntasks=2", script, program="salloc", cwd=user.home).splitlines()
    assert lines == ["Cpus_allowed_list:\t1", "status 7", "caught", "ended", "by another", "by another"]


def test_a_container_that_runs_is_not_started_a_second_time(site, srun, image, user):
    """As no_exec asks for: two containers would write to the same files."""
    script = user.home / "no-exec.sh"
    script.write_text(f"""#!/bin/sh
rm -f busy
srun --overlap -n1 --container-name=busy --container-image={image} sh -c 'echo ready; exec sleep 1000' > busy &
until grep -q ready busy; do sleep 0.1; done
srun --overlap -n1 --container-name=busy:no_exec true 2>&1
kill $!
""")
    script.chmod(0o755)
    said = srun("--quiet", "--nodelist=node1", "--ntasks=2", script, program="salloc", cwd=user.home)
    assert re.search(r"container with the name 'busy.job\d+' exists already", said), said


def test_images_of_pytorch_get_their_ranks_on_all_nodes_and_in_steps_that_join(srun, spank_engine, load_image, images, user):
    torch = load_image(spank_engine, "spank-cluster-torch", images.busybox({"Env": ["PYTORCH_VERSION=2"]}))
    say = 'echo "$WORLD_SIZE $RANK $LOCAL_RANK $MASTER_ADDR $MASTER_PORT"'
    script = user.home / "torch.sh"
    script.write_text(f"""#!/bin/sh
rm -f torch ready
srun --overlap --overcommit -N2 -n4 --container-name=torch --container-image={torch} sh -c '{say}; echo ready > /dev/stderr; exec sleep 1000' > torch 2> ready &
until test "$(grep -c ready ready)" = 4; do sleep 0.1; done
sort torch
srun --overlap --overcommit -N2 -n4 --container-name=torch sh -c '{say}' | sort
kill $!
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1,node2", script, program="salloc", cwd=user.home).splitlines()
    ports = [line.split()[-1] for line in lines]
    assert [line.rsplit(" ", 1)[0] for line in lines] == 2 * [f"4 {rank} {rank % 2} node1" for rank in range(4)], lines
    assert len(set(ports[:4])) == 1 and len(set(ports[4:])) == 1 and ports[0] != ports[4]


# All tasks of a node in one container

EACH_WAITS_FOR_ALL = 'echo "$SLURM_PROCID" > /task$SLURM_LOCALID; until test $(ls / | grep -c task) = {}; do sleep 0.05; done; cat /task*'


def shared(image, *options):
    return ["--quiet", "--nodelist=node1", "--overcommit", f"--container-image={image}", *options, "sh", "-c"]


@pytest.fixture
def containers_of(srun, image, user):
    """containers_of(OPTIONS) -> how many containers two tasks on a node have. They wait for each other: the kernel uses numbers of namespaces again."""

    def count(*options):
        folder = installation.unused(user.home / "containers")
        folder.mkdir()
        user.own(folder)
        script = f"touch {folder}/$SLURM_LOCALID; until test -e {folder}/0 && test -e {folder}/1; do sleep 0.05; done; readlink /proc/self/ns/mnt"
        return len(set(srun(*shared(image, "-n2", f"--container-mounts={folder}:{folder}", *options), script).splitlines()))

    return count


def lines_of(stream, number):
    return [stream.readline().rstrip("\n") for _ in range(number)]


def test_tasks_of_a_node_share_a_container(site, srun, image, user, spank_engine):
    """Each node has its own, which goes with the step."""
    options = ["--quiet", "--nodelist=node1,node2", "--overcommit", "--ntasks=6", f"--container-image={image}"]
    lines = srun(*options, "sh", "-c", EACH_WAITS_FOR_ALL.format(3)).splitlines()
    assert sorted(lines) == [str(rank) for rank in range(6) for _ in range(3)]
    assert system.remains(lambda: kept_on(site, user, spank_engine, "node1") + kept_on(site, user, spank_engine, "node2")) == []


def test_tasks_of_a_node_share_the_container_of_a_name(srun, image, user):
    """Each node has its own. What a task writes is kept, not only what the first one does."""
    script = user.home / "tasks.sh"
    script.write_text(f"""#!/bin/sh
srun --quiet --overcommit --ntasks=6 --container-name=env --container-image={image} sh -c '{EACH_WAITS_FOR_ALL.format(3)}' | sort
srun --quiet --ntasks=2 --container-name=env sh -c 'cat /task* | tr "\\n" " "; echo' | sort
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1,node2", "--ntasks=2", script, program="salloc", cwd=user.home).splitlines()
    assert lines == [str(rank) for rank in range(6) for _ in range(3)] + ["0 1 2 ", "3 4 5 "]


def test_each_task_has_its_own_variables_and_status_in_a_shared_container(site, srun, image, user):
    """As in a container of its own: the entrypoint of the image, and what the command cannot do."""
    lines = srun(*shared(image, "-n2"), 'echo "$SLURM_PROCID $SLURM_LOCALID $(readlink /proc/self/ns/mnt)"').splitlines()
    assert sorted(line.split()[:2] for line in lines) == [["0", "0"], ["1", "1"]] and len({line.split()[2] for line in lines}) == 1
    missing = site.run("login", "srun", *shared(image, "-n2")[:-2], "nowhere-to-be-found", user=user)
    assert missing.returncode == 1 and 'exec: "nowhere-to-be-found": executable file not found in $PATH' in missing.stderr, missing
    refused = site.run("login", "srun", *shared(image, "-n3", "--container-mounts=/nowhere-at-all:/mnt")[:-2], "true", user=user)
    assert refused.returncode == 1 and refused.stderr.count("/nowhere-at-all") == 1, refused


@pytest.mark.parametrize("status", [0, 7])
def test_slurm_learns_at_once_that_a_task_has_ended(site, srun, image, user, spank_engine, status, go):
    """Also the one that started the container, which the others keep."""
    script = f'echo "$SLURM_PROCID"; test $SLURM_LOCALID != 0 || exit {status}; echo made > /mark$SLURM_LOCALID; until test -e {go}; do sleep 0.05; done; cat /mark*'
    options = shared(image, "-n3", "--kill-on-bad-exit=0", "--unbuffered", f"--container-mounts={user.home}:{user.home}")[1:]
    process = site.start("login", "srun", "--verbose", *options, script, user=user, stderr=subprocess.PIPE)
    assert sorted(lines_of(process.stdout, 3)) == ["0", "1", "2"]
    assert any(f"task 0: {'Exited with exit code 7' if status else 'Completed'}" in line for line in process.stderr)  # waits for this line
    go.touch()
    out, error = process.communicate(timeout=300)
    assert (process.returncode, out.splitlines()) == (status, ["made"] * 4), error
    assert system.remains(lambda: site.left_by_sarus("node1", user)) == []


def test_a_failed_task_ends_the_others_if_slurm_is_to_do_so(site, image, user):
    script = "test $SLURM_LOCALID != 1 || exit 7; sleep 1000"
    result = site.run("login", "srun", *shared(image, "-n3", "--kill-on-bad-exit=1"), script, user=user)
    assert "task 1: Exited with exit code 7" in result.stderr and result.returncode != 0, result
    assert system.remains(lambda: site.left_by_sarus("node1", user)) == []


@pytest.mark.parametrize("killed", ["the first task", "the keeper", "the container", "all but the tasks"])
def test_whatever_is_killed_nothing_hangs_or_remains(site, srun, image, user, killed, go):
    script = f'echo "$SLURM_LOCALID $SLURM_TASK_PID"; until test -e {go}; do sleep 0.05; done; echo on'
    options = shared(image, "-n3", "--container-name=env", "--kill-on-bad-exit=0", "--unbuffered", f"--container-mounts={user.home}:{user.home}")
    process = site.start("login", "srun", *options, script, user=user, stderr=subprocess.PIPE)
    tasks = dict(line.split() for line in lines_of(process.stdout, 3))
    victims = {"the first task": f"kill -9 {tasks['0']}", "the keeper": "pkill -9 -x sarus-step", "the container": "pkill -9 -f '[.]sarus-enter --hold'",
               "all but the tasks": "pkill -9 -x sarus-step; pkill -9 -x sarus-janitor; pkill -9 -f '[.]sarus-enter --hold'; true"}
    site.run("node1", "sh", "-c", victims[killed], check=True)
    if killed == "the first task":
        assert "task 0: Killed" in next(line for line in process.stderr if "srun: error" in line)
        go.touch()
    out, error = process.communicate(timeout=300)
    assert process.returncode != 0 and out.splitlines() == (["on"] * 2 if killed == "the first task" else []), (out, error)
    # The next container removes the record of one whose janitor was killed.
    kept = ("file ",) if killed == "all but the tasks" else ()
    assert system.remains(lambda: [line for line in site.left_by_sarus("node1", user) if not line.startswith(kept)]) == []
    assert srun(*shared(image, "-n2", "--container-name=env"), "echo again").splitlines() == ["again"] * 2
    assert system.remains(lambda: site.left_by_sarus("node1", user)) == []


def test_a_cancelled_step_leaves_nothing(site, srun, image, user):
    """Its tasks have the time to end that Slurm gives them."""
    script = "trap 'echo ends; exit 0' TERM; echo ready $SLURM_JOB_ID; while :; do sleep 0.05; done"
    process = site.start("login", "srun", "--unbuffered", *shared(image, "-n3"), script, user=user, stderr=subprocess.PIPE)
    job = lines_of(process.stdout, 3)[0].split()[1]
    site.run("login", "scancel", job, user=user, check=True)
    out, _ = process.communicate(timeout=300)
    assert out.splitlines() == ["ends"] * 3
    assert system.remains(lambda: site.left_by_sarus("node1", user)) == []
    assert system.eventually(lambda: site.run("login", "squeue", "--noheader").stdout == "")


def test_a_shared_container_is_saved_with_what_all_tasks_wrote(srun, image, user):
    """By the last task of the node: no other one waits."""
    srun(*shared(image, "-n3", "--container-save=shared.sqsh"), 'echo "$SLURM_LOCALID" > /task$SLURM_LOCALID', cwd=user.home)
    assert srun("--quiet", f"--container-image={user.home}/shared.sqsh", "sh", "-c", "cat /task*").splitlines() == ["0", "1", "2"]


def test_a_shared_container_that_cannot_be_saved_fails_the_step(site, image, user):
    directory = user.home / "gone"
    directory.mkdir()
    user.own(directory)
    result = site.run("login", "srun", *shared(image, "-n2", f"--container-mounts={user.home}:{user.home}", f"--container-save={directory}/x.sqsh"),
                      f"rmdir {directory} 2>/dev/null; true", user=user)
    assert result.returncode == 1 and result.stderr.count("The container was not saved (--container-save)") == 1, result


def test_tasks_share_a_container_without_privileges(site, srun, spank_engine, image, user):
    """Whatever is killed. With FUSE, the image's server is the keeper's and not a task's."""
    starter = spank_engine.prefix / "libexec/sarus-starter"
    mode = starter.stat().st_mode
    starter.chmod(0o755)
    try:
        lines = srun(*shared(image, "-n3"), EACH_WAITS_FOR_ALL.format(3)).splitlines()
        assert sorted(lines) == [str(task) for task in range(3) for _ in range(3)]
        script = ("echo > /ended-$SLURM_LOCALID; test $SLURM_LOCALID != 0 || { kill -9 $SLURM_TASK_PID; sleep 1000; }; "
                  "until test -e /ended-0; do sleep 0.05; done; cat /bin/busybox > /dev/null && echo on")
        result = site.run("login", "srun", *shared(image, "-n3", "--kill-on-bad-exit=0"), script, user=user)
        assert "task 0: Killed" in result.stderr and result.stdout.splitlines() == ["on"] * 2, result
    finally:
        starter.chmod(mode)
    assert system.remains(lambda: site.left_by_sarus("node1", user)) == []


def test_other_users_cannot_come_to_the_keeper(site, image, user, go):
    """Its address is open to everybody on the node: who is another user hears nothing and keeps nothing."""
    options = shared(image, "-n2", "--unbuffered", f"--container-mounts={user.home}:{user.home}")
    process = site.start("login", "srun", *options, f"echo ready; until test -e {go}; do sleep 0.05; done; echo on", user=user)
    assert lines_of(process.stdout, 2) == ["ready"] * 2
    attack = r"""import os, re, socket
os.setuid(65534)
answers, kept = [], []
for name in re.findall(r"@([0-9a-f]{5})$", open("/proc/net/unix").read(), re.M):
    for _ in range(2000):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(60)
        try:
            connection.connect("\0" + name)
            connection.send(b"hello 9 1")
            answers.append(connection.recv(10))
        except (BrokenPipeError, ConnectionError, OSError) as error:
            answers.append(b"")
print(len(answers), set(answers))
"""
    assert re.fullmatch(r"\d*000 \{b''\}\n", site.run("node1", "python3", "-c", attack, check=True).stdout)
    go.touch()
    assert process.communicate(timeout=300)[0].splitlines() == ["on"] * 2 and process.returncode == 0


def test_root_in_a_shared_container(srun, image):
    assert srun(*shared(image, "-n2", "--container-remap-root"), "id -u; echo > /root-was-here; ls /root-was-here").splitlines().count("0") == 2


def test_the_entrypoint_runs_in_front_of_each_task(srun, spank_engine, load_image, images):
    def extra(layer):
        layer.file("entry", b'#!/bin/sh\necho entry\nexec "$@"\n', mode=0o755)

    entered = load_image(spank_engine, "spank-entered", images.busybox({"Entrypoint": ["/entry"]}, extra=extra))
    lines = srun(*shared(entered, "-n2", "--container-entrypoint")[:-2], "echo", "command").splitlines()
    assert sorted(lines) == ["command"] * 2 + ["entry"] * 2


@pytest.mark.parametrize("kind, protocol", [("mpich", "pmi2"), ("openmpi", "pmix")])
def test_ranks_in_a_shared_container_find_each_other(srun, spank_engine, load_image, images, workspace, kind, protocol):
    program = mpi.compile_program(kind, SOURCE.parent / "mpi_ranks.c", workspace / f"spank-shared-{kind}")
    ranks = load_image(spank_engine, f"spank-shared-{kind}", mpi.image_with(images, kind, program))
    lines = srun(f"--mpi={protocol}", *shared(ranks, "-n4")[:-2], "/app").splitlines()
    assert len(lines) == 4 and all("sum 10" in line for line in lines), lines


@pytest.mark.parametrize("kind, protocol", [("mpich", "pmi2"), ("openmpi", "pmix")])
def test_ranks_that_join_a_container_find_each_other(srun, spank_engine, load_image, images, workspace, user, kind, protocol):
    """The container belongs to a step without MPI."""
    program = mpi.compile_program(kind, SOURCE.parent / "mpi_ranks.c", workspace / f"spank-joined-{kind}")
    ranks = load_image(spank_engine, f"spank-joined-{kind}", mpi.image_with(images, kind, program))
    script = user.home / "join-ranks.sh"
    script.write_text(f"""#!/bin/sh
rm -f program-{kind}
srun --overlap -n1 --container-name=ranks --container-image={ranks} sh -c 'echo $$; exec sleep 1000' > program-{kind} &
until test -s program-{kind}; do sleep 0.1; done
srun --overlap -n2 --mpi={protocol} --container-name=ranks /app 2>&1
srun --overlap -n1 kill $(cat program-{kind}); wait $! || :
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1", "--ntasks=2", script, program="salloc", cwd=user.home).splitlines()
    assert len(lines) == 2 and all("sum 3" in line for line in lines), lines


@pytest.fixture
def configure(site, user, spank_engine):
    """configure(keys of sarus.json), once nothing reads it to clean up behind an earlier job"""
    configuration = spank_engine.prefix / "etc/sarus.json"
    before = configuration.read_text()
    assert system.eventually(lambda: kept_on(site, user, spank_engine, "node1") == [])
    yield lambda **keys: installation.set_configuration(spank_engine.prefix, **keys)
    installation.replace_text(configuration, before)


@pytest.mark.parametrize("name", [[], ["--container-name=env"]], ids=["unnamed", "named"])
def test_a_site_can_give_each_task_a_container(containers_of, configure, name):
    assert containers_of(*name) == 1
    configure(containerPerTask=True)
    assert containers_of(*name) == 2


def test_a_site_can_let_a_name_outlive_its_job(site, srun, configure, image, user, spank_engine):
    """But not what a step without a name leaves that could not be saved."""
    configure(containerStorage={"directory": "/tmp", "scope": "global"})
    srun("--quiet", "--nodelist=node1", "--container-name=lasting", f"--container-image={image}", "sh", "-c", "echo first > /whose")
    assert srun("--quiet", "--nodelist=node1", "--container-name=lasting", "cat", "/whose") == "first"
    directory = user.home / "unsavable"
    directory.mkdir()
    user.own(directory)
    result = site.run("login", "srun", *shared(image, "-n2", f"--container-mounts={user.home}:{user.home}", f"--container-save={directory}/x.sqsh"),
                      f"rmdir {directory} 2>/dev/null; true", user=user)
    assert result.stderr.count("The container was not saved (--container-save)") == 1, result
    assert system.eventually(lambda: kept_on(site, user, spank_engine, "node1") == ["lasting"]), kept_on(site, user, spank_engine, "node1")
    site.run("node1", "env", "-i", spank_engine.program, "rm", "lasting", user=user, check=True)


def test_options_hold_for_all_tasks_of_an_array(srun, site, image, user):
    script = user.home / "array.sh"
    script.write_text('#!/bin/sh\necho "$SLURM_ARRAY_TASK_ID $(test -e /etc/debian_version || echo contained)"\n')
    srun("--parsable", "--array=1-2", "--output=array-%a", f"--container-image={image}", script, program="sbatch", cwd=user.home)
    files = [user.home / f"array-{task}" for task in (1, 2)]
    assert system.eventually(lambda: all(file.exists() and file.read_text() for file in files)), site.logs()
    assert [file.read_text() for file in files] == ["1 contained\n", "2 contained\n"]


def test_components_of_a_heterogeneous_step(srun, image):
    lines = srun("--ntasks=1", f"--container-image={image}", "sh", "-c", "test -e /etc/debian_version || echo contained", ":",
                 "--ntasks=1", f"--container-image={image}", "sh", "-c", "test -e /etc/debian_version || echo contained").splitlines()
    assert lines == ["contained"] * 2


def test_srun_in_a_batch_script_starts_outside_of_its_container(srun, site, image, user, spank_engine):
    """The script gets Slurm's client from the host. Nothing in its variables puts the steps into the script's container."""
    folder = installation.unused(user.home / "inner")
    configuration = folder / "slurm"
    configuration.mkdir(parents=True)
    for name in ("slurm.conf", "cgroup.conf"):
        shutil.copy(site.configuration / name, configuration)
    script = folder / "script.sh"
    script.write_text('#!/bin/sh\ntest -e /etc/debian_version || echo contained\nSLURM_CONF=/slurm/slurm.conf srun cat /etc/hostname /etc/debian_version\n')
    user.own(folder)
    linker = subprocess.run(["readelf", "-l", "/usr/bin/srun"], check=True, capture_output=True, text=True).stdout
    files = {*slurm.libraries_of("/usr/bin/srun"), f"{slurm.MULTIARCH}/libmunge.so.2", re.search(r"interpreter: (\S+)\]", linker)[1],
             "/usr/bin/srun", str(slurm.plugin_directory()), "/run/munge"}
    mounts = ",".join([*sorted(file for file in files if not file.startswith(f"{slurm.plugin_directory()}/")), f"{configuration}:/slurm"])
    srun("--parsable", f"--output={folder}/output", f"--container-image={image}", f"--container-mounts={mounts}", script, program="sbatch", cwd=folder)
    output = folder / "output"
    version = pathlib.Path("/etc/debian_version").read_text()
    assert system.eventually(lambda: output.exists() and version in output.read_text()), output.read_text()
    assert output.read_text().startswith("contained\n")


def test_container_knows_the_gpus_of_its_task(srun, image):
    for count, visible in (1, "0"), (2, "0,1"):
        assert srun(f"--gres=gpu:{count}", f"--container-image={image}", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES") == visible


def test_tasks_in_one_container_keep_the_gpus_that_slurm_gave_them(srun, image):
    """Their numbers count among those of the task's control group, if Slurm makes one, else among those of the node."""
    script = ["sh", "-c", "echo $SLURM_LOCALID $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES"]
    options = ["-N1", "-n2", "--gres=gpu:2", "--gpu-bind=map_gpu:0,1"]
    native = sorted(srun(*options, *script).splitlines())
    assert len(native) == 2
    inside = srun(*options, f"--container-image={image}", "--container-name=of-gpus", *script)
    assert sorted(inside.splitlines()) == [f"{line} all" for line in native]


@pytest.mark.parametrize("binding, containers", [("single:1", 2), ("none", 1)])
def test_tasks_that_may_use_their_own_gpus_alone_have_containers_of_their_own(containers_of, binding, containers):
    """Those of the others are missing in it. With a name, all tasks share the container."""
    options = ["--gres=gpu:2", f"--gpu-bind={binding}"]
    assert containers_of(*options) == containers
    assert containers_of(*options, "--container-name=of-gpus") == 1


def test_a_step_with_other_gpus_than_the_container_that_it_joins_is_warned(site, user, image):
    """By their numbers it would compute on those of another step."""
    folder = user.home / "few-gpus"
    folder.mkdir(exist_ok=True)
    user.own(folder)
    script = f"""srun --overlap -n1 --gres=gpu:1 --container-image={image} --container-name=few-gpus --container-mounts={folder}:/go \
    sh -c 'touch /go/runs; until test -e /go/end; do sleep 0.1; done' &
until test -e {folder}/runs; do sleep 0.1; done
srun --overlap -n1 --gres=gpu:2 --container-name=few-gpus sh -c 'echo "GPUs $CUDA_VISIBLE_DEVICES"'
srun --overlap -n1 --gres=gpu:1 --container-name=few-gpus sh -c 'echo "GPU $CUDA_VISIBLE_DEVICES"'
touch {folder}/end
wait
"""
    for name in ("runs", "end"):
        (folder / name).unlink(missing_ok=True)
    result = site.run("login", "salloc", "-N1", "--gres=gpu:2", "sh", "-c", script, user=user)
    assert result.stderr.count("cannot be used") == 1 and "GPU 1 of this step cannot be used: the container" in result.stderr, result.stderr
    assert result.stdout == "GPUs 0\nGPU 0\n"


@pytest.fixture
def ssh_hooks(spank_engine):
    """The hooks of SSH and of the synchronization."""
    ssh.make_keys(spank_engine)
    ssh.enable_hook(spank_engine, "09-slurm-global-sync-hook")
    yield
    for name in ("07-ssh-hook", "09-slurm-global-sync-hook"):
        (spank_engine.prefix / f"etc/hooks.d/{name}.json").unlink()
    ssh.remove_keys(spank_engine)


@pytest.mark.parametrize("tasks", [2, 4])
def test_environment_definition_lets_tasks_reach_each_other_by_ssh(srun, ssh_hooks, image, user, tasks):
    """At once: the hooks wait until the containers of all tasks are there, also if some tasks share one."""
    definition = user.home / "ssh.toml"
    definition.write_text(f'image = "{image}"\n[annotations.com.hooks.ssh]\nenabled = "true"\nport = "{system.free_port()}"\n')
    script = "[ $SLURM_LOCALID = 0 ] || exit 0; if [ $SLURM_PROCID = 0 ]; then ssh node2 cat /proc/sys/kernel/hostname; ssh node2 touch /tmp/done || :; " \
             "else for i in $(seq 3000); do [ -e /tmp/done ] && break; sleep 0.1; done; fi"
    assert srun("--quiet", "--nodelist=node1,node2", f"--ntasks={tasks}", "--container-name=reached", f"--environment={definition}", "sh", "-c", script) == "node2"


@pytest.fixture
def registry_of_the_cluster(registry, site, workspace, user):
    """The images of `registry`, served to all nodes. Its log is registry_of_the_cluster.log."""
    directory = installation.unused(workspace / "cluster-registry")
    directory.mkdir()
    host = f"{site.address('login')}:5000"
    (directory / "config.yml").write_text(f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {registry.directory}/data\nhttp:\n  addr: {host}\n")
    allowed = user.home / ".config/containers/registries.conf.d/cluster.conf"
    allowed.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    with open(directory / "log", "wb") as log:
        server = site.start("login", system.program("docker-registry"), "serve", directory / "config.yml", stdout=log, stderr=log,
                            env={"OTEL_TRACES_EXPORTER": "none"})
        yield host, directory / "log"
        server.terminate()
        server.wait(timeout=300)


def test_one_node_of_a_job_pulls_the_image(srun, registry, registry_of_the_cluster, images):
    host, log = registry_of_the_cluster
    registry.push(images.busybox(extra=lambda layer: layer.file("once", f"an image of its own, or nothing is pulled: {log}")), f"spank/once:{log.parent.name}")
    lines = srun("--nodes=4", "--ntasks=8", f"--container-image={host}#spank/once:{log.parent.name}", "sh", "-c", "test -e /etc/debian_version || echo contained").splitlines()
    assert lines == ["contained"] * 8
    text = log.read_text(errors="replace")
    assert len(re.findall(r'"GET /v2/spank/once/blobs/', text)) == 2, text  # configuration and layer
    assert len(re.findall(r'"(?:GET|HEAD) /v2/spank/once/manifests/', text)) <= 2 * 4, text  # of nodes, not of tasks


@pytest.fixture
def copies(site, spank_engine):
    """A directory of each node, for the copies of images in jobs of four nodes."""
    directory = "/run/plugin-copies"
    for node in site.nodes:
        site.run(node, "mkdir", "-p", "-m", "1777", directory, check=True)
    installation.set_configuration(spank_engine.prefix, broadcast={"directory": directory, "minNodes": 4})
    yield directory
    installation.set_configuration(spank_engine.prefix, broadcast=None)


@pytest.mark.parametrize("nodes, tasks", [(3, 3), (4, 4), (4, 12)])
def test_image_is_broadcast_in_a_job_of_many_nodes(srun, site, image, copies, nodes, tasks):
    lines = srun(f"--nodes={nodes}", f"--ntasks={tasks}", "--overcommit", f"--container-image={image}", f"--container-mounts={copies}:/copies", "sh", "-c",
                 "echo $(find /copies -name '*.squashfs' | wc -l)").splitlines()
    assert lines == ["1" if nodes == 4 else "0"] * tasks
    assert system.remains(lambda: [node for node in site.nodes if site.run(node, "ls", "-A", copies).stdout]) == [], "longer than their job"
