"""The documented hooks together, from the templates of the installation, through `sarus run`: set-user-ID and rootless."""

import json
import os
import re
import stat
import time

import pytest
from helpers import images, installation, slurm
from helpers.compiler import compile_library, compile_program
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH

LINE = re.compile(r"\[(\d+\.\d{9})\] \[(\S+)-(\d+)\] \[hook\] \[INFO\] Timestamp hook: (.*)")
PROGRAM = '#include <stdio.h>\nconst char* which_mpi(void);\nint main(void) { puts(which_mpi()); return 0; }\n'
MPI = 'const char* which_mpi(void) {{ return "{}"; }}\n'

# Stands in for NVIDIA's program, with its habits: the stage as its argument, the state on standard input, a tool in its PATH.
RECORDER = """#!/bin/sh
{ echo "name=$0"; echo "args=$*"; echo "directory=$PWD"; echo "state=$(tr -d '\\n')"; env | sort; nvidia-container-cli; } >"$RECORD"
"""


class Configured:
    """An installation with some of the templates enabled, as an administrator does it."""

    def __init__(self, engine):
        self.engine = engine
        self.directory = engine.prefix / "etc" / "hooks.d"
        self.before = set(self.directory.iterdir())

    def enable(self, template, name=None, **changes):
        """Copies a template, with keys of its `hook` (or its `stages`) changed, to be rendered by configure()."""
        text = json.loads((self.engine.prefix / "etc/templates/hooks.d" / f"{template}.json.in").read_text())
        text["stages"] = changes.pop("stages", text["stages"])
        text["when"] = changes.pop("when", text["when"])
        text["hook"].update(changes)
        (self.directory / f"{name or template}.json.in").write_text(json.dumps(text))
        self._own()

    def configure(self):
        settings = json.loads((self.engine.prefix / "etc/sarus.json").read_text())
        installation.configure(self.engine.prefix, user=self.engine.user if self.engine.rootless else None, runtime=self.engine.runtime,
                               local_base=settings["localRepositoryBaseDir"], tempDir=settings["tempDir"])

    def own(self, path):
        if self.engine.rootless:
            os.chown(path, self.engine.user.uid, self.engine.user.gid)

    def _own(self):
        for path in set(self.directory.iterdir()) - self.before:
            self.own(path)

    def remove(self):
        for path in set(self.directory.iterdir()) - self.before:
            path.unlink()


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def suite_engine(request, engines):
    return engines(*request.param.split("-"))


@pytest.fixture
def hooks(suite_engine):
    made = Configured(suite_engine)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def host(workspace):
    directory = workspace / "hook-suite"
    compile_library(directory / "libmpi.so.12.2.0", MPI.format("MPI of the host"), "libmpi.so.12")
    (directory / "site").mkdir()
    (directory / "site" / "file").write_text("file of the site\n")
    return directory


@pytest.fixture(scope="module")
def suite_image(workspace):
    """Busybox with an MPI library of its own, a program for it, and a C library that is too old to start anything."""
    tree = workspace / "hook-suite-image"
    library = compile_library(tree / "usr/lib/libmpi.so.12.1.8", MPI.format("MPI of the image"), "libmpi.so.12")
    compile_program(tree / "usr/bin/show", PROGRAM, [library])
    compile_library(tree / "libc.so.6", "int only_old(void) { return 0; }\n", "libc.so.6", "GLIBC_2.5 { only_old; };\n")

    def extra(layer):
        for directory in (f"lib{MULTIARCH.removeprefix('/lib')}", "lib64"):
            layer.directory(directory)
        layer.file(MULTIARCH.lstrip("/") + "/libc.so.6", (tree / "libc.so.6").read_bytes(), mode=0o755)
        layer.file(str(LINKER).lstrip("/"), LINKER.read_bytes(), mode=0o755)
        layer.file("usr/lib/libmpi.so.12.1.8", library.read_bytes(), mode=0o755)
        layer.symlink("usr/lib/libmpi.so.12", "libmpi.so.12.1.8")
        layer.file("usr/bin/show", (tree / "usr/bin/show").read_bytes(), mode=0o755)

    return images.Image([images.busybox_layer(extra=extra)], {"Env": [images.PATH_VARIABLE]})


@pytest.fixture
def image(suite_engine, load_image, suite_image):
    return load_image(suite_engine, "hook-suite", suite_image)


@pytest.fixture
def log(suite_engine):
    path = suite_engine.user.home / f"timestamps-{time.monotonic_ns()}"
    yield path
    path.unlink(missing_ok=True)


def enable_all(hooks, host):
    """The order of the documentation: a timestamp after each of the others."""
    stamp = lambda number, message, **more: hooks.enable(  # noqa: E731
        "00-timestamp-hook", f"{number:02}-timestamp-hook", env=[f"TIMESTAMP_HOOK_MESSAGE={message}"], **more)
    stamp(0, "After-runtime")
    hooks.enable("01-glibc-hook", "01-glibc-hook", env=[f"GLIBC_LIBS={LIBC}:{LINKER}", "LDCONFIG_PATH=/sbin/ldconfig"])
    stamp(2, "After-glibc-hook")
    hooks.enable("05-mpi-hook", "03-mpi-hook", env=["LDCONFIG_PATH=/sbin/ldconfig", f"MPI_LIBS={host}/libmpi.so.12.2.0"])
    stamp(4, "After-MPI-hook")
    hooks.enable("06-mount-hook", "05-mount-hook", args=["mount_hook", f"--mount=type=bind,src={host}/site,dst=/opt/site,readonly"])
    stamp(6, "After-mount-hook")
    hooks.enable("02-amdgpu-hook", "07-amdgpu-hook")
    stamp(8, "At-the-end", stages=["poststop"])
    hooks.configure()


@pytest.mark.asroot
def test_device_of_the_mount_hook_can_be_used_as_asked_for(hooks, image, workspace):
    """A container of runc has device rules of its own, others are in the cgroup of the job."""
    node = workspace / "site-device"
    if not node.exists():
        os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(10, 229))
        node.chmod(0o666)
    hooks.enable("06-mount-hook", args=["mount_hook", f"--device={node}:/dev/site:rw"])
    hooks.configure()
    script = "(: </dev/site) 2>/dev/null && echo readable; (: >>/dev/site) 2>/dev/null && echo writable; true"
    result = hooks.engine.run(image, "sh", "-c", script, options=["--annotation=com.hooks.mount.enabled=true"])
    assert result.stdout.split() == ["readable", "writable"]
    assert "cgroup" not in result.stderr


@pytest.mark.parametrize("suite_engine", ["setuid-crun", "setuid-runc"], indirect=True)
def test_devices_of_vendors_can_be_used_on_cgroup_version_2(hooks, image, opt):
    """There no hook can change the rules: the engine reads the inventories before the start."""
    inventories = opt / "inventories"
    inventories.mkdir(exist_ok=True)
    (inventories / "fuse.cfg").write_text(json.dumps({"activation_flag": "OCI_FUSE", "driver_feature": ["f"], "inventory": {"f": {"devices": ["fuse"]}}}))
    hooks.enable("04-decorator-hook", args=["decorator_hook", f"--config-dir={inventories}"])
    hooks.configure()
    hooks.engine = hooks.engine.variant(sandbox=("--unified", "--fuse"))
    script = "(: <>/dev/fuse) && echo usable"
    asked = hooks.engine.run(image, "sh", "-c", script, options=["--device=/dev/null:/dev/mine:r", "--env=OCI_FUSE=all"])
    assert (asked.stdout, asked.stderr) == ("usable\n", "")
    unasked = hooks.engine.run(image, "sh", "-c", script, options=["--device=/dev/null:/dev/mine:r"], check=False)
    assert unasked.stdout == "" and unasked.returncode != 0


def timestamps(log):
    lines = [LINE.fullmatch(line) for line in log.read_text().splitlines()]
    assert all(lines), log.read_text()
    return lines


def test_documented_hooks_work_together(hooks, image, host, log):
    enable_all(hooks, host)
    assert hooks.engine.run(image, "show", check=False).returncode != 0, "neither MPI nor the C library of the image can be used"
    script = "show; cat /opt/site/file; touch /opt/site/new 2>/dev/null || echo readonly"
    options = ["--mpi", "--glibc", "--annotation=com.hooks.mount.enabled=true"]
    started = time.time()
    result = hooks.engine.run(image, "sh", "-c", script, options=options, env={"TIMESTAMP_HOOK_LOGFILE": log})
    assert result.stdout.splitlines() == ["MPI of the host", "file of the site", "readonly"], result.stderr
    lines = timestamps(log)
    assert [line[4] for line in lines] == ["After-runtime", "After-glibc-hook", "After-MPI-hook", "After-mount-hook", "At-the-end"]
    times = [float(line[1]) for line in lines]
    assert started <= times[0] and times == sorted(times) and times[-1] <= time.time()
    assert log.stat().st_uid == hooks.engine.user.uid


def test_hooks_stay_away_without_their_options(hooks, image, host, log):
    enable_all(hooks, host)
    assert hooks.engine.output(image, "sh", "-c", "ls /opt/site /usr/lib/libmpi.so 2>/dev/null; echo end") == "end"
    assert not log.exists()


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer", "poststart", "poststop"])
def test_timestamps_at_every_stage_appended_as_the_user(hooks, image, log, stage):
    hooks.enable("00-timestamp-hook", env=[f"TIMESTAMP_HOOK_MESSAGE={stage}"], stages=[stage])
    hooks.configure()
    log.write_text("kept\n")
    os.chown(log, hooks.engine.user.uid, hooks.engine.user.gid)
    hooks.engine.run(image, "true", options=[f"--env=TIMESTAMP_HOOK_LOGFILE={log}"])
    kept, line = log.read_text().splitlines()
    assert kept == "kept"
    assert LINE.fullmatch(line)[4] == stage


@pytest.mark.asroot
@pytest.mark.parametrize("stage", ["createRuntime", "createContainer", "poststop"])
def test_user_cannot_have_root_write_a_log(hooks, image, workspace, stage):
    """The path comes from the user: it is opened with the user's rights, whatever the hook's are."""
    directory = workspace / f"closed-{hooks.engine.mode}-{hooks.engine.runtime}-{stage}"
    directory.mkdir(mode=0o755)
    protected = directory / "protected"
    protected.write_text("root's\n")
    hooks.enable("00-timestamp-hook", stages=[stage])
    hooks.configure()
    link = hooks.engine.user.home / f"link-{stage}"
    link.symlink_to(protected)
    try:
        for path in (protected, directory / "new", link):
            result = hooks.engine.run(image, "true", check=False, options=[f"--env=TIMESTAMP_HOOK_LOGFILE={path}"])
            assert stage == "poststop" or result.returncode != 0
        assert [path.name for path in directory.iterdir()] == ["protected"]
        assert protected.read_text() == "root's\n"
    finally:
        link.unlink()


def test_output_of_hooks_reaches_the_user_by_level(hooks, image):
    hooks.enable("99-stdout-stderr-test-hook")
    hooks.configure()
    option = "--annotation=com.hooks.stdout_stderr_test.enabled=true"

    def said(*options):
        result = hooks.engine.sarus(*options, "run", option, image, "true")
        assert result.returncode == 0, result.stderr
        return [level for level in ("DEBUG", "INFO", "WARN", "ERROR") if f"hook's {level} log message" in result.stdout + result.stderr]

    result = hooks.engine.run(image, "true", options=[option])
    assert "hook's stdout" in result.stdout + result.stderr and "hook's stderr" in result.stderr
    assert said() == ["WARN", "ERROR"]
    assert said("--verbose") == ["INFO", "WARN", "ERROR"]
    assert said("--debug") == ["DEBUG", "INFO", "WARN", "ERROR"]


def test_nvidias_hook_gets_what_it_needs(hooks, image):
    engine = hooks.engine
    tools = engine.prefix / "var" / "nvidia"
    tools.mkdir()
    record = tools / "record"
    try:
        for name, text in (("nvidia-container-runtime-hook", RECORDER), ("nvidia-container-cli", "#!/bin/sh\necho the tool was found\n")):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
            hooks.own(tools / name)
        hooks.own(tools)
        hooks.enable("03-nvidia-container-toolkit", path=str(tools / "nvidia-container-runtime-hook"),
                     env=[f"PATH={tools}:/usr/bin:/bin", "LD_LIBRARY_PATH=/usr/local/nvidia/lib", f"RECORD={record}"])
        hooks.configure()
        variables = engine.output(image, "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES", env={"CUDA_VISIBLE_DEVICES": "3,1"},
                                  options=["--env=LD_PRELOAD=/evil.so"])
        assert variables == "3,1 1,0"
        lines = record.read_text().splitlines()
        assert "args=prestart" in lines and "the tool was found" in lines
        assert "LD_LIBRARY_PATH=/usr/local/nvidia/lib" in lines and f"PATH={tools}:/usr/bin:/bin" in lines
        assert not [line for line in lines if line.startswith(("NVIDIA_", "CUDA_", "LD_PRELOAD", "HOME="))]
        state = json.loads(next(line for line in lines if line.startswith("state="))[len("state="):])
        assert state["pid"] > 0 and state["bundle"].startswith("/")
    finally:
        for path in tools.iterdir():
            path.unlink()
        tools.rmdir()


@pytest.fixture
def inventory(suite_engine, host):
    """One vendor's inventory with a file of the test and a device which containers do not have."""
    directory = host / f"inventories-{suite_engine.mode}-{suite_engine.runtime}"
    directory.mkdir(exist_ok=True)
    (directory / "vendor.cfg").write_text(json.dumps({
        "activation_flag": "OCI_VENDOR", "driver_feature": ["files", "device"],
        "inventory": {"files": {"miscellaneous": [f"{host}/site/file"], "directories": ["/opt/vendor/empty"]}, "device": {"devices": ["fuse"]}}}))
    return directory


@pytest.mark.parametrize("mode", ["bind", "copy"])
def test_container_gets_the_features_it_asks_for(hooks, image, host, inventory, mode):
    hooks.enable("04-decorator-hook", args=["decorator_hook", f"--config-dir={inventory}", f"--mode={mode}"])
    hooks.configure()
    script = f"cat {host}/site/file; test -d /opt/vendor/empty && echo directory; test -c /dev/fuse && echo device; true"

    def output(*options):
        return hooks.engine.output(image, "sh", "-c", f"({script}) 2>/dev/null", options=options).splitlines()

    assert output() == output("--env=OCI_VENDOR=none") == []
    assert output("--env=OCI_VENDOR=files") == ["file of the site", "directory"]
    assert output("--env=OCI_VENDOR=") == ["file of the site", "directory", "device"]
    result = hooks.engine.run(image, "true", options=["--env=OCI_VENDOR=fiels"], check=False)
    assert result.returncode != 0
    assert "OCI_VENDOR holds 'fiels', which is not a feature of" in result.stderr


@pytest.fixture(scope="module")
def cluster(workspace):
    made = slurm.Slurm(workspace / "slurm-hook")
    yield made
    made.stop()


@pytest.mark.asroot
def test_users_container_submits_to_the_hosts_slurm(hooks, cluster, load_image):
    """The documented example: srun in a container without Slurm starts a job on the node."""
    engine = hooks.engine

    def extra(layer):
        layer.directory("lib64")
        layer.directory(MULTIARCH.lstrip("/"))
        layer.directory("usr/lib64")
        layer.file(MULTIARCH.lstrip("/") + "/libc.so.6", LIBC.read_bytes(), mode=0o755)
        layer.file(str(LINKER).lstrip("/"), LINKER.read_bytes(), mode=0o755)

    image = load_image(engine, "without-slurm", images.Image([images.busybox_layer(extra=extra)], {"Env": [images.PATH_VARIABLE]}))
    hooks.enable("06-mount-hook", "06-slurm-hook", args=["mount_hook", *slurm.documented_arguments(cluster)], env=["LDCONFIG_PATH=/sbin/ldconfig"],
                 when={"annotations": {"^com.hooks.slurm.activate$": "^true$"}})
    hooks.configure()
    assert engine.run(image, "srun", "--version", check=False).returncode != 0
    options = ["--annotation=com.hooks.slurm.activate=true"]
    assert engine.output(image, "srun", "--version", options=options) == cluster.call("srun", "--version").stdout.strip()
    states = {"idle", "comp"}  # the end of a job of before
    assert {f"{state} {cluster.node}" for state in states} >= {engine.output(image, "sinfo", "--noheader", "--format=%t %N", options=options)}
    job = engine.output(image, "srun", "--chdir=/", "-N1", "id", "-u", options=options)
    assert job == str(engine.user.uid)
