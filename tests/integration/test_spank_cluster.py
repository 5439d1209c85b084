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
    made = Cluster(shared=home_base, visible=[common], settings={"SchedulerParameters": "bf_interval=1", "GresTypes": "gpu"}, node_settings="Gres=gpu:2",
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
    assert "sarus save --container save-step0.job" in late.stderr
    assert system.eventually(lambda: kept_on(site, user, spank_engine, "node1") == [])


def test_step_that_joins_a_container_is_a_step_of_its_own(srun, spank_engine, load_image, images, workspace, user):
    """Its tasks have its ranks, cgroup, PMI and variables: MPI runs in them."""
    program = mpi.compile_program("mpich", SOURCE.parent / "mpi_ranks.c", workspace / "spank-cluster-joined")
    ranks = load_image(spank_engine, "spank-cluster-joined", mpi.image_with(images, "mpich", program))
    own = 'echo "$SLURM_PROCID $SLURM_NTASKS $WHOSE $(grep -o "step_[0-9]*" /proc/self/cgroup | sort -u) step_$SLURM_STEP_ID"'
    script = user.home / "joined-step.sh"
    script.write_text(f"""#!/bin/sh
WHOSE=first srun --overlap -n1 --container-name=shared --container-image={ranks} sh -c 'echo ready; exec sleep 1000' > started &
until grep -q ready started; do sleep 0.1; done
WHOSE=own srun --overlap -n2 --container-name=shared sh -c '{own}' | sort
srun --overlap -n2 --mpi=pmi2 --container-name=shared /app
kill $!
""")
    script.chmod(0o755)
    lines = srun("--quiet", "--nodelist=node1", "--ntasks=2", script, program="salloc", cwd=user.home).splitlines()
    assert lines[:2] == [f"{rank} 2 own step_1 step_1" for rank in (0, 1)] and sum("of 2: sum 3" in line for line in lines[2:]) == 2, lines


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
    folder = user.home / "inner"
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


@pytest.fixture
def ssh_hooks(spank_engine):
    """The hooks of SSH and of the synchronization."""
    ssh.make_keys(spank_engine)
    ssh.enable_hook(spank_engine, "09-slurm-global-sync-hook")
    yield
    for name in ("07-ssh-hook", "09-slurm-global-sync-hook"):
        (spank_engine.prefix / f"etc/hooks.d/{name}.json").unlink()
    ssh.remove_keys(spank_engine)


def test_environment_definition_lets_tasks_reach_each_other_by_ssh(srun, ssh_hooks, image, user):
    """At once: the hooks wait until both containers are there."""
    definition = user.home / "ssh.toml"
    definition.write_text(f'image = "{image}"\n[annotations.com.hooks.ssh]\nenabled = "true"\nport = "{system.free_port()}"\n')
    script = "if [ $SLURM_PROCID = 0 ]; then ssh node2 cat /proc/sys/kernel/hostname; ssh node2 touch /tmp/done || :; " \
             "else for i in $(seq 300); do [ -e /tmp/done ] && break; sleep 0.1; done; fi"
    assert srun("--nodelist=node1,node2", "--ntasks=2", f"--environment={definition}", "sh", "-c", script) == "node2"


@pytest.fixture
def registry_of_the_cluster(registry, site, workspace, user):
    """The images of `registry`, served to all nodes. Its log is registry_of_the_cluster.log."""
    directory = workspace / "cluster-registry"
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
    registry.push(images.busybox(extra=lambda layer: layer.file("once", "an image of its own, or nothing is pulled")), "spank/once:1")
    lines = srun("--nodes=4", "--ntasks=8", f"--container-image={host}#spank/once:1", "sh", "-c", "test -e /etc/debian_version || echo contained").splitlines()
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


@pytest.mark.parametrize("nodes", [3, 4])
def test_image_is_broadcast_in_a_job_of_many_nodes(srun, image, copies, nodes):
    lines = srun(f"--nodes={nodes}", f"--container-image={image}", f"--container-mounts={copies}:/copies", "sh", "-c",
                 "echo $(find /copies -name '*.squashfs' | wc -l)").splitlines()
    assert lines == ["1" if nodes == 4 else "0"] * nodes
