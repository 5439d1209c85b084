"""The standalone archive on releases of Debian, with the kernel of this machine: with each release's OCI runtimes, skopeo, Podman, MPI, SSH
client and Slurm."""

import json
import os
import shutil
import subprocess

import pytest
import test_hook_distributions
from helpers import mpi, system
from helpers.archive import Installed
from helpers.debian import SUITES
from helpers.node import Node
from helpers.slurm import CONFIGURATION

pytestmark = [pytest.mark.asroot, pytest.mark.thorough, pytest.mark.timeout(3600)]

USER = 4711
HOME = "/home/alice"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LOADER = "/lib64/ld-linux-x86-64.so.2"


@pytest.fixture(scope="module", params=SUITES)
def suite(request):
    return request.param


@pytest.fixture(scope="module")
def node(suite, releases, workspace):
    made = Node(releases(suite), workspace / suite)
    made.run(f"useradd --uid {USER} --create-home --home-dir {HOME} --shell /bin/sh alice; echo '127.0.0.1 localhost {os.uname().nodename}' >/etc/hosts")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def install(node, archive):
    """install(rootless, runtime) -> the installation with that OCI runtime; "" is the archive's."""
    return lambda rootless, runtime="": Installed(node, archive, USER, HOME, rootless, SARUS_OCI_RUNTIME=runtime)


@pytest.fixture(scope="module")
def installed(install):
    return install(rootless=False)


@pytest.mark.parametrize("runtime", ["", "crun", "runc"], ids=["crun of the archive", "crun", "runc"])
@pytest.mark.parametrize("mode", ["set-user-ID", "rootless"])
def test_containers(install, suite, mode, runtime):
    """With the archive's OCI runtime and those of the release."""
    if (suite, mode, runtime) == ("bullseye", "set-user-ID", "crun"):
        pytest.xfail("crun 0.17 mounts nothing where a user namespace is missing")
    made = install(mode == "rootless", runtime)
    assert f"Found {runtime or 'crun'}: {'/usr' if runtime else made.prefix}/" in made.said
    report = made.report()
    assert report.returncode in (0, 2) and "FAILED" not in report.stdout, report.stdout + report.stderr


def test_images_are_pulled_by_its_skopeo(node, installed, registry, plain_busybox):
    settings = installed.file("etc/sarus.json")
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "skopeoPath": "/usr/bin/skopeo"}))
    node.run(f"mkdir -p {HOME}/.config/containers && cat >{HOME}/.config/containers/registries.conf <<'END'\n[[registry]]\n"
             f'location = "{registry.host}"\ninsecure = true\nEND', user=USER)
    reference = registry.push(plain_busybox, "matrix/busybox:1")
    installed.sarus(f"pull {reference}")
    assert installed.sarus(f"run {reference} echo pulled").stdout == "pulled\n"
    missing = installed.sarus(f"pull {registry.host}/matrix/busybox:2", check=False)
    assert missing.returncode == 1 and "The registry has no image with this name and tag." in missing.stderr, missing.stderr


@pytest.fixture(scope="module")
def with_glibc(node, installed):
    """An installation whose glibc hook has the node's."""
    names = " ".join(f"{LIBRARIES}/{name}" for name in test_hook_distributions.GLIBC_PARTS)
    libraries = node.run(f"ls {names} {LOADER} 2>/dev/null", check=False).stdout.split()
    template = installed.file("etc/templates/hooks.d/01-glibc-hook.json.in").read_text()
    installed.file("etc/hooks.d/01-glibc-hook.json").write_text(
        template.replace("@INSTALL_PATH@", installed.prefix).replace("@GLIBC_LIBS@", ":".join(libraries)))
    return installed


@pytest.fixture(scope="module")
def older(releases):
    """The glibc of Debian 11 and a program that prints its version, for a layer of an image."""
    parts = [f"{LIBRARIES[4:]}/{name}" for name in test_hook_distributions.GLIBC_PARTS]

    def add(layer):
        layer.directory("lib64").directory("lib/x86_64-linux-gnu")
        for name in ("/usr/bin/getconf", LOADER, *parts):
            found = subprocess.run(["chroot", str(releases("bullseye")), "cat", name], capture_output=True)
            if found.returncode == 0:
                layer.file(name.lstrip("/"), found.stdout, mode=0o755)

    return add


def test_glibc_of_the_node_takes_the_place_of_an_older_one(node, with_glibc, images, older):
    image = with_glibc.load(images.archive(images.busybox(extra=older), "matrix-glibc"), "image")
    own, hosts = (with_glibc.sarus(f"run {options} {image} getconf GNU_LIBC_VERSION").stdout for options in ("", "--glibc"))
    assert own == "glibc 2.31\n" and hosts == node.run("getconf GNU_LIBC_VERSION").stdout


@pytest.fixture(scope="module")
def programs(workspace):
    """{MPI: program}, built with this machine's."""
    source = workspace / "ranks.c"
    source.write_text(test_hook_distributions.PROGRAM)
    return {kind: mpi.compile_program(kind, source, workspace / kind) for kind in ("mpich", "openmpi")}


def use_mpi_of_the_node(node, installation, library):
    """As the administrator's guide says."""
    installation.file("etc/hooks.d/05-mpi-hook.json").write_text(node.run(f"{installation.prefix}/bin/mpi_hook --suggest {library}", user=USER).stdout)


# The image has the MPI of this machine, MPICH 4.0 and Open MPI 4.1.
@pytest.mark.parametrize("kind, library", [("mpich", "libmpich.so.12"), ("openmpi", "libmpi.so.40")], ids=["mpich", "openmpi"])
def test_mpi_of_the_node_takes_the_place_of_the_images(node, with_glibc, images, programs, kind, library):
    image = with_glibc.load(images.archive(mpi.image_with(images, kind, programs[kind]), f"matrix-{kind}"), "image")
    use_mpi_of_the_node(node, with_glibc, f"{LIBRARIES}/{library}")
    own, hosts = (with_glibc.sarus(f"run {options} {image} /app", OMPI_MCA_ess_singleton_isolated="1").stdout for options in ("", "--mpi"))
    assert own.endswith("rank 0 of 1, sum 1\n") and hosts.endswith("rank 0 of 1, sum 1\n")
    package = {"mpich": "libmpich12", "openmpi": "openmpi-bin"}[kind]
    version = node.run(f"dpkg-query --show --showformat '${{Version}}' {package}").stdout.replace("~", "")
    assert hosts.split(",")[0].split()[-1].strip("v") in version  # "MPICH Version: 4.0.2", "Open MPI v4.1.4"


def test_a_container_accepts_ssh(installed, images, plain_busybox):
    """The daemon and the client are the archive's."""
    image = installed.load(images.archive(plain_busybox, "busybox"), "image")
    installed.sarus("ssh-keygen")
    assert installed.sarus(f"run --ssh {image} ssh 127.0.0.1 id -u").stdout == f"{USER}\n"


@pytest.fixture(scope="module")
def slurm(node, installed):
    """The release's Slurm, with the plugin that the archive builds."""
    etc = node.root / "etc/slurm"
    etc.mkdir(exist_ok=True)
    (etc / "slurm.conf").write_text(CONFIGURATION.format(directory="/tmp/slurm", host=os.uname().nodename, controller_port=system.free_port(),
                                                         node_port=system.free_port()))
    if float(node.run("slurmd -V").stdout.split()[1][:5]) > 23:
        (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    (etc / "plugstack.conf").write_text(f"include {installed.prefix}/etc/plugstack.conf\n")
    node.run(f"{installed.prefix}/share/sarus/slurm/build && {installed.prefix}/configure_installation.sh")
    node.run("mkdir -p /run/munge /tmp/slurm/state /tmp/slurm/spool /tmp/slurm/tmp; chown munge: /run/munge; "
             "setpriv --reuid munge --regid munge --clear-groups munged --force; "
             "for daemon in slurmctld slurmd; do $daemon -D >/tmp/slurm/$daemon.output 2>&1 </dev/null & done")
    assert system.eventually(lambda: node.run("sinfo --noheader --format=%T", check=False).stdout == "idle\n", interval=0.2), node.run("cat /tmp/slurm/*.log").stdout


def test_ranks_of_a_job_step(node, slurm, with_glibc, images, programs):
    image = with_glibc.load(images.archive(mpi.image_with(images, "mpich", programs["mpich"]), "matrix-mpich"), "image")
    use_mpi_of_the_node(node, with_glibc, f"{LIBRARIES}/libmpich.so.12")
    for command in (f"srun --mpi=pmi2 -n2 --container-image={image} --container-mpi /app", f"srun --mpi=pmi2 -n2 {with_glibc.prefix}/bin/sarus run --mpi {image} /app"):
        lines = sorted(node.run(command, user=USER, HOME=HOME).stdout.splitlines())
        assert [line.partition("rank ")[2] for line in lines] == ["0 of 2, sum 3", "1 of 2, sum 3"]


LIMITS = "--network=host --ulimit=nofile=1024:1024 --ulimit=nproc=4096:4096"
RUN = f"run --rm --log-driver=none {LIMITS}"


@pytest.fixture(scope="module")
def podman_hpc(node, installed):
    def call(words, **keywords):
        return node.run(f"{installed.prefix}/bin/podman-hpc {words}", user=USER, HOME=HOME, **keywords)

    node.run(f"{installed.prefix}/bin/podman-hpc configure-hooks")
    return call


def test_podman_hpc(podman_hpc, node, images, plain_busybox):
    shutil.copy(images.archive(plain_busybox, "busybox"), node.root / "opt/busybox.tar")
    podman_hpc("load -i /opt/busybox.tar")
    assert "busybox" in podman_hpc("images").stdout
    podman_hpc("migrate localhost/busybox")
    assert [line.split()[-1] for line in podman_hpc("images").stdout.splitlines() if "busybox" in line][-1] == "true"
    assert podman_hpc(f"{RUN} localhost/busybox id -u").stdout == "0\n"


def test_podman_hpc_builds_images(suite, podman_hpc, node):
    if suite == "bullseye":
        pytest.xfail("Podman 3 has no `build --env`")
    (node.root / "opt/Containerfile").write_text("FROM localhost/busybox\nRUN echo built >/built\n")
    podman_hpc(f"build {LIMITS} -t own -f /opt/Containerfile")
    assert podman_hpc(f"{RUN} localhost/own cat /built").stdout == "built\n"
