"""`sarus bcast`, and containers that use the copies on their nodes, on a Slurm cluster of four nodes."""

import collections
import re
import shutil

import pytest
from helpers import installation, system
from helpers.broadcast import Copies

pytestmark = pytest.mark.asroot
PLACE = "/run/copies"  # of each node its own
JOBS = iter(range(2000, 3000))


@pytest.fixture(scope="module")
def bcast_engine(make_setuid_prefix, user):
    return installation.Engine(make_setuid_prefix("bcast", broadcast={"directory": PLACE, "patienceMs": 20_000}), user, "setuid", "crun")


@pytest.fixture
def image(bcast_engine, load_image, plain_busybox):
    return load_image(bcast_engine, "busybox", plain_busybox)


@pytest.fixture
def place(cluster):
    """The directory for copies on all nodes, empty."""
    for node in cluster.nodes:
        cluster.run(node, "sh", "-c", f"rm -rf {PLACE} && mkdir -m 1777 {PLACE}", check=True)
    return PLACE


@pytest.fixture
def job(cluster, user, place):
    """Runs a shell script with $sarus in an allocation of all four nodes."""

    def run(script, engine, *options, **environment):
        return cluster.run("login", "salloc", "--quiet", "-N4", *options, "sh", "-c", script, user=user, timeout=120,
                           env={"sarus": engine.program, **environment})

    return run


def used(text):
    """How many containers used which file, by its directory."""
    return collections.Counter(path.rsplit("/", 1)[0] for path in re.findall(r"Image \S+ is in (\S+)$", text, re.MULTILINE))


def on_nodes(cluster, *command):
    return [cluster.run(node, *command).stdout for node in cluster.nodes]


def test_image_is_copied_once_and_used_on_every_node(job, cluster, bcast_engine, user, image):
    """One call of sbcast; the second broadcast finds the copies."""
    result = job(f"""$sarus bcast {image}; $sarus bcast {image}; echo job $SLURM_JOB_ID
                     srun -n8 --overcommit $sarus --verbose run {image} true""", bcast_engine)
    assert (result.returncode, result.stderr) == (0, "")
    number = re.search(r"^job (\d+)$", result.stdout, re.MULTILINE)[1]
    directory = f"{PLACE}/sarus-{user.uid}-job-{number}"
    first, second = result.stdout.splitlines()[:2]
    assert re.fullmatch(rf"{image}:latest \([\d.]+[KM]B\) copied to 4 nodes: {directory}", first), first
    assert re.fullmatch(rf"{image}:latest \([\d.]+[KM]B\) is already on 4 nodes: {directory}", second), second
    assert used(result.stdout) == {directory: 8}
    assert on_nodes(cluster, "stat", "-c", "%a %U", directory) == [f"700 {user.name}\n"] * 4
    assert [len(listing.split()) for listing in on_nodes(cluster, "ls", "-A", directory)] == [1] * 4


COUNTING = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
sleep 1
exec /usr/bin/sbcast "$@"
"""


def test_first_task_of_one_step_broadcasts_and_all_others_wait(job, bcast_engine, user, image):
    programs = installation.unused(user.home / "counting")
    programs.mkdir()
    (programs / "sbcast").write_text(COUNTING)
    (programs / "sbcast").chmod(0o755)
    calls = installation.unused(user.home / "calls")
    step = f"srun --overlap -n8 --overcommit $sarus --verbose run --bcast {image} true"
    result = job(f"{step} & {step} & wait", bcast_engine, PATH=f"{programs}:/usr/bin:/bin", CALLS=calls)
    assert (result.returncode, result.stderr) == (0, "")
    (directory, count), = used(result.stdout).items()
    assert directory.startswith(f"{PLACE}/sarus-{user.uid}-job-") and count == 16
    assert len(calls.read_text().splitlines()) == 1


def test_site_can_ask_for_a_broadcast_from_a_number_of_nodes_on(job, make_setuid_prefix, user, image):
    for least, expected in (4, True), (5, False):
        engine = installation.Engine(make_setuid_prefix(f"bcast-{least}", broadcast={"directory": PLACE, "minNodes": least}), user, "setuid", "crun")
        result = job(f"srun -N2 -n2 $sarus --verbose run {image} true", engine)
        assert (result.returncode, [path.startswith(PLACE) for path in used(result.stdout)]) == (0, [expected]), result.stderr


def test_node_without_space_is_named_and_all_use_the_shared_file(job, cluster, bcast_engine, image):
    cluster.run("node3", "mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "tmpfs", PLACE, check=True)
    try:
        alone = job(f"$sarus bcast {image}", bcast_engine)
        result = job(f"srun -n4 $sarus --verbose run --bcast {image} true", bcast_engine)
    finally:
        cluster.run("node3", "umount", PLACE, check=True)
    message = rf"Failed to broadcast {image}:latest: node3: Not enough space in {PLACE}/\S+: the image has \S+, and \S+ are available"
    assert alone.returncode == 1 and re.search(message, alone.stderr), alone.stderr
    assert result.returncode == 0 and re.search(f"WARN.*{message}: using the shared file", result.stderr), result.stderr
    assert [path.startswith(PLACE) for path in used(result.stdout)] == [False]


def test_nobody_waits_for_a_copy_that_does_not_come(job, cluster, make_setuid_prefix, user, image):
    engine = installation.Engine(make_setuid_prefix("bcast-patient", broadcast={"directory": PLACE, "patienceMs": 1_000_000}), user, "setuid", "crun")
    cluster.run("node3", "mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "tmpfs", PLACE, check=True)
    try:
        result = job(f"srun -n4 $sarus run --bcast {image} true; srun -n4 $sarus run --bcast {image} true", engine)
    finally:
        cluster.run("node3", "umount", PLACE, check=True)
    assert result.returncode == 0 and result.stderr.count("using the shared file") == 2, result.stderr


SLOW = """#!/bin/sh
head -c 100000 "$2" > "$HOME/half"
/usr/bin/sbcast "$1" "$HOME/half" "$3"
touch "$HOME/sent"
exec sleep 1000
"""


def test_killed_broadcast_leaves_a_copy_that_nobody_uses(job, cluster, bcast_engine, user, image):
    """It is removed by the next one, which is not kept waiting."""
    (user.home / "sent").unlink(missing_ok=True)
    programs = installation.unused(user.home / "slow")
    programs.mkdir()
    (programs / "sbcast").write_text(SLOW)
    (programs / "sbcast").chmod(0o755)
    result = job(f"""PATH={programs}:$PATH $sarus bcast {image} & pid=$!; until [ -e "$HOME/sent" ]; do sleep 0.1; done
                     kill -KILL $pid; wait $pid; echo status $?; srun -n4 ls -A {PLACE}/sarus-{user.uid}-job-$SLURM_JOB_ID
                     srun -n4 $sarus --verbose run {image} true; $sarus bcast {image}""", bcast_engine)
    assert "status 137" in result.stdout and len(re.findall(r"\.squashfs\.partial-[a-z]{16}$", result.stdout, re.MULTILINE)) == 4
    assert [path.startswith(PLACE) for path in used(result.stdout)] == [False] and "copied to 4 nodes" in result.stdout
    assert [len(listing.split()) for listing in on_nodes(cluster, "sh", "-c", f"ls -A {PLACE}/*")] == [1] * 4


def test_file_that_was_replaced_in_between_is_found_out(job, cluster, bcast_engine, user, image):
    """Each node verifies what it got: here, a program that sends something else."""
    programs = installation.unused(user.home / "lying")
    programs.mkdir()
    (programs / "sbcast").write_text('#!/bin/sh\nexec /usr/bin/sbcast "$1" /usr/bin/env "$3"\n')
    (programs / "sbcast").chmod(0o755)
    result = job(f"$sarus bcast {image}", bcast_engine, PATH=f"{programs}:/usr/bin:/bin")
    assert result.returncode == 1 and "is not what was recorded for the image" in result.stderr
    assert all(listing.endswith(".partial-abandoned\n") and len(listing.split()) == 1 for listing in on_nodes(cluster, "sh", "-c", f"ls -A {PLACE}/*"))


@pytest.fixture
def epilog(cluster, source_dir):
    """The epilog of the administrator's guide, for these directories."""
    guide = (source_dir / "docs/admin/guide.md").read_text()
    script = re.search(r"Remove the copies in Slurm's `Epilog`.*?```sh\n(.*?)```", guide, re.DOTALL)[1]
    cluster.set_epilog("#!/bin/sh\n" + script.replace("/local/scratch", PLACE))
    yield
    cluster.set_epilog()


def test_broadcast_from_within_a_batch_script_and_epilog(cluster, place, bcast_engine, user, image, epilog):
    """The documented epilog removes the copies with the user's rights."""
    output = user.home / "batch-output"
    script = user.home / "batch.sh"
    script.write_text(f"#!/bin/sh\n{bcast_engine.program} bcast {image}\nsrun -n4 {bcast_engine.program} --verbose run {image} true\n"
                      f"srun ls -A {PLACE}\n")
    result = cluster.run("login", "sbatch", "-N4", f"--output={output}", script, user=user)
    assert result.returncode == 0, result.stderr
    number = re.search(r"\d+", result.stdout)[0]
    copies = f"sarus-{user.uid}-job-{number}"
    assert system.eventually(lambda: output.exists() and output.read_text().splitlines().count(copies) == 4), output.read_text()
    places = used(output.read_text())
    assert sum(places.values()) == 4 and [path.startswith(PLACE) for path in places] == [True]
    assert system.eventually(lambda: on_nodes(cluster, "ls", "-A", PLACE) == [""] * 4), on_nodes(cluster, "ls", "-A", PLACE)


# One node, without Slurm: what counts are the job's number and the files.


@pytest.fixture
def copies(any_engine, load_image, plain_busybox, temp_dir):
    made = Copies(any_engine, temp_dir, load_image(any_engine, "busybox", plain_busybox), next(JOBS))
    yield made
    shutil.rmtree(made.directory, ignore_errors=True)


def test_command_outside_of_a_job_is_an_error(copies):
    result = copies.engine.sarus("bcast", copies.reference, env={"SLURM_JOB_ID": None})
    assert (result.returncode, result.stderr) == (1, "There is no Slurm job: SLURM_JOB_ID is not set\n"
                                                     "Run 'sarus bcast' in a batch script, or in the shell of salloc\n")


def test_option_outside_of_a_job_is_a_warning(copies):
    assert "The option '--bcast' has no effect outside of a Slurm job" in copies.used("--bcast", SLURM_JOB_ID="")[1]


def test_unfinished_copy_is_not_used_and_goes_with_the_next_broadcast(copies):
    copies.stage("prepare")
    shutil.copyfile(copies.shared, copies.partial())
    copies.own(copies.partial())
    assert copies.used()[0] == copies.shared
    assert copies.stage("prepare").stdout == "ready\n" and list(copies.directory.iterdir()) == []
    assert copies.make().used()[0] == copies.file
    assert copies.stage("prepare").stdout == "present\n"


def test_copy_belongs_to_one_job(copies):
    copies.make()
    assert copies.used(SLURM_JOB_ID="1999")[0] == copies.shared


def test_task_that_waits_in_vain_uses_the_shared_file(make_any_prefix, copies):
    prefix = make_any_prefix("impatient", broadcast={"patienceMs": 500})
    copies.engine = copies.engine.variant(prefix=prefix)
    path, said = copies.used("--bcast", SLURM_PROCID="1", SLURM_JOB_NUM_NODES="2")
    assert (path, said) == (copies.shared, "")


def test_dry_run_shows_the_copy_and_broadcasts_nothing(copies):
    copies.make()
    result = copies.engine.sarus("--verbose", "run", "--dry-run", "--bcast", copies.reference, "true",
                                 env={"SLURM_JOB_ID": copies.job, "PATH": "/nonexistent"})
    assert result.returncode == 0 and str(copies.file) in result.stdout and result.stderr == ""
