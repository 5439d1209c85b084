"""`--check` and `--explain` of the hooks, and what `sarus hooks --check` makes of them."""

import json
import os
import re
import shutil
import socket
import subprocess

import pytest
from helpers import hook_bundle
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)

HOOKS = ["amdgpu", "decorator", "glibc", "ldcache", "mkhomedir", "mount", "mpi", "pc_injection", "pce", "pmix", "sethomevar", "stdout_stderr_test", "timestamp"]


def call(program, *arguments, **environment):
    return subprocess.run([str(program), *map(str, arguments)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=False)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_explains_its_options(build_dir, name):
    result = call(build_dir / f"{name}_hook", "--help")
    assert result.returncode == 0 and "--check" in result.stdout and "--explain" in result.stdout


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_checks_its_configuration(build_dir, tmp_path, name):
    edits = tmp_path / "edits.json"
    edits.write_text('{"containerEdits": []}')
    arguments = {"mount": ["--mount=type=bind,src=/etc,dst=/opt/etc"], "decorator": [f"--config-dir={tmp_path}"],
                 "pc_injection": [f"--dependency-lib={hook_bundle.LIBC}"]}.get(name, [])
    edits.rename(tmp_path / "edits")
    library = hook_bundle.LIBC
    environment = {"mpi": {"MPI_LIBS": str(library)}, "glibc": {"GLIBC_LIBS": str(library)}, "pce": {"PCE_INPUT": str(tmp_path / "edits")},
                   "pmix": {"SLURM_SPOOL_DIR": str(tmp_path), "SLURM_TMPFS": "/tmp"}}.get(name, {})
    result = call(build_dir / f"{name}_hook", *arguments, "--check", **environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "no problem found\n", "")


@pytest.mark.parametrize("name, arguments, environment, finding", [
    ("mpi", [], {"MPI_LIBS": ""}, "MPI_LIBS names no library"),
    ("mpi", [], {"MPI_LIBS": "/no/such/libmpi.so.12"}, "/no/such/libmpi.so.12: No such file"),
    ("mpi", [], {"MPI_LIBS": str(hook_bundle.LIBC), "MPI_COMPATIBILITY_TYPE": "STRICT"}, "MPI_COMPATIBILITY_TYPE is 'STRICT'"),
    ("mpi", [], {"MPI_LIBS": str(hook_bundle.LIBC), "MPI_VERSION_CHECK": "no"}, "MPI_VERSION_CHECK is 'no'"),
    ("mpi", [], {"MPI_LIBS": str(hook_bundle.LIBC), "MPI_DEPENDENCY_LIB": "/x"}, "does not know the variable MPI_DEPENDENCY_LIB "),
    ("glibc", [], {"GLIBC_LIBS": "/no/such/libc.so.6"}, "/no/such/libc.so.6: No such file"),
    ("glibc", [], {"GLIBC_LIBS": str(hook_bundle.LINKER)}, "lists no C library"),
    ("mount", [], {}, "there is no --mount and no --device"),
    ("mount", ["--mount"], {}, "The option --mount needs a value"),
    ("mount", ["--mount=type=bind,src=/no/such,dst=/x"], {}, "--mount: /no/such: No such file"),
    ("mount", ["--device=/dev/no-such"], {}, "--device: /dev/no-such: No such file"),
    ("pce", [], {}, "PCE_INPUT is not set"),
    ("pce", [], {"PCE_INPUT": "/no/such"}, "PCE_INPUT: Failed to open /no"),
    ("pc_injection", [], {}, "There is no --lib and no --dependency-lib"),
    ("pmix", [], {"SLURM_SPOOL_DIR": "/no/such", "SLURM_TMPFS": "/tmp"}, "SlurmdSpoolDir: /no/such: No such file"),
    ("sethomevar", [], {"PASSWD_FILE": "/no/such"}, "PASSWD_FILE: /no/such: No such file"),
    ("ldcache", ["--rebuild"], {}, "ldcache_hook ignores --rebuild"),
    ("timestamp", [], {"TIMESTAMP_HOOK_LOGFILE": "/x"}, "counts in the container's environment"),
    ("ldcache", [], {"HOOK_LOG": "journal"}, "HOOK_LOG is 'journal'"),
    ("ldcache", [], {"HOOK_LOG": "/no/such/log"}, "HOOK_LOG: the file /no/such/log")])
def test_mistake_in_the_configuration_is_found(build_dir, name, arguments, environment, finding):
    result = call(build_dir / f"{name}_hook", *arguments, "--check", **environment)
    assert result.returncode == 1 and finding in result.stdout, result.stdout + result.stderr


def test_check_names_broken_inventories_and_absent_files(build_dir, tmp_path):
    (tmp_path / "broken.cfg").write_text('{"activation_flag": "A"')
    (tmp_path / "fine.cfg").write_text(json.dumps({"activation_flag": "B", "driver_feature": ["f"],
                                                   "inventory": {"f": {"devices": ["no-such"], "libraries": ["/no/such.so"]}}}))
    result = call(build_dir / "decorator_hook", f"--config-dir={tmp_path}", "--check")
    assert result.returncode == 1
    assert "broken.cfg: not valid JSON" in result.stdout
    assert "fine.cfg: /dev/no-such: No such file" in result.stdout and "fine.cfg: /no/such.so: No such file" in result.stdout


def test_explain_shows_what_would_be_done_and_changes_nothing(build_dir, tmp_path):
    root = hook_bundle.make_root(tmp_path / "root")
    before = sorted(root.rglob("*"))
    mount = ["--mount=type=bind,src=/etc/passwd,dst=<FI_PROVIDER_PATH>/x,readonly", "--device=/dev/null:/dev/mine:r"]
    inventories = tmp_path / "inventories"
    inventories.mkdir()
    (inventories / "v.cfg").write_text(json.dumps({"activation_flag": "OCI_V", "driver_feature": ["f"], "inventory": {"f": {"binaries": ["/usr/bin/env"]}}}))
    (tmp_path / "edits").write_text(json.dumps({"containerEdits": [{"env": ["A=1"], "mounts": [
        {"hostPath": "/etc", "containerPath": "/opt/etc", "options": ["rbind", "ro"]}]}]}))
    for name, arguments, environment, expected in [
            ("mount", [*mount, "--env=FI_PROVIDER_PATH=/opt/fi"], {}, "mount /etc/passwd on /opt/fi/x (read-only)\ndevice /dev/null on /dev/mine (r)\n"),
            ("decorator", [f"--config-dir={inventories}", "--env=OCI_V=1"], {}, f"inventory {inventories}/v.cfg (OCI_V)\nmount /usr/bin/env\n"),
            ("decorator", [f"--config-dir={inventories}"], {}, "nothing: the container asks for no inventory\n"),
            ("ldcache", [], {}, "write the linker cache /etc/ld.so.cache\n"),
            ("pce", [], {"PCE_INPUT": str(tmp_path / "edits")}, "mount /etc on /opt/etc (rbind,ro)\nvariable A=1\n"),
            ("mkhomedir", ["--env=HOME=/new/home"], {}, "make /new/home from /etc/skel\n"),
            ("pmix", ["--env=SLURM_JOB_ID=7"], {"SLURM_SPOOL_DIR": "/no/such", "SLURM_TMPFS": "/tmp"}, "nothing: "),
            ("pc_injection", [f"--dependency-lib={hook_bundle.LIBC}"], {}, f"mount {hook_bundle.LIBC} on /run/pc-injection/libc.so.6 (ro,rbind,nosuid,nodev)\n"),
            ("timestamp", ["--env=TIMESTAMP_HOOK_LOGFILE=/tmp/log"], {"TIMESTAMP_HOOK_MESSAGE": "now"},
             "append a line to /tmp/log, as the container's user: now\n"),
            ("glibc", [], {"GLIBC_LIBS": str(hook_bundle.LIBC)}, "nothing: ")]:
        result = call(build_dir / f"{name}_hook", *arguments, "--explain", f"--root={root}", **environment)
        assert result.returncode == 0 and result.stdout.startswith(expected), (name, result.stdout, result.stderr)
    assert sorted(root.rglob("*")) == before


def test_explain_fails_where_the_hook_would(build_dir, tmp_path):
    result = call(build_dir / "mount_hook", "--mount=type=bind,src=/no/such,dst=/x", "--explain", f"--root={tmp_path}")
    assert result.returncode == 1 and result.stderr == "mount_hook: --mount: /no/such: No such file or directory\n"


def test_option_in_the_place_of_the_programs_name_is_refused(build_dir):
    """"args" without args[0]: the first --mount would be lost."""
    program = build_dir / "mount_hook"
    result = subprocess.run(["--mount=type=bind,src=/etc,dst=/x", "--device=/dev/null"], executable=str(program), env={}, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "args[0] in the hook's JSON file is --mount=" in result.stderr


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun", "rootless-crun"], indirect=True)
def test_hooks_check_runs_the_checks_of_the_hooks(hooks):  # noqa: F811
    programs = hooks.engine.prefix / "bin"
    hooks.add("10-mpi", programs / "mpi_hook", ["createContainer"], env=["MPI_LIBS=", "MPI_COMPATIBILITY_TYPE=STRICT"])
    hooks.add("20-mount", programs / "mount_hook", ["createContainer"], args=["--mount=type=bind,src=/etc,dst=/x", "--device=/dev/null"])
    hooks.add("30-pce", programs / "pce_hook", ["createContainer"], env=["PCE_INPUT=/no/such"])
    hooks.add("40-fine", programs / "ldcache_hook", ["createContainer"], args=["ldcache_hook"])
    hooks.add("50-foreign", hooks.program("ldcache_hook", f"#!/bin/sh\ntouch {hooks.directory}/ran\n"), ["poststop"])
    result = hooks.engine.sarus("hooks", "--check")
    assert result.returncode == 1
    assert "10-mpi.json: MPI_LIBS names no library" in result.stdout
    assert "10-mpi.json: MPI_COMPATIBILITY_TYPE is 'STRICT'" in result.stdout
    assert "20-mount.json: hook.args[0] is '--mount=" in result.stdout
    assert "30-pce.json: pce_hook does not support the stage createContainer (supported: precreate)" in result.stdout
    assert "30-pce.json: PCE_INPUT: Failed to open /no" in result.stdout
    assert "2 of 5 hook files" in result.stdout and "40-fine" not in result.stdout
    assert not os.path.exists(f"{hooks.directory}/ran"), "programs of others are not started"


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun"], indirect=True)
def test_hooks_check_wants_glibc_before_mpi(hooks):  # noqa: F811
    programs, library = hooks.engine.prefix / "bin", hook_bundle.LIBC
    hooks.add("10-mpi", programs / "mpi_hook", ["createContainer"], env=[f"MPI_LIBS={library}"])
    late = hooks.add("20-glibc", programs / "glibc_hook", ["createContainer"], env=[f"GLIBC_LIBS={library}"])
    result = hooks.engine.sarus("hooks", "--check")
    assert result.returncode == 1 and "20-glibc.json: the glibc hook runs after the MPI hook of" in result.stdout
    late.rename(late.with_name("05-glibc.json"))
    assert hooks.engine.sarus("hooks", "--check").returncode == 0


@pytest.mark.asroot
@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_warnings_reach_the_file_of_hook_log(build_dir, tmp_path, runtime):
    """Podman and crun hide what hooks print."""
    bundle, log = bundle_with_a_warning(tmp_path, runtime), tmp_path / "hooks.log"
    log.write_text("earlier\n")
    hook = ("createContainer", build_dir / "mount_hook", {"HOOK_LOG": str(log)}, "--mount=type=bind,src=/etc/passwd,dst=<FI_PROVIDER_PATH>/x")
    assert bundle.run(["/bin/probe"], [hook], environment=["FI_PROVIDER_PATH=relative"], annotations={"com.hooks.logging.level": "3"}).returncode == 0
    assert re.fullmatch(r"earlier\n\d{4}-\S+ WARN Mount hook \[\S+\]: The container's FI_PROVIDER_PATH names no directory: relative\n", log.read_text())
    bundle.run(["/bin/probe"], [("createContainer", build_dir / "mount_hook", {"HOOK_LOG": str(log)}, "--mount=x")])
    assert "ERROR Mount hook" in log.read_text() and "Invalid mount request 'x'" in log.read_text()


@pytest.mark.asroot
@pytest.mark.parametrize("make", [lambda log, file: log.symlink_to(file), lambda log, file: (log.write_text(""), log.chmod(0o666)),
                                  lambda log, file: os.mkfifo(log), lambda log, file: None], ids=["link", "writable", "fifo", "missing"])
def test_log_that_others_can_steer_is_not_written(build_dir, tmp_path, make):
    bundle, log = bundle_with_a_warning(tmp_path, "crun"), tmp_path / "hooks.log"
    (tmp_path / "file").write_text("untouched\n")
    make(log, tmp_path / "file")
    hook = ("createContainer", build_dir / "mount_hook", {"HOOK_LOG": str(log)}, "--mount=type=bind,src=/etc/passwd,dst=<FI_PROVIDER_PATH>/x")
    assert bundle.run(["/bin/probe"], [hook], environment=["FI_PROVIDER_PATH=relative"]).returncode == 0, "a log is no reason to refuse a container"
    assert "HOOK_LOG: the file" in bundle.log.read_text()
    assert (tmp_path / "file").read_text() == "untouched\n"
    assert not log.is_file() or log.read_text() in ("", "untouched\n")


@pytest.mark.asroot
def test_warnings_reach_syslog_where_the_engine_does_not_collect_them(build_dir, tmp_path):
    bundle = bundle_with_a_warning(tmp_path, "crun")
    hook = ("createContainer", build_dir / "mount_hook", {}, "--mount=type=bind,src=/etc/passwd,dst=<FI_PROVIDER_PATH>/x")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(tmp_path / "syslog"))
        syslog.settimeout(10)
        # A /dev of this node's own, where the socket has its usual name.
        node = (f"d=$(mktemp -d); mount -t tmpfs tmpfs $d; for n in null zero full random urandom tty; do cp -a /dev/$n $d; done; "
                f"ln -s /proc/self/fd $d/fd; mkdir $d/pts $d/shm; touch $d/log; mount --bind {tmp_path}/syslog $d/log; mount --move $d /dev; rmdir $d")
        result = bundle.run(["/bin/probe"], [hook], environment=["FI_PROVIDER_PATH=relative"], node=node)
        assert result.returncode == 0, result.stderr + bundle.log.read_text()
        received = syslog.recv(4096).decode()
    assert re.fullmatch(r"<28>\w{3} [ \d]\d \d\d:\d\d:\d\d sarus-hook\[\d+\]: Mount hook \[\S+\]: The container's FI_PROVIDER_PATH .*", received)


def bundle_with_a_warning(directory, runtime):
    directory.chmod(0o755)
    bundle = hook_bundle.Bundle(directory, runtime)
    hook_bundle.make_root(bundle.root)
    hook_bundle.install_probe(bundle.root)
    return bundle


SHOW_MPI = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
    char line[512];
    MPI_Init(&argc, &argv);
    for (FILE* maps = fopen("/proc/self/mountinfo", "r"); fgets(line, sizeof line, maps) != NULL;) {
        char point[512];
        if (sscanf(line, "%*s %*s %*s %*s %511s", point) == 1) { puts(point); }
    }
    MPI_Finalize();
    return 0;
}
"""
LIBRARIES = f"/usr{hook_bundle.MULTIARCH}"


@pytest.mark.asroot
@pytest.mark.parametrize("compiler, library, mounts", [("mpicc.mpich", "libmpich.so.12", []),
                                                       ("mpicc.openmpi", "libmpi.so.40", [f"{LIBRARIES}/openmpi", "/usr/share/openmpi"])])
def test_documented_mpi_example_works(build_dir, tmp_path, compiler, library, mounts):
    """docs/reference/hooks.md, "MPI on a Debian host"."""
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    bundle = bundle_with_a_warning(tmp_path, "crun")
    (tmp_path / "show.c").write_text(SHOW_MPI)
    subprocess.run([compiler, "-o", str(bundle.root / "usr/bin/show"), str(tmp_path / "show.c")], check=True)
    command = "ldd \"$1\" | awk '/=> \\// && $1 !~ /^lib(c|m|dl|rt|pthread)[.]so/ {print $3}' | paste -sd:"
    dependencies = subprocess.run(["sh", "-c", command, "sh", f"{LIBRARIES}/{library}"], capture_output=True, text=True, check=True).stdout.strip()
    needed = subprocess.run(["ldd", str(bundle.root / "usr/bin/show")], capture_output=True, text=True, check=True).stdout
    for path in re.findall(r"=> (/\S+)", needed):  # an image with the same MPI
        shutil.copy(path, bundle.root / f"usr{hook_bundle.MULTIARCH}")
    environment = {"MPI_LIBS": f"{LIBRARIES}/{library}", "MPI_DEPENDENCY_LIBS": dependencies, "BIND_MOUNTS": ":".join(mounts)}
    checked = call(build_dir / "mpi_hook", "--check", **environment)
    assert checked.returncode == 0, checked.stdout
    result = bundle.run(["/bin/show"], [("createContainer", build_dir / "mpi_hook", environment)], environment=["OMPI_MCA_ess_singleton_isolated=1"])
    points = result.stdout.split()
    assert result.returncode == 0, result.stderr + bundle.log.read_text()
    assert any(point.startswith(f"{LIBRARIES}/{library}") for point in points) and set(mounts) <= set(points)
