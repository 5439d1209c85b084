"""Hooks, `sarus hooks`, `sarus ps` and `sarus kill`, with both OCI runtimes, set-user-ID and rootless."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from helpers import hook_bundle, installation, system

RECORDER = """#!/bin/sh
{ echo "stage=$1"; echo "args=$*"; echo "directory=$(pwd)"; echo "state=$(tr -d '\\n')"; env | sed 's/^/env:/'; echo end; } >> "$RECORD"
"""


TRUST = "HOOK_TRUST_CONTAINER=true"  # the engine tells its hooks that it has left out what only an image says


class Hooks:
    """An installation with hooks of a test's own."""

    def __init__(self, engine, directory):
        self.engine = engine
        self.directory = directory
        self.record = directory / "record"

    def own(self, path):
        if self.engine.rootless:
            os.chown(path, self.engine.user.uid, self.engine.user.gid)

    def program(self, name, text):
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
        self.own(path)
        return path

    def add(self, name, path, stages, when=None, **hook):
        file = self.engine.prefix / "etc" / "hooks.d" / f"{name}.json"
        file.write_text(json.dumps({"version": "1.0.0", "hook": {"path": str(path), **hook}, "when": when or {"always": True},
                                    "stages": stages}))
        self.own(file)
        return file

    def add_recorder(self, name, stage, when=None, **hook):
        program = self.program("recorder", RECORDER)
        hook.setdefault("args", ["recorder", f"{name}:{stage}"])
        self.add(name, program, [stage], when, **{"env": [f"RECORD={self.record}", "PATH=/usr/bin:/bin"], **hook})

    def recorded(self):
        text = self.record.read_text() if self.record.exists() else ""
        return [entry for entry in text.split("end\n") if entry]

    def stages(self):
        return [re.search(r"stage=(.*)", entry)[1] for entry in self.recorded()]


@pytest.fixture(params=["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc"])
def hooks_engine(request, engines):
    return engines(*request.param.split("-"))


@pytest.fixture
def hooks(hooks_engine, opt, tmp_path_factory):
    """Hook programs lie in the installation, on the way to which nobody else can write."""
    directory = hooks_engine.prefix / "var" / "hooks"
    directory.mkdir(exist_ok=True)
    made = Hooks(hooks_engine, directory)
    made.own(directory)
    configured = hooks_engine.prefix / "etc" / "hooks.d"
    before = set(configured.iterdir())
    installation.set_configuration(hooks_engine.prefix, hooksDir=str(configured))
    yield made
    for file in set(configured.iterdir()) - before:
        file.unlink()
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()


@pytest.fixture
def image(hooks_engine, load_image, plain_busybox):
    return load_image(hooks_engine, "busybox", plain_busybox)


def test_hooks_run_in_the_order_of_stages_and_file_names(hooks, image):
    for stage in ("poststop", "createContainer", "createRuntime"):
        hooks.add_recorder(f"20-{stage}", stage)
        hooks.add_recorder(f"10-{stage}", stage)
    hooks.engine.run(image, "true")
    expected = [f"{order}-{stage}:{stage}" for stage in ("createRuntime", "createContainer", "poststop") for order in (10, 20)]
    assert hooks.stages() == expected


def test_hooks_learn_the_callers_uid_on_the_node(hooks, image):
    """At each depth of user namespaces, whatever the caller says."""
    engine = hooks.engine.with_fuse()
    environment = engine.user.environment(SARUS_REPOSITORY_DIR=str(engine.user.home / ".sarus"))
    for stage in ("createRuntime", "createContainer"):
        hooks.add_recorder("10-x", stage)
        launchers = [[], ["unshare", "--map-root-user"]] if engine.rootless else [[]]
        for launcher in launchers:
            argv, identity = engine.launched_by(launcher, "run", "--annotation=com.hooks.caller.uid=0", image, "true")
            subprocess.run(argv, env=environment, cwd=engine.user.home, check=True, stdin=subprocess.DEVNULL, timeout=300, **identity)
    states = [json.loads(re.search(r"state=(\{.*\})", entry)[1]) for entry in hooks.recorded()]
    assert [state["annotations"]["com.hooks.caller.uid"] for state in states] == [str(engine.user.uid)] * 2 * len(launchers)


def test_hook_gets_arguments_environment_and_state_of_its_container(hooks, image):
    hooks.add_recorder("10-x", "createRuntime", args=["given name", "10-x:createRuntime", "a b"])
    hooks.engine.run(image, "true", options=["--name", "hooked", "--env", "SECRET=1", "--annotation", "site.key=value"], env={"LEAK": "1"})
    entry = hooks.recorded()[0]
    assert "args=10-x:createRuntime a b" in entry
    assert f"env:RECORD={hooks.record}" in entry
    assert "SECRET" not in re.sub("state=.*", "", entry) and "LEAK" not in entry
    state = json.loads(re.search(r"state=(\{.*\})", entry)[1])
    assert state["id"] == "hooked"
    assert state["annotations"]["site.key"] == "value"
    assert state["pid"] > 0


def test_last_value_of_a_repeated_variable_counts(hooks, image):
    """Whatever the OCI runtime makes of it: one takes the first value, another one the last."""
    hooks.add_recorder("10-x", "createRuntime", env=[f"RECORD={hooks.record}", "PATH=/usr/bin:/bin", "LEVEL=strict", "LEVEL=full"])
    hooks.engine.run(image, "true")
    assert re.findall("env:LEVEL=(.*)", hooks.recorded()[0]) == ["full"]
    checked = hooks.engine.sarus("hooks", "--check")
    assert checked.returncode == 1
    assert "10-x.json: hook.env: LEVEL is given more than once; the last value counts\n" in checked.stdout


def test_condition_on_the_command_means_the_users_behind_an_init_too(hooks, image):
    hooks.add_recorder("10-x", "createRuntime", {"commands": [".*/true"]})
    hooks.engine.run(image, "/bin/true", options=["--init"])
    assert hooks.stages() == ["10-x:createRuntime"]


def test_hook_whose_conditions_do_not_hold_stays_away(hooks, image):
    hooks.add_recorder("10-mpi", "createRuntime", {"annotations": {"^com.hooks.mpi.enabled$": "^true$"}})
    hooks.engine.run(image, "true")
    assert hooks.stages() == []
    hooks.engine.run(image, "true", options=["--mpi"])
    assert hooks.stages() == ["10-mpi:createRuntime"]


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_failing_hook_says_which_and_why(hooks, image, stage):
    hooks.add("10-fine", hooks.program("fine", "#!/bin/sh\ncat > /dev/null\n"), [stage])
    program = hooks.program("broken", "#!/bin/sh\ncat > /dev/null\necho 'no such interconnect' >&2\nexit 3\n")
    hooks.add("20-broken", program, [stage])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1
    assert "no such interconnect" in result.stderr
    assert f"The hook which failed is '20-broken' ({program}, {stage})" in result.stderr


def named(result):
    """What the engine says about the hook that failed."""
    return re.findall("^The hook which failed is (.*)$", result.stderr, re.MULTILINE)


def test_tasks_of_a_step_hear_of_starter_and_hooks_once(hooks, image):
    """What each of many tasks would say has one line on each node, whatever namespaces they are in."""
    ranks = range(4)

    def lines(*options):
        step = {"SLURM_JOB_ID": str(time.monotonic_ns()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(len(ranks))}
        with concurrent.futures.ThreadPoolExecutor(len(ranks)) as pool:
            results = list(pool.map(lambda rank: hooks.engine.run(image, "true", options=options, env={**step, "SLURM_PROCID": str(rank)}, check=False), ranks))
        return {result.returncode for result in results}, sorted("".join(result.stderr for result in results).splitlines())

    status, heard = lines("-v", "/not/there:/data")
    assert (status, len(heard)) == ({1}, 1) and "/not/there" in heard[0], heard
    hooks.add("10-careful", hooks.program("careful", "#!/bin/sh\necho 'careful' >&2\n"), ["createRuntime"])
    assert lines() == ({0}, ["careful"])
    hooks.add("20-fails", hooks.program("fails", "#!/bin/sh\necho 'out of order' >&2\nexit 3\n"), ["createRuntime"])
    status, heard = lines()
    assert status == {1} and heard.count("careful") == heard.count("out of order") == 1, heard
    assert len([line for line in heard if "The hook which failed is '20-fails'" in line]) == 1, heard
    # The OCI runtime's own words go from it to the user.
    assert not [line for line in set(heard) if heard.count(line) > 1 and "sarus-hook` (exit code" not in line and "error running hook" not in line], heard


def test_failing_hook_is_named_although_its_program_serves_many_stages(hooks, image):
    program = hooks.program("shared", "#!/bin/sh\ncat > /dev/null\n[ $1 != fails ]\n")
    for name, stage, argument in (("10-a", "createRuntime", "works"), ("20-b", "createRuntime", "works"), ("30-c", "createContainer", "works"),
                                  ("40-d", "createContainer", "fails"), ("50-e", "createContainer", "fails"), ("60-f", "poststop", "works")):
        hooks.add(name, program, [stage], args=["shared", argument])
    hooks.add("70-inside", "/bin/true", ["startContainer"], args=["true"])
    result = hooks.engine.run(image, "true", check=False)
    assert (result.returncode, named(result)) == (1, [f"'40-d' ({program}, createContainer)"])


@pytest.mark.parametrize("others", [[], ["createRuntime"], ["prestart", "createContainer"]])
def test_failing_hook_in_the_container_says_which_and_why(hooks, image, others):
    program = hooks.program("fine", "#!/bin/sh\ncat > /dev/null\n")
    for stage in others:
        hooks.add(f"10-{stage}", program, [stage])
    hooks.add("10-inside", "/bin/cat", ["startContainer"], args=["cat"])
    hooks.add("20-broken", "/bin/sh", ["startContainer"], args=["sh", "-c", "cat > /dev/null; echo 'no such file' >&2; exit 3"])
    result = hooks.engine.run(image, "true", check=False)
    assert (result.returncode, named(result)) == (1, ["'20-broken' (/bin/sh, startContainer)"])
    assert "no such file" in result.stderr


@pytest.mark.parametrize("stage", ["poststart", "poststop"])
@pytest.mark.parametrize("end, why", [("exit 3", "failed with status 3"), ("kill -9 $$", "failed with signal 9"),
                                      ("exec sleep 1000", "was killed because it took longer than its time-out")])
def test_failing_hook_after_the_start_is_a_warning(hooks, image, stage, end, why):
    hooks.add("10-fine", hooks.program("fine", "#!/bin/sh\ncat > /dev/null\n"), [stage])
    program = hooks.program("broken", f"#!/bin/sh\necho 'no such service' >&2\n{end}\n")
    hooks.add("20-broken", program, [stage], env=["PATH=/usr/bin:/bin"], timeout=5 if "sleep" in end else 60)
    hooks.add_recorder("30-next", stage)
    result = hooks.engine.run(image, "sh", "-c", "sleep 0.5; echo goes on; exit 5", check=False)
    assert (result.returncode, result.stdout) == (5, "goes on\n")
    said, warning = result.stderr.splitlines()
    assert said == "no such service"
    assert warning.endswith(f"[WARN] The hook '20-broken' ({program}, {stage}) {why}")
    assert hooks.stages() == [f"30-next:{stage}"]


@pytest.mark.parametrize("stage", ["precreate", "createRuntime", "createContainer"])
@pytest.mark.parametrize("number, before", [(signal.SIGINT, ""), (signal.SIGTERM, "trap '' TERM; sleep 1000; ")], ids=["INT", "TERM-ignored"])
def test_a_signal_ends_the_start_while_a_hook_runs(hooks, image, stage, number, before):
    """The engine alone gets it, as from `kill` or a workload manager. A hook that ignores it is killed."""
    pid = hooks.directory / "pid"
    program = hooks.program("slow", f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; {before}exec sleep 1000\n")
    hooks.add("10-slow", program, [stage])
    engine = hooks.engine.start("run", image, "echo", "started", stdin=subprocess.DEVNULL)
    assert system.eventually(pid.exists)
    engine.send_signal(number)
    out, err = engine.communicate(timeout=300)
    assert engine.returncode == 128 + number and "started" not in out, err
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")
    assert hooks.engine.sarus("ps").stdout.count("\n") == 1


def test_hooks_ignore_no_signal_that_the_caller_ignores(hooks, image):
    """A user must not decide how a program of the site reacts."""
    found = hooks.directory / "ignored"
    found.touch()
    found.chmod(0o666)
    program = hooks.program("look", f"#!/bin/sh\n[ $1 != precreate ] || cat\necho $1 $(grep SigIgn /proc/self/status) >> {found}\n")
    stages = ["precreate", "prestart", "createRuntime", "createContainer", "poststart", "poststop"]
    for stage in stages:
        hooks.add(f"10-{stage}", program, [stage], args=["look", stage], env=["PATH=/usr/bin:/bin"])
    process = hooks.engine.start_by(["env", "--ignore-signal=HUP,INT,QUIT,TERM,CHLD"], "run", image, "grep", "SigIgn", "/proc/self/status")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert int(output.split()[1], 16) == system.signal_set([signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
    assert found.read_text().splitlines() == [f"{stage} SigIgn: {0:016x}" for stage in stages]


@pytest.mark.parametrize("program", ["/bin/true", "/bin/cat"])
def test_hook_need_not_read_its_input(hooks, image, program):
    """More of it than a pipe holds, so that a runtime which writes it to the hook itself cannot succeed."""
    for stage in ("prestart", "createRuntime", "createContainer", "poststart", "poststop"):
        hooks.add(f"10-{stage}", program, [stage])
    annotation = "site.key=" + "x" * 100000
    result = hooks.engine.run(image, "sh", "-c", "exit 4", options=["--annotation", annotation], check=False)
    assert result.returncode == 4, result.stderr[-300:]


def test_hook_in_the_container_need_not_read_its_input(hooks, image):
    hooks.add("10-inside", "/bin/true", ["startContainer"], args=["true"])
    result = hooks.engine.run(image, "sh", "-c", "exit 4", options=["--annotation", "site.key=" + "x" * 100000], check=False)
    assert result.returncode == 4, result.stderr[-300:]


@pytest.mark.parametrize("size", [0, 200, 65535, 65536, 65537, 1 << 20])
def test_wrapper_adds_one_variable_and_changes_nothing_else(installed, tmp_path, size):
    state = bytes(index % 251 for index in range(size))
    script = 'echo "$0 $* $(pwd) $(env | sort | tr "\\n" " ") $(ls -C /proc/self/fd) $(wc -c | tr -d " ")"; exit 7'
    os.mkfifo(tmp_path / "log")
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_NONBLOCK)
    result = subprocess.run([installed / "libexec" / "sarus-hook", "run", "3", "0", tmp_path / "log", "/bin/sh", "name", "-c", script, "zero", "a b"],
                            input=state, capture_output=True, env={"ONLY": "this"}, cwd=tmp_path, timeout=300)
    assert result.returncode == 7, result.stderr
    # sh adds PWD; ls has the directory that it reads open
    assert result.stdout.decode().split() == ["zero", "a", "b", str(tmp_path), TRUST, "ONLY=this", f"PWD={tmp_path}", "0", "1", "2", "3", str(size)]
    assert os.read(log, 1000) == b"\x01sarus-hook begins 3 0\n"
    os.close(log)


@pytest.mark.parametrize("size", [0, 200, 65536, 1 << 20])
def test_hooks_in_turn_each_see_what_a_hook_alone_sees(installed, tmp_path, size):
    state = bytes(index % 251 for index in range(size))
    script = ('echo "$0 $* $(pwd) $(env | sort | tr "\\n" " ") $(ls -C /proc/self/fd) $(grep SigBlk /proc/$$/status | cut -f 2)'
              ' $(wc -c | tr -d " ")"; exit ${STATUS-0}')
    os.mkfifo(tmp_path / "log")
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_NONBLOCK)

    def hook(index, *words):
        return [str(index), str(len(words)), *words]

    command = [installed / "libexec/sarus-hook", "in-turn", "0", "0", tmp_path / "log", *hook(1, "/bin/true"),
               *hook(11, "/bin/sh", "sh", "-c", script, "a", "5 6"), *hook(2, "/bin/sh", "sh", "-c", script, "b"), *hook(3, "/bin/echo", "echo", "never")]
    result = subprocess.run(command, input=state, capture_output=True, cwd=tmp_path, timeout=300,
                            env={"1:FIRST": "1", "11:ONLY": "this", "2:STATUS": "7", "NOBODYS": "0", "3:LAST": "1"})
    assert result.returncode == 7, result.stderr
    common = ["0", "1", "2", "3", "0" * 16, str(size)]
    assert [line.split() for line in result.stdout.decode().splitlines()] == [
        ["a", "5", "6", str(tmp_path), TRUST, "ONLY=this", f"PWD={tmp_path}", *common], ["b", str(tmp_path), TRUST, f"PWD={tmp_path}", "STATUS=7", *common]]
    assert os.read(log, 1000).decode().split("\n")[:-1] == [f"\x01sarus-hook begins {index} 0" for index in (1, 11, 2)]
    os.close(log)


def test_first_failure_stops_neighbours_and_names_the_hook(hooks, image):
    for name, status in (("10-first", 0), ("20-second", 3), ("30-third", 0)):
        hooks.add(name, hooks.program(name, f"#!/bin/sh\necho {name} $NAME ${{#}} $(wc -c); exit {status}\n"), ["createContainer"], env=[f"NAME={name}"])
    result = hooks.engine.run(image, "true", check=False)
    lines = [line.rsplit(" ", 1) for line in result.stdout.splitlines()]
    assert result.returncode == 1 and [line[0] for line in lines] == ["10-first 10-first 0", "20-second 20-second 0"], result.stdout
    assert lines[0][1] == lines[1][1] != "0", "each reads the container's state"
    assert "The hook which failed is '20-second' (" in result.stderr, result.stderr


@pytest.mark.parametrize("mode", [["fork", "0"], ["in-turn", "0"]])
def test_program_that_a_site_puts_in_place_of_a_hook_runs(installed, tmp_path, mode):
    """sarus-hook contains some hooks: it must not run these instead of a wrapper with such a hook's name."""
    wrapper = tmp_path / "mpi_hook"
    wrapper.write_text("#!/bin/sh\ncat > /dev/null; echo the wrapper of $0 ran with $MPI_LIBS\n")
    wrapper.chmod(0o755)
    in_turn = mode[0] == "in-turn"
    command = [installed / "libexec/sarus-hook", *mode, "0", tmp_path / "log", *(["0", "1"] if in_turn else []), wrapper]
    result = subprocess.run(command, input="{}", capture_output=True, text=True, timeout=300, env={("0:" if in_turn else "") + "MPI_LIBS": "mine"})
    assert (result.returncode, result.stdout) == (0, f"the wrapper of {wrapper} ran with mine\n"), result.stderr


def test_contained_hook_leaves_nothing_behind_for_its_neighbours(installed, tmp_path):
    """The hook has an environment, a directory, a signal mask and input of its own, whether it is started as a program or not."""
    state = json.dumps({"ociVersion": "1.0.2", "id": "none", "pid": os.getpid(), "bundle": str(tmp_path), "status": "created"})
    (tmp_path / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "root": {"path": "missing"}, "process": {"env": []}}))
    script = 'echo "$0 $(pwd) $(umask) $(env | sort | tr "\\n" " ") $(grep -E "Sig(Blk|Ign)" /proc/$$/status | cut -f 2 | tr "\\n" " ") $(wc -c | tr -d " ")"'
    probe = ["/bin/sh", "sh", "-c", script, "a"]

    def run(words, variables):
        command = [installed / "libexec/sarus-hook", "in-turn", "0", "0", tmp_path / "log", *words]
        return subprocess.run(command, input=state, capture_output=True, text=True, cwd=tmp_path, timeout=300, env=variables, umask=0o027)

    alone = run(["1", "5", *probe], {"1:OWN": "x"})
    # With no C library to compare, the hook fails; with --help it succeeds.
    behind = run(["0", "3", f"{installed}/bin/glibc_hook", "glibc_hook", "--help", "1", "5", *probe], {"0:GLIBC_LIBS": "/none", "1:OWN": "x"})
    assert alone.returncode == behind.returncode == 0, behind.stderr
    assert behind.stdout.splitlines()[-1] == alone.stdout.splitlines()[-1]
    failing = run(["0", "2", f"{installed}/bin/glibc_hook", "glibc_hook", "1", "5", *probe], {"0:GLIBC_LIBS": "/none", "1:OWN": "x"})
    assert failing.returncode == 1 and failing.stdout == "" and "[glibc-hook] [ERROR]" in failing.stderr, failing.stderr


def add_glibc_hook(hooks, name, libraries):
    """A hook of the package, which the engine contains. Fails without a list of libraries."""
    hooks.add(name, hooks.engine.prefix / "bin/glibc_hook", ["createContainer"], env=[f"GLIBC_LIBS={libraries}"])


def test_contained_hook_fails_like_any_other(hooks, image):
    add_glibc_hook(hooks, "10-fails", "")
    hooks.add_recorder("20-never", "createContainer")
    result = hooks.engine.run(image, "echo", "started", check=False)
    assert (result.returncode, result.stdout) == (1, ""), result.stdout
    assert re.search(r"\[glibc-hook\] \[ERROR\] The environment variable GLIBC_LIBS is not set\n", result.stderr), result.stderr
    assert named(result) == [f"'10-fails' ({hooks.engine.prefix}/bin/glibc_hook, createContainer)"]
    assert hooks.stages() == [] and not hooks.engine.sarus("ps").stdout.splitlines()[1:]


@pytest.mark.parametrize("name, stage", [("05-first", "createContainer"), ("20-first", "createRuntime"), ("20-first", "prestart")])
def test_contained_hook_waits_for_the_hooks_in_front_of_it(hooks, image, name, stage):
    hooks.add_recorder(name, stage)
    add_glibc_hook(hooks, "10-fails", "")
    result = hooks.engine.run(image, "true", check=False)
    assert (result.returncode, hooks.stages()) == (1, [f"{name}:{stage}"])
    assert named(result)[0].startswith("'10-fails' ("), result.stderr


def test_contained_hook_in_front_of_others_is_not_blamed_for_their_failure(hooks, image):
    add_glibc_hook(hooks, "05-nothing-to-do", f"{hook_bundle.LIBC}:{hook_bundle.LINKER}")
    hooks.add("10-inside", "/bin/false", ["startContainer"], args=["false"])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1 and "'05-nothing-to-do'" not in result.stderr and "'10-inside' (/bin/false, startContainer)" in result.stderr


def test_hooks_that_prepare_the_root_run_before_the_oci_runtime(hooks, image):
    """All of the package that only do so: the hooks of the runtime's config.json begin with that of the site."""
    programs = hooks.engine.prefix / "bin"
    own = hooks.directory / "own"
    own.write_text("mounted\n")
    own.chmod(0o644)
    for name in ("amdgpu", "decorator", "ldcache"):
        hooks.add(f"10-{name}", programs / f"{name}_hook", ["createRuntime"])
    hooks.add("10-mount", programs / "mount_hook", ["createContainer"], args=["mount_hook", f"--mount=type=bind,src={own},dst=/mnt/own"])
    script = 'bundle=$(sed -n "s/.*\\"bundle\\" *: *\\"\\([^\\"]*\\)\\".*/\\1/p"); tr "," "\\n" < "$bundle/config.json" | sed -n "s/.*\\(_hook\\|site\\)\\".*/\\1/p"'
    hooks.add("20-site", hooks.program("site", f"#!/bin/sh\n({script}) > $RECORD\n"), ["createContainer"],
              env=[f"RECORD={hooks.record}", "PATH=/usr/bin:/bin"])
    hooks.add("30-mount", programs / "mount_hook", ["createContainer"], args=["mount_hook", f"--mount=type=bind,src={own},dst=/mnt/other"])
    assert hooks.engine.output(image, "cat", "/mnt/own", "/mnt/other") == "mounted\nmounted"
    lines = hooks.record.read_text().splitlines()
    assert lines[0] == "site" and set(lines[1:]) == {"_hook"}, lines


@pytest.mark.parametrize("destination, works", [("/mnt/own", True), ("/dev/own", True), ("/dev/shm/DIRECTORY/own", True), ("/dev/shm/missing", False),
                                                ("/dev/shm", False), ("/dev/mqueue", False), ("/dev/pts/own", False), ("/dev/null", False),
                                                ("/proc/version", False), ("/sys/own", False), ("/to-shm/DIRECTORY/own", True), ("/to-dev/own", True)])
def test_mount_hook_does_the_same_before_the_oci_runtime_and_behind_a_hook_of_the_site(hooks, load_image, images, destination, works):
    """At places, too, where the runtime mounts or makes something."""
    image = load_image(hooks.engine, "dev-links", images.busybox(extra=lambda layer: [layer.symlink("to-shm", "/dev/shm"), layer.symlink("to-dev", "/dev")]))
    own = hooks.directory / "own"
    own.write_text("mounted\n")
    own.chmod(0o644)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        os.chmod(shared, 0o755)
        (pathlib.Path(shared) / "own").write_text("the node's\n")
        place = destination.replace("DIRECTORY", os.path.basename(shared))
        hooks.add("20-mount", hooks.engine.prefix / "bin/mount_hook", ["createContainer"], args=["mount_hook", f"--mount=type=bind,src={own},dst={place}"])
        found = []
        for first in (False, True):
            if first:
                hooks.add_recorder("10-site", "createContainer")
            result = hooks.engine.run(image, "cat", place, check=False)
            found.append((result.returncode, result.stdout, [line for line in result.stderr.splitlines() if "[Mount hook]" in line and "[ERROR]" in line][:1]))
        assert (pathlib.Path(shared) / "own").read_text() == "the node's\n" and not os.path.exists("/dev/shm/missing")
    assert [one[:2] for one in found] == [(0, "mounted\n") if works else (1, "")] * 2
    assert [bool(one[2]) for one in found] == [not works] * 2


def test_long_output_of_a_contained_hook_arrives(hooks, image):
    """More than a pipe holds, before there is a container."""
    add_glibc_hook(hooks, "10-fails", "r" * 100_000)
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1 and result.stderr.count("r") > 100_000 and named(result)


@pytest.mark.parametrize("status", [1, 125, 126, 127, 255])
def test_no_status_of_the_command_is_taken_for_a_failing_hook(hooks, image, status):
    hooks.add("10-fine", hooks.program("fine", "#!/bin/sh\ncat > /dev/null\n"), ["createRuntime", "createContainer", "poststop"])
    result = hooks.engine.run(image, "sh", "-c", f"exit {status}", check=False)
    assert (result.returncode, result.stderr) == (status, "")


@pytest.mark.parametrize("command, line", [
    ("no-such-command", 'exec: "no-such-command": executable file not found in $PATH'),
    ("/no/such/command", 'exec: "/no/such/command":'),
])
def test_missing_command_behind_hooks_is_named_in_the_same_words(hooks, image, command, line):
    """They could have brought it, so only the OCI runtime finds out that it is not there."""
    hooks.add("10-fine", hooks.program("fine", "#!/bin/sh\ncat > /dev/null\n"), ["createContainer"])
    result = hooks.engine.run(image, command, check=False)
    assert result.returncode == 1 and line in result.stderr, result.stderr


def test_hooks_after_the_end_run_even_if_processes_had_to_be_ended_before(hooks, image):
    """And a slow one is not taken for one of them."""
    slow = hooks.program("slow", "#!/bin/sh\ncat > /dev/null\nsleep 0.3\necho $1 >> \"$RECORD\"\n")
    for name in ("10-first", "20-second"):
        hooks.add(name, slow, ["poststop"], args=["slow", name], env=[f"RECORD={hooks.record}", "PATH=/usr/bin:/bin"])
    result = hooks.engine.run(image, "sh", "-c", "sleep 1000 & sleep 1001 & exit 3", check=False)
    assert result.returncode == 3
    assert hooks.record.read_text().splitlines() == ["10-first", "20-second"]


def test_missing_hook_program_is_named(hooks, image):
    hooks.add("10-gone", hooks.directory / "gone", ["createRuntime"])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1
    assert f"The hook '10-gone' cannot be run: {hooks.directory}/gone: No such file or directory" in result.stderr


def test_invalid_hook_file_is_named(hooks, image):
    """By what has to do with hooks; everything else goes on."""
    file = hooks.add("10-x", "/bin/true", ["never"])
    for arguments in (["run", image, "true"], ["hooks"], ["hooks", "--mpi"], ["hooks", "--json"]):
        result = hooks.engine.sarus(*arguments)
        assert (result.returncode, result.stdout) == (1, ""), arguments
        assert result.stderr.startswith(f"{file}: stages[0]: expected one of"), arguments
    for arguments in (["images"], ["ps"], ["version"], ["help"]):
        result = hooks.engine.sarus(*arguments)
        assert (result.returncode, result.stderr) == (0, ""), arguments


def test_images_come_and_go_beside_an_invalid_hook_file(hooks, registry, plain_busybox):
    hooks.add("10-x", "/bin/true", ["never"])
    reference = registry.push(plain_busybox, f"beside-invalid-hook-{hooks.engine.mode}-{hooks.engine.runtime}:1")
    for command in ("pull", "rmi"):
        result = hooks.engine.sarus(command, reference)
        assert result.returncode == 0, result.stderr


def test_containers_are_listed_and_ended_beside_an_invalid_hook_file(hooks, image):
    with hooks.engine.standing(image, "--name=beside") as process:
        hooks.add("10-x", "/bin/true", ["never"])
        assert hooks.engine.sarus("ps").stdout.splitlines()[1].startswith("beside ")
        assert hooks.engine.sarus("kill", "beside").returncode == 0
        assert process.wait(timeout=300) == 129


def test_hook_writes_to_the_users_terminal_through_the_engines_fifo(hooks, image):
    """What hooks of any origin find in the annotations is the engine's, whatever the user asks for."""
    program = hooks.program("speaker", """#!/bin/sh
out=$(cat | tr ',' '\\n' | sed -n 's/.*"com.hooks.logging.stderrfd" *: *"\\([^"]*\\)".*/\\1/p')
case "$out" in */hooks-log) echo "through the fifo" > "$out" ;; *) echo "wrong: $out" >&2; exit 1 ;; esac
""")
    hooks.add("10-x", program, ["createRuntime"], env=["PATH=/usr/bin:/bin"])
    result = hooks.engine.run(image, "true", options=["--annotation", "com.hooks.logging.stderrfd=/tmp/evil"])
    assert "through the fifo" in result.stderr


@pytest.mark.parametrize("program, stage", [("mount_hook", "poststart"), ("ldcache_hook", "startContainer"), ("pce_hook", "createContainer")])
def test_hook_of_the_package_at_a_stage_that_it_does_not_support(hooks, image, program, stage):
    file = hooks.add("10-wrong", hooks.engine.prefix / "bin" / program, [stage])
    result = hooks.engine.sarus("run", image, "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"The hook '10-wrong' cannot be run: {program} does not support the stage {stage} (supported: " in result.stderr
    assert f'Change "stages" in {file}' in result.stderr


def test_precreate_hook_edits_the_configuration(hooks, image):
    program = hooks.program("edit", "#!/bin/sh\nexec sed 's/FROM_USER=1/FROM_HOOK=2/'\n")
    hooks.add("10-edit", program, ["precreate"], env=["PATH=/usr/bin:/bin"])
    output = hooks.engine.output(image, "env", options=["--env", "FROM_USER=1"])
    assert "FROM_HOOK=2" in output.splitlines() and "FROM_USER" not in output


def test_failing_precreate_hook_says_why(hooks, image):
    hooks.add("10-edit", hooks.program("edit", "#!/bin/sh\necho 'no edit today' >&2\nexit 4\n"), ["precreate"])
    result = hooks.engine.run(image, "true", check=False)
    assert result.returncode == 1
    assert "'10-edit'" in result.stderr and "failed with status 4: no edit today" in result.stderr


def test_hooks_lists_what_is_configured(hooks):
    hooks.add("10-x", "/usr/bin/true", ["createRuntime", "poststop"])
    result = hooks.engine.sarus("hooks")
    assert result.stdout == "NAME         PATH            STAGES\n10-x         /usr/bin/true   createRuntime,poststop\n"


@pytest.mark.parametrize("directory", ["empty", None], ids=["empty-directory", "no-directory"])
def test_without_hooks_none_are_listed(hooks, image, directory):
    installation.set_configuration(hooks.engine.prefix, hooksDir=str(hooks.directory) if directory else None)
    for arguments, listed in ((["hooks"], "NAME         PATH         STAGES\n"), (["hooks", "--mpi"], "NAME         MPI TYPE\n")):
        result = hooks.engine.sarus(*arguments)
        assert (result.returncode, result.stdout, result.stderr) == (0, listed, ""), arguments
    for arguments in (["hooks", "--json"], ["hooks", "--mpi", "--json"]):
        result = hooks.engine.sarus(*arguments)
        assert (result.returncode, json.loads(result.stdout), result.stderr) == (0, [], ""), arguments
    assert hooks.engine.output(image, "echo", "runs") == "runs"


def test_without_a_directory_of_hooks_there_is_nothing_to_check(hooks):
    installation.set_configuration(hooks.engine.prefix, hooksDir=None)
    result = hooks.engine.sarus("hooks", "--check")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "There are no hook files to check: the key `hooksDir` is missing from sarus.json\n"


def test_mpi_hooks_are_listed_with_their_types(hooks):
    installation.set_configuration(hooks.engine.prefix, defaultMPIType="mpi0")
    for number in (0, 1):
        when = {"annotations": {"^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": f"^mpi{number}$"}}
        hooks.add(f"05{number}-mpi{number}-hook", "/usr/bin/true", ["prestart"], when)
    hooks.add("060-other", "/usr/bin/true", ["prestart"])
    try:
        result = hooks.engine.sarus("hooks", "--mpi")
    finally:
        installation.set_configuration(hooks.engine.prefix, defaultMPIType=None)
    assert result.stdout == "NAME            MPI TYPE\n050-mpi0-hook   ^mpi0$ (default)\n051-mpi1-hook   ^mpi1$\n"


def test_check_finds_mistakes(hooks):
    hooks.add("10-fine", "/usr/bin/true", ["prestart"])
    assert hooks.engine.sarus("hooks", "--check").returncode == 0
    hooks.add("20-gone", "/nonexistent", ["prestart"])
    hooks.add("30-never", "/usr/bin/true", ["prestart"], {"always": False, "annotations": {"mpi": "true"}})
    result = hooks.engine.sarus("hooks", "--check")
    assert result.returncode == 1
    assert "20-gone.json: the program /nonexistent cannot be run" in result.stdout
    assert "30-never.json: when.always is false: the hook never runs. Remove it to let the other conditions decide" in result.stdout
    assert "1 of 3 hook files" in result.stdout


def firing(result):
    """{hook: (runs, stages, why)} of the table that `hooks --check run ...` prints after its mistakes."""
    rows = [re.split(r" {3,}", line) for line in result.stdout.split("\n\n", 1)[1].splitlines()]
    assert rows[0] == ["NAME", "RUNS", "STAGES", "WHY"]
    return {row[0]: tuple(row[1:]) for row in rows[1:]}


def test_check_shows_which_hooks_run_for_a_command_and_why(hooks, image):
    hooks.add_recorder("10-always", "createRuntime")
    hooks.add_recorder("20-mpi", "createContainer", {"annotations": {"^com.hooks.mpi.enabled$": "^true$"}})
    hooks.add_recorder("30-shell", "poststop", {"commands": [".*/sh"]})
    hooks.add_recorder("40-mounts", "createRuntime", {"hasBindMounts": True})
    hooks.add_recorder("50-never", "createRuntime", {"always": False, "annotations": {"^com.hooks.mpi.enabled$": "^true$"}})
    command = ["run", "--mpi", "--mount", "type=bind,source=/etc,destination=/opt/etc", image, "true"]

    shown = hooks.engine.sarus("hooks", "--check", *command)
    assert shown.returncode == 1  # 50-never is a mistake
    assert "50-never.json: when.always is false" in shown.stdout
    table = firing(shown)
    assert table["10-always"] == ("yes", "createRuntime", "always")
    assert table["20-mpi"] == ("yes", "createContainer", "annotation com.hooks.mpi.enabled=true")
    assert table["30-shell"] == ("no", "poststop", "command true does not match .*/sh")
    assert table["40-mounts"] == ("yes", "createRuntime", "there are bind mounts")
    assert table["50-never"] == ("no", "createRuntime", "always is false")

    # Nothing has been run so far; what runs is what was shown.
    assert hooks.stages() == []
    assert hooks.engine.sarus(*command).returncode == 0
    assert {stage.split(":")[0] for stage in hooks.stages()} == {name for name, row in table.items() if row[0] == "yes"}


def test_check_of_a_command_refuses_what_run_refuses(hooks, image):
    for command, message in [(["run", "--nosuch", image, "true"], "nosuch"), (["run", "--mount=x", image, "true"], "Invalid mount request"),
                             (["run", "never/pulled", "true"], "is not available"), (["pull", image], "Only the hooks of 'run' can be shown"),
                             (["run"], "Too few arguments for command 'run'")]:
        result = hooks.engine.sarus("hooks", "--check", *command)
        assert result.returncode == 1 and message in result.stderr, (command, result.stdout, result.stderr)


# ps and kill


@pytest.fixture
def sleeping(hooks_engine, image):
    process = hooks_engine.start("run", "--name", "sleeper", image, "sleep", "1000")
    assert system.eventually(lambda: "running" in hooks_engine.sarus("ps").stdout)
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=300)


def test_ps_shows_the_table_of_runc(hooks_engine, sleeping):
    lines = hooks_engine.sarus("ps").stdout.splitlines()
    assert lines[0].split() == ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    identifier, pid, status, *_ = lines[1].split()
    assert (identifier, status) == ("sleeper", "running")
    # The runtime says "running" a moment before it executes the command.
    assert system.eventually(lambda: "sleep" in open(f"/proc/{pid}/cmdline").read())


@pytest.fixture
def state_root(hooks_engine, temp_dir):
    """Where the OCI runtime keeps the state of the user's containers."""
    uid = hooks_engine.user.uid
    return temp_dir / f"sarus-{uid}" / "state" if hooks_engine.rootless else pathlib.Path(f"/run/sarus/{uid}")


def runtimes_list(engine, state_root, *options):
    return subprocess.run([engine.runtime, "--root", str(state_root), "list", *options], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("hooks_engine", ["setuid-runc", "rootless-runc"], indirect=True)
def test_ps_is_what_runc_prints(hooks_engine, sleeping, state_root):
    assert hooks_engine.sarus("ps").stdout == runtimes_list(hooks_engine, state_root)


@pytest.mark.parametrize("hooks_engine", ["setuid-crun", "rootless-crun"], indirect=True)
def test_ps_is_what_runc_would_print(hooks_engine, sleeping, state_root):
    """crun counts microseconds, and calls the owner of a user namespace root."""
    [state] = json.loads(runtimes_list(hooks_engine, state_root, "--format", "json"))
    created = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z", state["created"])[1].rstrip("0").rstrip(".") + "Z"
    owner = hooks_engine.user.name if hooks_engine.rootless else "root"
    row = ["sleeper", str(state["pid"]), "running", state["bundle"], created, owner]
    titles = ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"]
    widths = [max(12, len(cell) + 3) for cell in row[:-1]]
    lines = ["".join(cell.ljust(width) for cell, width in zip(cells, widths)) + cells[-1] for cells in (titles, row)]
    assert hooks_engine.sarus("ps").stdout == "\n".join(lines) + "\n"
    bundle = json.loads((hooks_engine.prefix / "etc/sarus.json").read_text())["OCIBundleDir"]
    assert state["bundle"] == (str(state_root.parent / "bundle") if hooks_engine.rootless else bundle)


def test_ps_without_containers_prints_the_titles(hooks_engine):
    result = hooks_engine.sarus("ps")
    assert (result.returncode, result.stdout) == (0, "ID          PID         STATUS      BUNDLE      CREATED     OWNER\n")


def test_kill_sends_sighup_and_is_silent(hooks_engine, sleeping):
    result = hooks_engine.sarus("kill", "sleeper")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert sleeping.wait(timeout=300) == 129


def test_kill_sends_the_chosen_signal(hooks_engine, sleeping):
    assert hooks_engine.sarus("kill", "--signal", "TERM", "sleeper").returncode == 0
    assert sleeping.wait(timeout=300) == 143


def test_containers_are_found_in_every_session(rootless_engine, load_image, plain_busybox):
    session = rootless_engine.user.home / "session"
    session.mkdir(mode=0o700)
    os.chown(session, rootless_engine.user.uid, rootless_engine.user.gid)
    image = load_image(rootless_engine, "busybox", plain_busybox)
    process = rootless_engine.start("run", "--name", "elsewhere", image, "sleep", "1000", env={"XDG_RUNTIME_DIR": str(session)})
    try:
        assert system.eventually(lambda: "elsewhere" in rootless_engine.sarus("ps").stdout)
        assert rootless_engine.sarus("kill", "--signal=TERM", "elsewhere", env={"XDG_RUNTIME_DIR": "/nonexistent"}).returncode == 0
        assert process.wait(timeout=300) == 143
    finally:
        process.terminate()
        process.communicate(timeout=300)
        shutil.rmtree(session)
    assert "elsewhere" not in rootless_engine.sarus("ps").stdout


def test_kill_of_an_unknown_container_is_an_error(hooks_engine):
    result = hooks_engine.sarus("kill", "nobody")
    assert result.returncode == 1
    assert "There is no container with the name 'nobody'" in result.stderr
    result = hooks_engine.sarus("kill", "--signal", "NOSUCH", "nobody")
    assert "Unknown signal 'NOSUCH'" in result.stderr


def test_containers_of_other_users_are_out_of_reach(engines, other_user, load_image, plain_busybox):
    engine = engines("setuid", "crun")
    image = load_image(engine, "busybox", plain_busybox)
    process = engine.start("run", "--name", "private", image, "sleep", "1000")
    try:
        assert system.eventually(lambda: "private" in engine.sarus("ps").stdout)
        stranger = engine.variant(user=other_user)
        assert "private" not in stranger.sarus("ps").stdout
        assert "There is no container" in stranger.sarus("kill", "private").stderr
        assert "invalid" in stranger.sarus("kill", f"../{engine.user.uid}/private").stderr.lower()
    finally:
        process.terminate()
        process.communicate(timeout=300)
