"""Containers and control groups: device rules on both versions, and the limits of the job, which hold for its containers."""

import contextlib
import os
import pathlib
import subprocess
import tempfile

import pytest
from helpers import installation, system
from helpers.compiler import compile_c

pytestmark = pytest.mark.asroot

# The sandbox's options for the node's own layout of control groups (version 2 beside version 1, if it is there), for version 1 alone, and for
# version 2 alone.
LAYOUTS = {"as-mounted": "--shared-root", "legacy": "--hide-unified", "unified": "--unified"}


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=["crun", "runc"])
def runtime(request):
    return request.param


@pytest.fixture
def place(engines, layout, runtime):
    """place(mode) -> an engine on a node with this layout."""
    return lambda mode: engines(mode, runtime).variant(sandbox=(LAYOUTS[layout], *engines(mode, runtime).sandbox))


@pytest.fixture
def image(engines, load_image, plain_busybox):
    """image(mode) -> reference of busybox in the repository of that mode's user."""
    return lambda mode: load_image(engines(mode, "crun"), "busybox", plain_busybox)


@pytest.mark.parametrize("access, allowed", [("r", ["read"]), ("rw", ["read", "write"])])
def test_device_rules(place, image, access, allowed):
    """Root owns the device, so only the rules of the cgroup can keep it from writing."""
    script = "(: < /dev/loops) && echo read; (: > /dev/loops) && echo write"
    result = place("root").run(image("root"), "sh", "-c", script, options=[f"--device=/dev/loop-control:/dev/loops:{access}"], check=False)
    assert result.stdout.split() == allowed, result.stderr
    assert ("Operation not permitted" in result.stderr) == (allowed == ["read"])


def test_usual_devices_work_beside_a_rule(place, image):
    script = "echo x > /dev/null; head -c 2 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c"
    assert place("setuid").output(image("setuid"), "sh", "-c", script, options=["--device=/dev/kmsg:r"]).split() == ["2", "2"]


def test_users_may_give_the_same_name_to_their_containers(place, runtime, engines, load_image, plain_busybox, other_user):
    first = place("setuid")
    second = first.variant(user=other_user)
    mine, theirs = (load_image(engines("setuid", runtime).variant(user=engine.user), "busybox", plain_busybox) for engine in (first, second))
    with first.standing(mine, "--name=same", "--device=/dev/kmsg:r"), second.standing(theirs, "--name=same", "--device=/dev/kmsg:r"):
        pass


@pytest.mark.parametrize("options", [[], ["--device=/dev/kmsg:r"]], ids=["no-rules", "rules"])
def test_the_end_of_a_container_spares_another_users_of_the_same_name(place, runtime, engines, load_image, plain_busybox, other_user, options):
    """runc kills what is in the cgroup of a container that ends."""
    first = place("setuid")
    second = first.variant(user=other_user)
    mine, theirs = (load_image(engines("setuid", runtime).variant(user=engine.user), "busybox", plain_busybox) for engine in (first, second))
    other = second.start("run", "--name=same", *options, theirs, "sh", "-c", "echo ready; read line; echo alive")
    try:
        assert other.stdout.readline() == "ready\n", other.stderr.read()
        first.run(mine, "true", options=["--name=same", *options])
        assert other.communicate("x\n", timeout=300) == ("alive\n", "")
    finally:
        other.kill()
        other.communicate()


def test_no_name_of_a_container_leads_to_a_cgroup_that_is_there(place, image, layout):
    """Neither are the processes in it killed, nor its device rules changed, nor is it removed."""
    hierarchies = ["unified"] if layout == "unified" else ["devices", "pids", "freezer"]
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(cgroup(name)) for name in hierarchies]
        daemon = subprocess.Popen(["sleep", "1000"])
        try:
            (folders[0] / "cgroup.procs").write_text(str(daemon.pid))
            rules = [path.read_text() for path in folders[0].glob("devices.list")]
            result = place("setuid").run(image("setuid"), "cat", "/proc/self/cgroup", options=[f"--name={folders[0].name}", "--device=/dev/kmsg:r"])
            assert f":/{folders[0].name}\n" not in result.stdout
            assert daemon.poll() is None
            assert all(folder.is_dir() for folder in folders)
            assert [path.read_text() for path in folders[0].glob("devices.list")] == rules
        finally:
            daemon.kill()
            daemon.wait()


# An OCI runtime which sees both versions of cgroups, in crun's words; it writes them where crun does.
REFUSING = """
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
int main(int count, char** words) {
    const char text[] = "cgroups in hybrid mode not supported, drop all controllers from cgroupv2\\n";
    for (int i = 1; i + 1 < count; ++i) {
        if (strcmp(words[i], "--log") == 0) {
            int log = open(words[i + 1], O_WRONLY | O_APPEND);
            if (log < 0 || write(log, text, sizeof text - 1) < 0) return 2;
        }
    }
    return write(2, text, sizeof text - 1) < 0 ? 2 : 1;
}
"""


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
@pytest.mark.parametrize("name", ["crun", "oci-runtime"])
def test_a_runtime_that_refuses_the_layout_is_named_with_the_cure(engines, image, make_setuid_prefix, make_rootless_prefix, opt, mode, name):
    runtime = opt / f"refusing-{mode}" / name
    compile_c(runtime, REFUSING, ["-static"])
    make = make_setuid_prefix if mode == "setuid" else make_rootless_prefix
    engine = engines(mode, "crun")
    engine = engine.variant(prefix=make(f"refused-{mode}-{name}", runcPath=str(runtime)), sandbox=("--shared-root", "--fuse"))
    result = engine.run(image(mode), "true", check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "cgroups in hybrid mode not supported, drop all controllers from cgroupv2",
        f"The OCI runtime {runtime} does not run on a node with both versions of cgroups where it sees /sys/fs/cgroup/unified",
        'Set `runcPath` in sarus.json to runc, or to crun under a name with "crun" in it, from which that tree is hidden']


@contextlib.contextmanager
def mounted(hierarchy):
    """Where a hierarchy is mounted; that of version 2 is not mounted everywhere, so it is mounted once more."""
    if hierarchy != "unified":
        yield pathlib.Path("/sys/fs/cgroup") / hierarchy
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", folder], check=True)
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def cgroup(hierarchy, limits=None):
    """A job's cgroup, as a workload manager makes it: (its folder, its path in the hierarchy)."""
    with mounted(hierarchy) as tree:
        folder = tree / f"sarus-job-{os.getpid()}"
        folder.mkdir()
        try:
            for name, value in (limits or {}).items():
                (folder / name).write_text(value)
            yield folder
            assert [path.name for path in folder.iterdir() if path.is_dir()] == [], "a container's cgroup is left behind"
        finally:
            system.eventually(lambda: not (folder / "cgroup.procs").read_text())
            for child in [path for path in folder.iterdir() if path.is_dir()]:
                child.rmdir()
            folder.rmdir()


def run_in(folders, engine, *arguments):
    """Runs `sarus ARGUMENTS` in these cgroups."""
    argv, keywords = engine.command(*arguments)
    enter = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)
    return subprocess.run(["sh", "-c", enter + 'exec "$@"', "sh", *argv], env=engine.user.environment(), cwd=engine.user.home, capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=300, **keywords)


@pytest.mark.parametrize("options", [[], ["--device=/dev/kmsg:r"]], ids=["no-rules", "rules"])
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_container_stays_in_the_cgroups_of_its_job(place, image, layout, mode, options):
    hierarchies = ["unified"] if layout == "unified" else ["memory", "pids", "devices", "cpu", "freezer"]
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(cgroup(name)) for name in hierarchies]
        result = run_in(folders, place(mode), "run", *options, image(mode), "cat", "/proc/self/cgroup")
        assert result.returncode == 0, result.stderr
        paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in result.stdout.splitlines())}
        for name in hierarchies:
            found = paths["" if name == "unified" else name]
            assert f"{found}/".startswith(f"/{folders[0].name}/"), f"{name}: {found}"
        # Slurm ends what is in the job's own cgroup of this hierarchy, and does not look into those below.
        assert layout == "unified" or paths["freezer"] == f"/{folders[0].name}"


@contextlib.contextmanager
def job_without(rule):
    """A job whose cgroup denies devices, as workload managers do for those which the job did not ask for."""
    with cgroup("devices") as folder:
        (folder / "devices.deny").write_text(rule)
        yield folder


SOME_GPU = "c 195:* rwm"


@pytest.mark.parametrize("layout", ["as-mounted", "legacy"])
@pytest.mark.parametrize("options", [[], ["--device=/dev/loop-control:/dev/loops:r"]], ids=["no-device", "device"])
def test_container_starts_in_a_job_that_is_denied_some_device(place, image, options):
    script = "cat /dev/null && head -c 2 /dev/zero | wc -c; (: < /dev/loops) && echo opened; (: > /dev/loops) && echo written; cat /proc/self/cgroup | grep devices"
    with job_without(SOME_GPU) as job:
        result = run_in([job], place("root"), "run", *options, image("root"), "sh", "-c", script)
        assert result.returncode == 0, result.stderr
        count, *opened, own = result.stdout.split("\n")[:-1]
        assert count == "2" and f"/{job.name}" in own
        assert opened == (["opened"] if options else ["written"]), "without a device it is a new file"


@contextlib.contextmanager
def container_in(job, engine, name, *arguments):
    """A container that waits in the job's cgroup."""
    argv, keywords = engine.command("run", "--name", name, *arguments, "sh", "-c", "echo ready; exec sleep 1000")
    enter = f'echo $$ > {job}/cgroup.procs; exec "$@"'
    process = subprocess.Popen(["sh", "-c", enter, "sh", *argv], env=engine.user.environment(), cwd=engine.user.home, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **keywords)
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        yield
    finally:
        engine.sarus("kill", "--signal=KILL", name)
        process.communicate(timeout=300)


@pytest.mark.parametrize("layout", ["as-mounted", "legacy"])
def test_exec_has_the_devices_of_its_container_in_such_a_job(place, image, runtime):
    name = f"denied-{os.getpid()}-{runtime}"
    engine = place("setuid")
    with job_without(SOME_GPU) as job, container_in(job, engine, name, "--device=/dev/kmsg:r", image("setuid")):
        result = engine.sarus("exec", name, "sh", "-c", "cat /dev/null && echo x > /dev/null && grep devices /proc/self/cgroup")
        assert result.returncode == 0 and f"/{job.name}/" in result.stdout, result.stderr


@pytest.mark.parametrize("layout", ["as-mounted", "legacy"])
def test_device_that_the_job_is_denied_is_named(place, image):
    with job_without("c 1:11 rwm") as job:
        result = run_in([job], place("root"), "run", "--device=/dev/kmsg:r", image("root"), "echo", "started")
        assert result.returncode == 1 and "started" not in result.stdout
        assert "Failed to allow the device c 1:11 r in the container's cgroup: Operation not permitted" in result.stderr


@pytest.mark.parametrize("rule, doing", [("c 10:237 rwm", "Failed to open /dev/loop-control"), ("b 7:* rwm", "Failed to attach the image to /dev/loop")])
def test_job_that_is_denied_loop_devices_is_told_so(root_engine, load_image, plain_busybox, rule, doing):
    image = load_image(root_engine, "busybox", plain_busybox)
    with job_without(rule) as job:
        result = run_in([job], root_engine, "run", image, "echo", "started")
    assert result.returncode == 1 and "started" not in result.stdout
    error, hint = result.stderr.splitlines()
    assert error.startswith(doing) and error.endswith(": Operation not permitted") and "the job's device cgroup denies loop devices" in hint


def test_layouts_are_what_their_names_say(layout):
    script = "stat -fc %T /sys/fs/cgroup /sys/fs/cgroup/unified 2>/dev/null"
    sandbox = str(installation.SANDBOX)
    types = subprocess.run([sandbox, LAYOUTS[layout], "--", "sh", "-c", script], capture_output=True, text=True).stdout.split()
    assert {"legacy": types[:1] == ["tmpfs"] and "cgroup2fs" not in types, "unified": types[:1] == ["cgroup2fs"], "as-mounted": types[:1] != []}[layout]


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_limit_of_the_job_holds_in_the_container(place, image, mode):
    """The kernel of the node has these two limits in the hierarchies of version 1, which processes have not left where they do not see
    them; limits of version 2 are tested in virtual machines."""
    engine = place(mode)
    with cgroup("pids", {"pids.max": "40"}) as job:
        script = "for i in $(seq 60); do sleep 1000 & done; echo all started"
        result = run_in([job], engine, "run", image(mode), "sh", "-c", script)
        assert "all started" not in result.stdout and "fork" in result.stderr, result.stderr
    with cgroup("memory", {"memory.limit_in_bytes": str(64 << 20)}) as job:
        # one system call fills the memory: a program that needs its own pages meanwhile makes the kernel evict and read those for minutes
        result = run_in([job], engine, "run", image(mode), "sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1; echo ${?}")
        assert "137" in result.stdout or result.returncode == 137, result.stdout + result.stderr


@contextlib.contextmanager
def job_with_memory(mebibytes):
    """A job's step, whose own cgroup has no limit of memory. The kernel of the node has this controller in version 1."""
    with cgroup("memory", {"memory.limit_in_bytes": str(mebibytes << 20)}) as job:
        step = job / "step"
        step.mkdir()
        try:
            yield step
        finally:
            system.eventually(lambda: not (step / "cgroup.procs").read_text())
            step.rmdir()


FILL = "dd if=/dev/zero of=$place/big bs=1M count=600; echo status $?; df -k $place | awk 'END { print $2 }'; cat /proc/self/oom_score_adj"


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
@pytest.mark.parametrize("layout", ["as-mounted", "legacy"])
def test_files_of_a_container_leave_memory_to_its_job(place, image, mode):
    with job_with_memory(200) as step:
        for folder, options in ("/", []), ("/scratch", ["--tmpfs=/scratch"]):
            result = run_in([step], place(mode), "run", *options, image(mode), "sh", "-c", f"place={folder}; {FILL}")
            status, size, score = result.stdout.splitlines()
            assert "No space left on device" in result.stderr and (status, size) == ("status 1", str(100 << 10)), result.stderr
            assert int(score) > int(pathlib.Path("/proc/self/oom_score_adj").read_text())


@pytest.mark.parametrize("layout", ["as-mounted"])
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_memory_that_ends_all_the_same_ends_the_container_alone(place, image, make_setuid_prefix, make_rootless_prefix, mode, runtime):
    """The site's own size is larger than the job's memory."""
    make = make_setuid_prefix if mode == "setuid" else make_rootless_prefix
    engine = place(mode).variant(prefix=make(f"full-{mode}-{runtime}", runtime, writableLayerSize=500 << 20))
    with job_with_memory(200) as step:
        result = run_in([step], engine, "run", image(mode), "dd", "if=/dev/zero", "of=/big", "bs=1M", "count=600")
        assert result.returncode == 137 and "No space left" not in result.stderr, (result.returncode, result.stderr)
        line = next(line for line in result.stderr.splitlines() if "Out of memory" in line)
        assert f"The limit is 200.00MB (209715200 bytes in {step.parent}), the peak was " in line
        assert "files in memory take 1" in line and line.endswith(": write large files to a mounted directory")


@pytest.mark.parametrize("layout", ["as-mounted"])
@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_exec_says_the_same_when_memory_ends(place, image, mode, runtime):
    name = f"exec-memory-{os.getpid()}-{mode}-{runtime}"
    engine = place(mode)
    with job_with_memory(200) as step, container_in(step, engine, name, image(mode)):
        for script, status in ("dd if=/dev/zero of=/dev/null bs=400M count=1", 137), ("exit 137", 137), ("exit 3", 3):
            result = run_in([step], engine, "exec", name, "sh", "-c", f"exec sh -c '{script}'")
            said = [line for line in result.stderr.splitlines() if line.startswith("Out of memory: the kernel killed a process of the container. ")]
            assert (result.returncode, len(said)) == (status, 1 if "dd" in script else 0), result.stderr
            assert not said or f"The limit is 200.00MB (209715200 bytes in {step.parent}), the peak was " in said[0]


# Which cgroup is the job's own is read from the table of mounts, in which the user's own mounts are, too.


@pytest.fixture
def poor_job():
    """A job whose cgroup does not give it kmsg, and another job's that has everything."""
    with cgroup("devices") as poor, cgroup_beside(poor) as rich:
        (poor / "devices.deny").write_text("c 1:11 rwm")
        yield poor, rich


@contextlib.contextmanager
def cgroup_beside(folder):
    other = folder.with_name(f"{folder.name}-other")
    other.mkdir()
    try:
        yield other
        assert [path.name for path in other.iterdir() if path.is_dir()] == []
    finally:
        other.rmdir()


def test_mounts_of_the_user_do_not_lead_to_another_jobs_cgroup(engines, image, poor_job):
    poor, rich = poor_job
    engine = engines("setuid", "crun").variant(sandbox=("--shared-root",))  # which enters the cgroup as root
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.chmod(directory, 0o755)
        # Not escaped in the table, so that it looks like the fields of a mount of the hierarchy to whoever splits at any white space.
        named = pathlib.Path(f"{directory}/{poor.name}\v/sys/fs/cgroup/devices\v-\vcgroup\vx\vdevices")
        named.mkdir(parents=True)
        for options in [], [f"--mount=type=bind,source={named},destination=/opt/x"], [f"--mount=type=bind,source={poor},destination=/opt/x"]:
            result = run_in([poor], engine, "run", *options, "--device=/dev/kmsg:/dev/k:r", image("setuid"), "cat", "/proc/self/cgroup")
            assert (result.returncode, result.stdout) == (1, ""), options
            assert "Failed to allow the device c 1:11 r in the container's cgroup: Operation not permitted" in result.stderr
            usual = run_in([poor], engine, "run", *options, "--device=/dev/loop-control:/dev/lc:rw", image("setuid"), "grep", "devices", "/proc/self/cgroup")
            assert f"/{poor.name}/sarus-" in usual.stdout, options
        both = [f"--mount=type=bind,source={group},destination=/opt/x" for group in (poor, rich)]
        result = run_in([poor], engine, "run", *both, image("setuid"), "true")
        assert (result.returncode, result.stderr.splitlines()[-1:]) == (1, [f"Failed to bind mount {rich} on container's /opt/x: /opt/x belongs to the kernel"])


def test_exec_writes_to_cgroups_alone(engines, image, user, poor_job, workspace):
    """A filesystem of the user's own whose place looks like the hierarchy, with a link in place of cgroup.procs."""
    _, rich = poor_job
    engine = engines("setuid", "crun").variant(sandbox=("--fuse",))
    secret = workspace / "secret"
    secret.write_text("root's own")
    secret.chmod(0o600)
    here = pathlib.Path(tempfile.mkdtemp(dir=user.home))
    user.own(here)
    tree = here / "tree"
    tree.mkdir()
    (tree / "cgroup.procs").symlink_to(secret)
    subprocess.run(["mksquashfs", tree, here / "tree.squashfs", "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    script = f"""
        place=$(printf '%s/cg\\v-\\vcgroup\\vx\\vdevices' '{here}')
        mkdir "$place" && squashfuse '{here}/tree.squashfs' "$place" || exit 5
        mkdir '{here}/cg' && ln -s '{secret}' '{here}/cg/cgroup.procs'
        '{engine.program}' run --name=target {image("setuid")} sleep 1000 &
        for round in $(seq 3000); do '{engine.program}' exec target true && break; sleep 0.1; done
        touch '{here}/ready'
        while [ -e '{here}/ready' ]; do sleep 0.1; done
        '{engine.program}' exec target grep devices /proc/self/cgroup; echo "status $?"
        '{engine.program}' kill --signal=KILL target; wait
    """
    command = [str(installation.SANDBOX), "--fuse", "--user", user.name, "--", "sh", "-c", script]
    shell = subprocess.Popen(command, env=user.environment(), cwd=user.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert system.eventually((here / "ready").exists), shell.communicate()[1] if shell.poll() is not None else "not ready"
        for pid, uid, line in system.processes():
            if uid == user.uid and line.startswith("sh -c"):
                with contextlib.suppress(ProcessLookupError):  # or it was to become another program, which has ended
                    (rich / "cgroup.procs").write_text(str(pid))
        (here / "ready").unlink()
        out, _ = shell.communicate(timeout=300)
    finally:
        shell.kill()
        for pid, _, line in system.processes():
            if line.startswith(f"squashfuse {here}"):
                system.kill(pid)
    assert secret.read_text() == "root's own"
    assert "status 0" in out and "/sarus-job-" not in out  # it has joined the container's cgroup
