"""mpi_hook and glibc_hook between real distributions.

The host is the machine of the test with Debian's MPICH. The images are Debian 11 (an older glibc, an older MPICH), Debian 13 (a newer
glibc, an MPICH of a newer minor version), musl, a root filesystem without tools, and Debian for arm64, which nothing here can execute.
"""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import pytest
from helpers import hook_bundle, installation, system
from helpers.debian import Releases
from helpers.compiler import compile_library
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH, Bundle
from helpers.images import PATH_VARIABLE, Image

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

LIBRARIES = pathlib.Path(f"/usr{MULTIARCH}")
GLIBC_PARTS = ("libc.so.6", "libm.so.6", "libmvec.so.1", "libpthread.so.0", "librt.so.1", "libdl.so.2", "libresolv.so.2", "libutil.so.1",
               "libanl.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libnss_compat.so.2", "libnss_hesiod.so.2", "libthread_db.so.1",
               "libBrokenLocale.so.1")

# Needs only symbol versions that every glibc of this century has, so it is the image's libraries that decide where it runs.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void work(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, rank, size, sum = 0;
    MPI_Init(NULL, NULL);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%s, rank %d of %d, sum %d\n", version, rank, size, sum);
    MPI_Finalize();
}
#ifdef OWN_START
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
void _start(void) {
    work();
    exit(0);
}
#else
int main(void) {
    work();
    return 0;
}
#endif
"""

# What such a program calls, in an MPI of the test that knows a single rank.
SINGLE_RANK_MPI = """
int MPI_Init(void* a, void* b) { (void)a; (void)b; return 0; }
int MPI_Get_library_version(char* text, int* length) {
    const char* own = "MPI of the image";
    for (*length = 0; own[*length]; ++*length) text[*length] = own[*length];
    return 0;
}
int MPI_Comm_rank(int comm, int* rank) { (void)comm; *rank = 0; return 0; }
int MPI_Comm_size(int comm, int* size) { (void)comm; *size = 1; return 0; }
int MPI_Allreduce(const void* from, void* to, int n, int type, int op, int comm) {
    (void)n; (void)type; (void)op; (void)comm; *(int*)to = *(const int*)from; return 0;
}
int MPI_Finalize(void) { return 0; }
"""

# Communication libraries look at the node's devices and for shared memory.
MOUNTS = [{"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
          {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777"]}]

HOST = "rank 0 of 1, sum 1"  # follows the version that the host's MPICH names


def host_libraries(library):
    """What the host's dynamic linker loads for a library, except for the parts of glibc."""
    listing = subprocess.run(["ldd", str(library)], check=True, capture_output=True, text=True).stdout
    paths = re.findall(r"=> (/\S+)", listing)
    return [path for path in paths if os.path.basename(path) not in GLIBC_PARTS]


@pytest.fixture(scope="module")
def host():
    """The configuration of the hooks for this machine: {"MPI_LIBS": ..., ...}, and the version of its MPICH."""
    library = (LIBRARIES / "libmpich.so.12").resolve()
    glibc = [str(LIBC.parent / name) for name in GLIBC_PARTS if (LIBC.parent / name).exists()] + [str(LINKER)]
    return {"MPI_LIBS": str(library), "MPI_DEPENDENCY_LIBS": ":".join(host_libraries(library)), "GLIBC_LIBS": ":".join(glibc)}


def mpi_settings(host, **more):
    return {"MPI_LIBS": host["MPI_LIBS"], "MPI_DEPENDENCY_LIBS": host["MPI_DEPENDENCY_LIBS"], **more}


def glibc_settings(host):
    return {"GLIBC_LIBS": host["GLIBC_LIBS"]}


@pytest.fixture(scope="module")
def host_version():
    output = subprocess.run(["mpichversion"], check=True, capture_output=True, text=True).stdout
    return "MPICH Version:\t" + re.search(r"MPICH Version:\s*(\S+)", output)[1]


def compile_mpi_program(path, library, command=("gcc", "-DOWN_START", "-nostartfiles")):
    include = f"/usr/include/{platform.machine()}-linux-gnu/mpich"
    subprocess.run([*command, "-O1", "-o", str(path), "-x", "c", "-", "-x", "none", f"-I{include}", str(library), "-Wl,--allow-shlib-undefined"],
                   input=PROGRAM, text=True, check=True)


@pytest.fixture(scope="module")
def releases(workspace):
    """{name: root filesystem}; debootstrap runs for all at once."""
    made = Releases(workspace)
    started = {"old": made.debootstrap("bullseye", include=["libmpich12"]), "new": made.debootstrap("trixie")}
    roots = {name: made.finish(*what) for name, what in started.items()}
    compile_mpi_program(roots["old"] / "usr/bin/mpi-program", LIBRARIES / "libmpich.so.12")
    newer = compile_library(roots["new"] / f"usr{MULTIARCH}/libmpi.so.12.9.0", SINGLE_RANK_MPI, "libmpi.so.12")
    newer.with_name("libmpi.so.12").symlink_to(newer.name)
    compile_mpi_program(roots["new"] / "usr/bin/mpi-program", newer)
    for root in roots.values():
        subprocess.run(["chroot", str(root), "/sbin/ldconfig"], check=True)  # as its packages' installation scripts do
    return roots


@pytest.fixture(params=["crun", "runc"])
def container(request, tmp_path, releases):
    """container(name) -> Bundle over a throw-away view of a release."""
    tmp_path.chmod(0o755)
    mounted = []

    def make(name):
        made = Bundle(tmp_path, request.param)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True)
        mounted.append(tmp_path)
        for directory in ("rootfs", "upper", "work"):
            (tmp_path / directory).mkdir()
        options = f"lowerdir={releases[name]},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(made.root)], check=True)
        mounted.append(made.root)
        return made

    yield make
    for point in reversed(mounted):
        subprocess.run(["umount", str(point)], check=True)


def run(bundle, hooks, arguments=("/usr/bin/mpi-program",)):
    return bundle.run(arguments, [("createContainer", program, settings) for program, settings in hooks], mounts=MOUNTS)


def said(bundle, result):
    return result.stderr + bundle.log.read_text()


@pytest.fixture(scope="module")
def mpi_hook(build_dir):
    return build_dir / "mpi_hook"


@pytest.fixture(scope="module")
def glibc_hook(build_dir):
    return build_dir / "glibc_hook"


# Debian 13: newer glibc, newer minor version of MPI


def test_new_image_runs_with_its_own_mpi_without_the_hook(container):
    result = run(container("new"), [])
    assert result.stdout == f"MPI of the image, {HOST}\n", result.stderr


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_new_image_gets_the_hosts_mpich(container, mpi_hook, host, host_version, stage):
    bundle = container("new")
    result = bundle.run(["/usr/bin/mpi-program"], [(stage, mpi_hook, mpi_settings(host))], mounts=MOUNTS)
    assert result.stdout == f"{host_version}, {HOST}\n", said(bundle, result)


def test_newer_minor_version_of_the_image_is_warned_about(container, mpi_hook, host):
    bundle = container("new")
    result = run(bundle, [(mpi_hook, mpi_settings(host))])
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert re.search(r"Partial ABI compatibility detected: host's MPI library \S+ is older than container's MPI library \S+libmpi.so.12.9.0",
                         said(bundle, result))


def test_newer_minor_version_of_the_image_is_refused_if_the_site_is_strict(container, mpi_hook, host):
    bundle = container("new")
    result = run(bundle, [(mpi_hook, mpi_settings(host, MPI_COMPATIBILITY_TYPE="strict"))])
    assert result.returncode != 0 and "not strictly ABI compatible with container's MPI library" in said(bundle, result)


def test_new_image_keeps_its_newer_glibc(container, glibc_hook, host):
    bundle = container("new")
    script = "grep -c /libc.so /proc/self/mountinfo; /sbin/ldconfig -V | head -1"
    result = run(bundle, [(glibc_hook, glibc_settings(host))], ["/bin/bash", "-c", script])
    assert result.stdout.startswith("0\n") and "2.41" in result.stdout, said(bundle, result)


# Debian 11: older glibc, older MPICH


def test_old_image_runs_with_its_own_mpich_without_the_hooks(container):
    result = run(container("old"), [])
    assert result.stdout == f"MPICH Version:\t3.4.1, {HOST}\n", result.stderr


def test_old_image_is_refused_before_the_start_and_the_message_says_what_lacks(container, mpi_hook, host):
    bundle = container("old")
    result = run(bundle, [(mpi_hook, mpi_settings(host))])
    assert result.returncode != 0 and result.stdout == ""
    message = said(bundle, result)
    assert re.search(r"GLIBC_2.3\d.* of libc.so.6 \(which goes up to GLIBC_2\.3[01]\), needed by .*libmpich.so.12.2.2", message), message
    assert "--glibc" in message


def test_old_image_gets_the_hosts_glibc(container, glibc_hook, host):
    bundle = container("old")
    script = f"set -e; {LINKER} --version | head -1; perl -e 'use POSIX; print POSIX::floor(2.5), qq(\\n)'; id -un; sort /etc/debian_version"
    result = run(bundle, [(glibc_hook, glibc_settings(host))], ["/bin/bash", "-c", script])
    lines = result.stdout.splitlines()
    assert lines[1:] == ["2", "root", "11.11"], said(bundle, result)
    assert "2.36" in lines[0]
    if bundle.runtime == "crun":
        assert "Detected glibc 2.31 (< 2.36) in the container. Replacing it" in bundle.log.read_text()
        assert "lacks parts of glibc" not in bundle.log.read_text()


def test_old_image_gets_the_hosts_mpich_with_the_hosts_glibc(container, glibc_hook, mpi_hook, host, host_version):
    bundle = container("old")
    result = run(bundle, [(glibc_hook, glibc_settings(host)), (mpi_hook, mpi_settings(host))])
    assert result.stdout == f"{host_version}, {HOST}\n", said(bundle, result)


def test_images_are_not_changed(container, releases, glibc_hook, mpi_hook, host):
    library = releases["old"] / f"usr{MULTIARCH}/libc-2.31.so"
    before = library.stat(), sorted(os.listdir(library.parent))
    run(container("old"), [(glibc_hook, glibc_settings(host)), (mpi_hook, mpi_settings(host))])
    assert (library.stat().st_mtime_ns, library.stat().st_size) == (before[0].st_mtime_ns, before[0].st_size)
    assert sorted(os.listdir(library.parent)) == before[1]


# Images without glibc's tools, or without glibc


@pytest.fixture(params=["crun", "runc"])
def bare(request, tmp_path):
    tmp_path.chmod(0o755)
    return Bundle(tmp_path, request.param)


def test_image_without_any_tool_gets_the_hosts_mpich(bare, mpi_hook, glibc_hook, host, host_version):
    """What is called distroless: libraries and the program, no shell, no ldconfig, no linker cache."""
    root = hook_bundle.make_root(bare.root)
    shutil.copy((LIBRARIES / "libm.so.6").resolve(), root / f"usr{MULTIARCH}/libm.so.6")
    own = compile_library(root / "usr/lib/libmpi.so.12.1.0", SINGLE_RANK_MPI, "libmpi.so.12")
    own.with_name("libmpi.so.12").symlink_to(own.name)
    compile_mpi_program(root / "usr/bin/mpi-program", own)
    assert run(bare, []).stdout == f"MPI of the image, {HOST}\n"
    result = run(bare, [(glibc_hook, glibc_settings(host)), (mpi_hook, mpi_settings(host))])
    assert result.stdout == f"{host_version}, {HOST}\n", said(bare, result)


@pytest.fixture
def musl(bare):
    """musl's dynamic linker, an MPI and a program for it; nothing else."""
    root = bare.root
    linker = pathlib.Path(f"/lib/ld-musl-{platform.machine()}.so.1")
    for name in ("lib", "usr/lib", "usr/bin", "etc", "proc", "dev", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(linker.resolve(), root / str(linker)[1:])
    own = compile_library(root / "usr/lib/libmpi.so.12.1.0", SINGLE_RANK_MPI, "libmpi.so.12")
    own.with_name("libmpi.so.12").symlink_to(own.name)
    compile_mpi_program(root / "usr/bin/mpi-program", own, ["musl-gcc"])
    return bare


def test_musl_image_gets_an_mpi_that_needs_no_glibc(musl, mpi_hook, tmp_path):
    assert run(musl, []).stdout == f"MPI of the image, {HOST}\n"
    dependency = compile_library(tmp_path / "host/libfabricdep.so.1.0", "int dep(void) { return 0; }\n", "libfabricdep.so.1")
    library = compile_library(tmp_path / "host/libmpi.so.12.2.0", SINGLE_RANK_MPI.replace("MPI of the image", "MPI of the host, for all").replace(
        "int MPI_Finalize(void) {", "int dep(void);\nint MPI_Finalize(void) { dep();"), "libmpi.so.12", links=[dependency])
    result = run(musl, [(mpi_hook, {"MPI_LIBS": library, "MPI_DEPENDENCY_LIBS": dependency})])
    assert result.stdout == f"MPI of the host, for all, {HOST}\n", said(musl, result)


def test_musl_image_does_not_start_with_an_mpi_that_needs_glibc(musl, mpi_hook, host):
    result = run(musl, [(mpi_hook, mpi_settings(host))])
    assert result.returncode != 0 and result.stdout == ""
    assert re.search(r"lacks .*GLIBC_2\.\d+.* of libc.so.6 \(there is no such library\)", said(musl, result)), said(musl, result)


def test_musl_image_is_left_alone_by_the_glibc_hook(musl, glibc_hook, host):
    before = sorted(str(path) for path in musl.root.rglob("*"))
    result = run(musl, [(glibc_hook, glibc_settings(host))])
    assert result.stdout == f"MPI of the image, {HOST}\n", said(musl, result)
    assert sorted(str(path) for path in musl.root.rglob("*")) == before


# arm64, unpacked and never executed


@pytest.fixture(scope="module")
def foreign(workspace):
    """{name: root filesystem} of arm64 (of amd64 on arm64): Debian 11 and 12 with their MPICH."""
    releases = Releases(workspace)
    architecture, multiarch = ("amd64", "x86_64-linux-gnu") if platform.machine() == "aarch64" else ("arm64", "aarch64-linux-gnu")
    roots = {}
    for name, suite in (("old", "bullseye"), ("host", "bookworm")):
        roots[name] = workspace / f"foreign-{name}"
        for link in ("lib", "lib64") if architecture == "amd64" else ("lib",):
            (roots[name] / "usr" / link).mkdir(parents=True)
            (roots[name] / link).symlink_to(f"usr/{link}")
        (roots[name] / "etc").mkdir()
        releases.packages(suite, architecture, ["libc6", "libmpich12"], roots[name])
    return {**roots, "libraries": f"usr/lib/{multiarch}"}


def explain(hook, root, settings):
    return subprocess.run([str(hook), "--explain", "--json", "--root", str(root)], env={name: str(value) for name, value in settings.items()},
                          capture_output=True, text=True)


def test_image_of_another_architecture_is_named(foreign, mpi_hook, host):
    result = explain(mpi_hook, foreign["old"], mpi_settings(host))
    machine = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    assert result.returncode == 1
    assert f"No MPI libraries found in the container for this machine: the image is for {machine}" in result.stderr


def test_mpich_of_arm64_is_planned_into_images_of_arm64(foreign, mpi_hook):
    library = foreign["host"] / foreign["libraries"] / "libmpich.so.12.2.2"
    old = explain(mpi_hook, foreign["old"], {"MPI_LIBS": library})
    assert old.returncode == 1 and re.search(r"GLIBC_2.3\d.* of libc.so.6 \(which goes up to GLIBC_2.3[01]\)", old.stderr), old.stderr
    plan = json.loads(old.stdout)
    assert plan["injections"][0]["container"] == [f"/{foreign['libraries'][4:]}/libmpich.so.12.1.10"]
    with_warning = explain(mpi_hook, foreign["old"], {"MPI_LIBS": library, "MPI_VERSION_CHECK": "warn"})
    assert with_warning.returncode == 0, with_warning.stderr


def test_glibc_of_arm64_is_replaced_in_images_of_arm64(foreign, glibc_hook, tmp_path):
    """The hook alone, in a mount namespace: it runs nothing of the image, so it works where the image cannot run."""
    libraries = foreign["libraries"]
    linker = "lib64/ld-linux-x86-64.so.2" if platform.machine() == "aarch64" else "lib/ld-linux-aarch64.so.1"
    parts = [f"{libraries}/libc.so.6", f"{libraries}/libm.so.6", linker]
    settings = {"GLIBC_LIBS": ":".join(f"{foreign['host']}/{path}" for path in parts)}
    (tmp_path / "config.json").write_text(json.dumps({"root": {"path": str(foreign["old"])}, "process": {"env": []}}))
    state = json.dumps({"ociVersion": "1.0.0", "id": "foreign", "pid": 0, "bundle": str(tmp_path)})
    script = f'"$0" && sha256sum "{foreign["old"]}/{libraries}/libc.so.6" "{foreign["host"]}/{libraries}/libc.so.6"'
    result = subprocess.run(["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, str(glibc_hook)],
                            env={**settings, "PATH": system.PATH}, input=state, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "Detected glibc 2.31 (< 2.36) in the container. Replacing it" in result.stderr
    first, second = (line.split()[0] for line in result.stdout.splitlines())
    assert first == second


# Podman, as root and as a user


def write_hooks(directory, build_dir, host, rootless):
    """Hook files as an administrator writes them, for both hooks; glibc before MPI."""
    directory.mkdir(exist_ok=True)
    for number, (name, settings) in enumerate((("glibc", glibc_settings(host)), ("mpi", mpi_settings(host, HOOK_ROOTLESS=str(rootless).lower())))):
        (directory / f"0{number}-{name}.json").write_text(json.dumps({
            "version": "1.0.0",
            "hook": {"path": f"{build_dir}/{name}_hook", "args": [f"{name}_hook"],
                     "env": [f"{key}={value}" for key, value in settings.items()]},
            "when": {"annotations": {f"^com.hooks.{name}.enabled$": "^true$"}},
            "stages": ["createContainer"]}))


@pytest.fixture(params=["root", "rootless"])
def podman(request, workspace, releases, installed, host, user):
    """podman(release, *hooks) -> completed process of the MPI program."""
    rootless = request.param == "rootless"
    directory = workspace / f"podman-{request.param}"
    directory.mkdir(exist_ok=True)
    write_hooks(directory / "hooks", installed / "bin", host, rootless)
    options = ["--fuse", "--hide-unified", "--shared-root"]
    environment = {"PATH": system.PATH, "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)}
    state = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))  # Podman takes no --runroot of more than 50 characters
    if rootless:
        options += ["--user", user.name]
        user.own(directory)
        user.own(state)

    def run_podman(release, *hooks):
        root = releases[release]
        if rootless:  # in a user namespace, only files of its own users can be changed
            copy = directory / release
            if not copy.exists():
                subprocess.run(["cp", "-a", "--reflink=auto", str(root), str(copy)], check=True)
                subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(copy)], check=True)
            root = copy
        command = [str(installation.SANDBOX), *options, "--", "podman", "--root", f"{directory}/storage", "--runroot", f"{state}/run",
                   "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--hooks-dir", f"{directory}/hooks", "--runtime", "crun",
                   "run", "--rm", "--network", "none", "--cgroups", "disabled", "--ulimit", "nofile=1024:1024",
                   "--ulimit", "nproc=1024:1024", *(f"--annotation=com.hooks.{hook}.enabled=true" for hook in hooks),
                   "--rootfs", f"{root}:O", "/usr/bin/mpi-program"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, cwd=str(directory),
                              stdin=subprocess.DEVNULL)

    yield run_podman
    if rootless:
        system.kill_processes_of(user.uid)  # the process that keeps Podman's user namespace
    shutil.rmtree(state, ignore_errors=True)


def test_podman_runs_both_hooks(podman, host_version):
    own = podman("old")
    assert own.stdout == f"MPICH Version:\t3.4.1, {HOST}\n", own.stderr
    result = podman("old", "glibc", "mpi")
    assert result.stdout == f"{host_version}, {HOST}\n", result.stderr
    assert podman("new", "mpi").stdout == f"{host_version}, {HOST}\n"


def test_podman_does_not_start_what_would_not_work(podman):
    result = podman("old", "mpi")
    assert result.returncode != 0 and result.stdout == ""


# The engine


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def hooked(request, engines, installed, host, load_image, releases):
    """(engine, image of the old release, image of the new release) with both hooks configured as the templates have them."""
    engine = engines(*request.param.split("-"))
    hooks = engine.prefix / "etc/hooks.d"
    before = set(hooks.iterdir())
    write_hooks(hooks, engine.prefix / "bin", host, engine.rootless)
    installation.set_configuration(engine.prefix, hooksDir=str(hooks))
    references = [load_image(engine, f"mpi-{name}", image_of(releases[name])) for name in ("old", "new")]
    yield engine, *references
    for file in set(hooks.iterdir()) - before:
        file.unlink()


def image_of(root):
    archive = subprocess.run(["tar", "--numeric-owner", "--owner=0", "--group=0", "--sort=name", "-C", str(root), "-c", "."], check=True,
                             capture_output=True).stdout
    return Image([archive], {"Cmd": ["/usr/bin/mpi-program"], "Env": [PATH_VARIABLE]}, compress=False)


def test_engine_replaces_mpi_and_glibc(hooked, host_version):
    engine, old, new = hooked
    assert engine.output(old) == f"MPICH Version:\t3.4.1, {HOST}"
    assert engine.output(old, options=["--mpi"]) == f"{host_version}, {HOST}"
    result = engine.run(new, options=["--mpi"])
    assert result.stdout == f"{host_version}, {HOST}\n"
    assert "Partial ABI compatibility" in result.stderr


def test_engine_replaces_glibc_alone(hooked):
    engine, old, _ = hooked
    result = engine.run(old, "/bin/bash", "-c", f"{LINKER} --version | head -1", options=["--glibc"])
    assert "2.36" in result.stdout and "Detected glibc 2.31 (< 2.36)" in result.stderr


def test_ranks_of_a_job_find_each_other_through_the_hosts_mpich(hooked, host_version):
    """The process manager of the host starts containers, and their ranks communicate."""
    engine, old, new = hooked
    for image in (old, new):
        # Hooks inside and rootless runc: no rank can open another's files in /proc, which UCX prefers for shared memory.
        options = ["--env", "UCX_POSIX_USE_PROC_LINK=n"] if engine.rootless and engine.runtime == "runc" else []
        command, identity = engine.launched_by(["mpiexec.mpich", "-n", 2], "run", "--mpi", *options, image)
        result = subprocess.run(command, env=engine.user.environment(), cwd=engine.user.home, capture_output=True, text=True, timeout=120,
                                stdin=subprocess.DEVNULL, **identity)
        assert sorted(result.stdout.splitlines()) == [f"{host_version}, rank {rank} of 2, sum 3" for rank in (0, 1)], result.stderr
