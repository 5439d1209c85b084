"""podman-hpc shared-run with the real Podman, as root and rootless: tasks of a step that variables describe."""

import os
import shutil
import subprocess

import pytest
from helpers import system
from helpers.installation import SANDBOX
from helpers.podman_hpc import podman_hpc  # noqa: F401

pytestmark = pytest.mark.asroot

OPTIONS = "--network=host --log-driver=none --ulimit=nofile=1024:1024 --ulimit=nproc=4096:4096"

# A task is started as by a launcher: its number is in its environment from the beginning, and all have one parent.
FUNCTIONS = f"""
set -u
hpc() {{ "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file "$@"; }}
options="{OPTIONS}"
task() {{ local id=$1; shift; SLURM_LOCALID=$id exec "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options "$@"; }}
alone() {{ "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options "$@"; }}
keepers() {{ for pid in $(pgrep -x -u "$(id -u)" shared-run-keep); do grep -qz "^DIRECTORY=$DIRECTORY$" /proc/$pid/environ 2>/dev/null && echo $pid; done; }}
gone() {{ until [ -z "$(keepers)" ] && [ -z "$(hpc ps -aq)" ]; do sleep 0.05; done; }}
pids=
started() {{ pids="$pids $!"; }}  # a job that has ended leaves the list of jobs
statuses() {{ local all=; for pid in $pids; do wait $pid; all="$all $?"; done; pids=; echo $all; }}
until_exists() {{ until [ -e "$1" ]; do sleep 0.02; done; }}
until_stopped() {{ local pid; for pid; do until grep -q "^State:.T" /proc/$pid/status; do sleep 0.02; done; done; }}
image=localhost/busybox
"""


class Node:
    def __init__(self, hpc):
        self.hpc = hpc
        self.public = hpc.directory / "public"
        self.public.mkdir(exist_ok=True)
        self.public.chmod(0o777)

    def script(self, text, status=0, tasks=1, **variables):
        """Runs a script with bash where podman-hpc works; afterwards nothing may be left. What waits in vain for another task does so for
        longer than this waits for the script."""
        for file in self.public.iterdir():
            file.unlink()
        environment = self.hpc.user.environment(**{**dict(
            PODMANHPC_GRAPH_ROOT=self.hpc.directory / "graph", PODMANHPC_RUN_ROOT=self.hpc.directory / "run", PODMANHPC_CONFIG_HOME=self.hpc.directory / "config",
            SQUASH_DIR=self.hpc.directory / "squash", HPC=self.hpc.prefix / "bin/podman-hpc", DIRECTORY=self.hpc.directory, PUBLIC=self.public,
            SLURM_STEP_TASKS_PER_NODE=tasks, PODMANHPC_WAIT_TIMEOUT=1000), **variables})
        argv = [str(SANDBOX), "--fuse", "--hide-unified", "--shared-root", "--user", self.hpc.user.name, "--", "timeout", "300", "bash", "-c", FUNCTIONS + text]
        result = subprocess.run(argv, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, cwd="/", env=environment)
        assert result.returncode == status, result.stdout + result.stderr
        return result

    def lines(self, text, **keywords):
        return self.script(text, **keywords).stdout.splitlines()


@pytest.fixture
def node(podman_hpc):  # noqa: F811
    made = Node(podman_hpc)
    yield made
    assert not list((podman_hpc.directory / "run/shared-run").glob("*pid-*")), "sockets are left"
    programs = ("/usr/bin/conmon", "crun ")
    assert system.remains(lambda: [command for _, _, command in system.processes()
                                   if command.startswith(programs) and str(podman_hpc.directory) in command]) == []


# One container

def test_tasks_share_one_container_and_have_their_own_status(node):
    lines = node.lines("""for i in 0 1 2 3; do task $i -e SLURM_LOCALID $image sh -c 'readlink /proc/self/ns/mnt; exit $SLURM_LOCALID' & started; done
statuses; gone""", tasks=4)
    assert lines[-1] == "0 1 2 3"
    assert len({line for line in lines if line.startswith("mnt")}) == 1


def test_a_task_without_numbers_is_alone(node):
    """And quiet: the reference complained after each one."""
    assert node.script("alone $image true; gone").stderr == ""
    assert node.lines("for i in 1 2; do alone $image readlink /proc/self/ns/mnt & done; wait; gone") != []
    assert node.lines("alone $image sh -c 'exit 9'; echo $?; gone") == ["9"]


def test_a_caller_that_ignores_ended_children(node):
    assert node.lines("""(exec env --ignore-signal=CHLD "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options $image sh -c 'exit 9'); echo $?
gone""") == ["9"]


def test_the_image_needs_no_sleep(node):
    assert node.lines("alone -v $PUBLIC:/public --entrypoint /nonexistent $image cat /proc/1/cmdline; gone") == ["/run/podman-hpc-pause\0"]


@pytest.mark.parametrize("wrapped", ["timeout 30 {}", "bash -c '{}; exit $?'", "timeout 30 bash -c '{}; exit $?'"])
def test_programs_between_launcher_and_task(node, wrapped):
    command = wrapped.format('"$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options localhost/busybox readlink /proc/self/ns/mnt')
    lines = node.lines(f"export options; for i in 0 1; do SLURM_LOCALID=$i {command} & done; wait; gone", tasks=2)
    assert len(lines) == 2 and len(set(lines)) == 1


def test_mpirun(node):
    lines = node.lines("""mpirun --allow-run-as-root --oversubscribe -n 3 "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options -e 'OMPI_COMM_*' $image \
sh -c 'echo $OMPI_COMM_WORLD_LOCAL_RANK $(readlink /proc/self/ns/mnt)'; gone""",
                       PODMANHPC_LOCALID_VAR="OMPI_COMM_WORLD_LOCAL_RANK", PODMANHPC_TASKS_PER_NODE_VAR="OMPI_COMM_WORLD_LOCAL_SIZE")
    assert sorted(line.split()[0] for line in lines) == ["0", "1", "2"] and len({line.split()[1] for line in lines}) == 1


def test_a_module_with_shared_run_makes_run_shared(node):
    (node.hpc.modules / "mpi.yaml").write_text("name: mpi\ncli_arg: mpi\nenv: ENABLE_MPI\nshared_run: true\nadditional_args: ['-e TOOLS_*']\n")
    lines = node.lines("""for i in 0 1; do SLURM_LOCALID=$i "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file run --rm --mpi $options $image \
sh -c 'echo $ENABLE_MPI $TOOLS_A $(readlink /proc/self/ns/mnt)' & done; wait; gone""", tasks=2, TOOLS_A="x")
    (node.hpc.modules / "mpi.yaml").unlink()
    assert len(lines) == 2 and len(set(lines)) == 1 and lines[0].startswith("1 x mnt:")


# Attacks of the image

def test_the_callers_terminal_is_not_the_containers(node):
    """The image could type into it (TIOCSTI)."""
    lines = node.lines("""printf '%s' "\\"$HPC\\" --tmpdir=$DIRECTORY/tmp --events-backend=file shared-run $options $image \\
sh -c ': </dev/tty && echo opened'" > $PUBLIC/command; script -qec "bash $PUBLIC/command" /dev/null; gone""")
    assert "opened" not in lines and any("/dev/tty" in line for line in lines), lines


def test_no_program_of_the_host_is_behind_proc_self_exe(node):
    """The interpreter of a script can be the program that executes it: no more than the one that is there anyway."""
    lines = node.lines("""exec 2>&1; printf '#!/proc/self/exe /bin/busybox\\n' > $PUBLIC/id; chmod 755 $PUBLIC/id
alone -v $PUBLIC:/public $image /public/id; gone""")
    assert lines[-1].startswith("uid="), lines


# A task's world

SECCOMP = "--security-opt seccomp=/usr/share/containers/seccomp.json"
PROBE = r"""sh -c 'id -G | tr " " "\n" | sort -un; grep -E "^(Uid|Gid|Cap...|NoNewPrivs|Seccomp|Umask):" /proc/self/status; ulimit -a | grep -v pending; pwd; env | sort
cat /of-group /proc/self/attr/current 2>/dev/null
cat /proc/self/oom_score_adj; for fd in 0 3 4; do readlink /proc/self/fd/$fd; done; for ns in mnt pid ipc net uts user; do readlink /proc/self/ns/$ns; done'"""


@pytest.mark.parametrize("run, both, calls", [
    ("", "", ["", "-u 33", "-u 33:44", "-u daemon", "-w /tmp", "-e A=b -e 'HOST_*'", "--env-file $PUBLIC/env -e B=cli", "--privileged", "--privileged -u 33",
              "-e HOME=/h -u 33"]),
    ("--group-add 55", "-u 33:44 -w /usr -e A=run -e HOME=/set", ["", "-u 0", "--privileged"]),
    pytest.param("", "--privileged", ["", "-u 33"], marks=pytest.mark.thorough),
    pytest.param("--security-opt no-new-privileges --cap-add sys_admin --pid=host", "", ["", "-e PATH=/bin"], marks=pytest.mark.thorough),
    pytest.param("--read-only --ipc=private --uts=private --hostname=h", "", [""], marks=pytest.mark.thorough),
    ("--userns=keep-id", "", ["", "-u 0", "-u 33"]),
    pytest.param(SECCOMP, "", ["", "-u 33"], marks=pytest.mark.thorough),
    ("--group-add keep-groups -v $DIRECTORY/of-group:/of-group", "", ["", "-u 33"])])
def test_the_world_is_that_of_podman_exec(node, run, both, calls):
    if "keep-id" in run and node.hpc.user.uid == 0:
        return  # Podman has keep-id for users only
    file = node.hpc.directory / "of-group"  # only the groups of the user let a container read it
    file.write_text("of the group\n")
    os.chown(file, 0, max(node.hpc.user.groups))
    file.chmod(0o640)
    steps = "".join(f"""echo ==; hpc exec -e 'SLURM_*' {call} $name {PROBE} </dev/null
echo --; (task {number + 1} {run} -v $PUBLIC:/public {call} $image {PROBE}) </dev/null
""" for number, call in enumerate(calls))
    output = node.script(f"""printf '# c\n A=file\nB=file\nHOST_B\n' >$PUBLIC/env
task 0 {run} -v $PUBLIC:/public {both} $image sh -c ': >/public/ready; exec sleep 1000' &
until_exists $PUBLIC/ready; name=$(hpc ps -q)
export SLURM_LOCALID=x
{steps}kill %1; wait %1; gone""", tasks=len(calls) + 1, HOST_A="a", HOST_B="b").stdout
    parts = output.split("==\n")[1:]
    assert len(parts) == len(calls) and ("Seccomp:\t2\n" in output) == ("seccomp=" in run) and ("of the group\n" in output) == ("keep-groups" in run)
    for part in parts:
        expected, found = (text.replace("SLURM_LOCALID=x\n", "") for text in part.split("--\n"))
        assert [line for line in found.splitlines() if not line.startswith("SLURM_LOCALID=")] == expected.splitlines()


def test_streams_descriptors_and_umask(node):
    assert node.lines("echo in | (task 0 -i --umask 0077 $image sh -c 'cat; umask'); gone") == ["in", "0077"]
    assert node.lines("exec 4<<<four 3<<<three; (task 0 --preserve-fds 2 $image sh -c 'cat <&3; cat <&4'); gone") == ["three", "four"]
    assert "file descriptor 3 is not available" in node.script("task 0 --preserve-fds 1 $image true", status=125).stderr
    assert node.lines("exec 7<<<cmd=init; export PMI_FD=7; (task 0 $image sh -c 'echo $PMI_FD; cat <&$PMI_FD'); gone") == ["3", "cmd=init"]


def test_affinity_limits_session_and_cgroup_are_those_of_the_task(node):
    mask = hex(1 << min(os.sched_getaffinity(0)))[2:]
    lines = node.lines(f"""ulimit -s 4096; cut -d: -f3 /proc/self/cgroup | tail -1; cut -d' ' -f6 /proc/self/stat
(export SLURM_LOCALID=0; exec taskset {mask} "$HPC" --tmpdir="$DIRECTORY/tmp" --events-backend=file shared-run $options --pid=host --cgroupns=host $image sh -c \
'ulimit -s; grep Cpus_allowed: /proc/self/status; cut -d: -f3 /proc/self/cgroup | tail -1; cut -d" " -f6 /proc/self/stat'); gone""")
    assert lines[2] == "4096" and int(lines[3].split()[1].replace(",", ""), 16) == int(mask, 16) and lines[4:] == lines[:2]


def test_limits_of_the_container_hold_for_tasks(node):
    """Without them, tasks stay in the cgroup of their step."""
    if node.hpc.user.uid == 0:  # others have no limits on this kind of node
        groups = "$image grep -c libpod /proc/self/cgroup"
        lines = node.lines(f"(task 0 --cgroupns=host {groups}); (task 0 --cgroupns=host --pids-limit=50 {groups}); gone")
        assert lines[0] == "0" and int(lines[1]) > 0, lines


def test_terminal(node):
    assert node.lines("(task 0 -t $image tty); gone")[0].strip().startswith("/dev/pts/")


def test_signals_reach_the_own_task(node):
    lines = node.lines("""for i in 0 1; do task $i -e SLURM_LOCALID -v $PUBLIC:/public $image \
sh -c 'trap "exit 5" USR1; : >/public/$SLURM_LOCALID; for i in $(seq 3000); do sleep 0.1; done; exit 6' & done
until_exists $PUBLIC/0; until_exists $PUBLIC/1; kill -USR1 %1; wait %1; echo $?; kill %2; wait %2; echo $?; gone""", tasks=2)
    assert lines == ["5", "143"]


@pytest.mark.parametrize("words, status, message", [
    ("$image nope", 127, "executable file 'nope' not found in $PATH: No such file or directory"), ("$image /etc", 126, "Permission denied"),
    ("-w /nope $image true", 126, "does not exist on container"), ("-u nobodyy $image true", 126, "unable to find user nobodyy"),
    ("$image", 255, "must provide a non-empty command"),
    ("-d $image true", 2, "Option '--detach' does not work"), ("--rm", 2, "Missing argument 'IMAGE'")])
def test_mistakes(node, words, status, message):
    result = node.script(f"alone {words}; status=$?; gone; exit $status", status=status)
    assert message in result.stderr


# Failures: each with an exact status, and soon

def test_the_container_cannot_start(node):
    result = node.script("for i in 0 1 2; do task $i --pull=never localhost/missing true & started; done; statuses; gone", tasks=3)
    assert result.stdout == "125 125 125\n" and result.stderr.count("localhost/missing: image not known") == 1


@pytest.mark.parametrize("command", ["true", "/nonexistent"])
def test_shared_run_command_ends_at_once(node, command):
    lines = node.lines("for i in 0 1; do task $i $image sleep 1000 & started; done; statuses; gone", tasks=2, PODMANHPC_SHARED_RUN_COMMAND=command)
    assert lines == ["1 1" if command == "true" else "127 127"]


def test_a_shared_run_command_of_the_site(node):
    assert node.lines("for i in 0 1; do task $i $image cat /proc/1/cmdline & started; done; statuses; gone", tasks=2,
                      PODMANHPC_SHARED_RUN_COMMAND="sleep,3600") == ["sleep\x003600\0sleep\x003600\x000 0"]


def test_a_task_never_arrives(node):
    result = node.script("task 0 $image sh -c 'exit 3' & started; statuses; gone", tasks=2, PODMANHPC_WAIT_TIMEOUT="10")
    assert result.stdout == "3\n" and "WARNING: 1 of 2 tasks of this node have not used the shared container" in result.stderr


def test_a_late_task_finds_the_container(node):
    lines = node.lines("""task 0 -v $PUBLIC:/public $image sh -c 'readlink /proc/self/ns/mnt; : >/public/0' & until_exists $PUBLIC/0; sleep 0.3
(task 1 -v $PUBLIC:/public $image readlink /proc/self/ns/mnt); wait; gone""", tasks=2)
    assert len(lines) == 2 and len(set(lines)) == 1


@pytest.mark.parametrize("signal, status", [("TERM", 143), ("INT", 130), ("KILL", 137)])
def test_the_end_of_one_task_is_no_other_task_s(node, signal, status):
    """The first task starts the container."""
    lines = node.lines(f"""task 0 -v $PUBLIC:/public $image sh -c ': >/public/ready; exec sleep 1000' & until_exists $PUBLIC/ready
task 1 -v $PUBLIC:/public $image sh -c ': >/public/second; while [ ! -e /public/killed ]; do sleep 0.05; done; exit 4' &
until_exists $PUBLIC/second; kill -{signal} %1; wait %1; echo $?; : >$PUBLIC/killed; wait %2; echo $?; gone""", tasks=2)
    assert lines == [str(status), "4"]


@pytest.mark.parametrize("signal, status, moment", [
    ("INT", 130, "running"), ("TERM", 143, "running"), ("KILL", 137, "running"), ("INT", 130, "0.1"), ("TERM", 143, "0.05"), ("KILL", 137, "0"),
    ("KILL", 137, "0.05"), ("KILL", 137, "0.1"), ("KILL", 137, "0.2")])
def test_the_end_of_all_tasks(node, signal, status, moment):
    """By a signal to each, as Ctrl-C and Slurm send it, also while the container starts."""
    wait = "until_exists $PUBLIC/0; until_exists $PUBLIC/1" if moment == "running" else f"sleep {moment}"
    result = node.script(f"""set -m; for i in 0 1; do
(trap - INT; task $i -e SLURM_LOCALID -v $PUBLIC:/public $image sh -c ': >/public/$SLURM_LOCALID; exec sleep 1000') & started; done
{wait}; kill -{signal} %1 %2; statuses; gone""", tasks=2)
    if moment != "running":  # perhaps they were killed before there was a keeper, which would have removed the socket
        for socket in (node.hpc.directory / "run/shared-run").glob("*pid-*"):
            socket.unlink()
    assert result.stdout == f"{status} {status}\n"


@pytest.mark.parametrize("command", ["", "sleep,3600"])
def test_the_end_of_the_keeper(node, command):
    variables = {"PODMANHPC_SHARED_RUN_COMMAND": command} if command else {}
    result = node.script("""for i in 0 1; do task $i -e SLURM_LOCALID -v $PUBLIC:/public $image sh -c ': >/public/$SLURM_LOCALID; exec sleep 1000' & started; done
until_exists $PUBLIC/0; until_exists $PUBLIC/1; kill -KILL $(keepers); statuses; gone
task 0 $image true & started; task 1 $image true & started; statuses; gone""", tasks=2, **variables)
    assert result.stdout == "1 1\n0 0\n" and result.stderr.count("The shared container has ended") == 2


def test_the_end_of_the_keeper_and_of_all_tasks(node):
    node.script("""for i in 0 1; do task $i -e SLURM_LOCALID -v $PUBLIC:/public $image sh -c ': >/public/$SLURM_LOCALID; exec sleep 1000' & done
until_exists $PUBLIC/0; until_exists $PUBLIC/1; kill -KILL $(keepers) %1 %2; wait; gone; rm -f "$DIRECTORY"/run/shared-run/*pid-*""", tasks=2)


@pytest.mark.parametrize("command", ["", "sleep,3600"])
def test_the_end_of_all_processes_of_the_step(node, command):
    """A workload manager kills them by their cgroup, and root's container is in another one."""
    if node.hpc.user.uid == 0:
        variables = {"PODMANHPC_SHARED_RUN_COMMAND": command} if command else {}
        node.script("""step=/sys/fs/cgroup/pids/sarus-$$; mkdir $step
for i in 0 1; do (echo $BASHPID >$step/cgroup.procs; task $i -e SLURM_LOCALID -v $PUBLIC:/public $image sh -c ': >/public/$SLURM_LOCALID; exec sleep 1000') & done
until_exists $PUBLIC/0; until_exists $PUBLIC/1
for i in $(seq 3000); do kill -KILL $(cat $step/cgroup.procs) 2>/dev/null; rmdir $step 2>/dev/null && break; sleep 0.05; done
gone""", tasks=2, **variables)


def test_a_stopped_keeper_is_waited_for_no_longer_than_the_timeout(node):
    lines = node.lines("""task 0 -v $PUBLIC:/public $image sh -c ': >/public/0; exec sleep 1000' & until_exists $PUBLIC/0
kill -STOP $(keepers); until_stopped $(keepers); (PODMANHPC_WAIT_TIMEOUT=1 task 1 -v $PUBLIC:/public $image true); echo $?; kill -CONT $(keepers); kill %1; wait; gone""", tasks=2)
    assert lines[0] == "1"


def test_two_steps_at_once_from_one_parent(node):
    lines = node.lines("""for step in a b; do for i in 0 1; do
task $i -e STEP=$step --label step=$step $image sh -c 'echo $STEP $(readlink /proc/self/ns/mnt); sleep 0.3' & started; done; done
statuses; gone""", tasks=2)
    pairs = {line for line in lines if "mnt" in line}
    assert lines[-1] == "0 0 0 0" and len(pairs) == 2 and {pair.split()[0] for pair in pairs} == {"a", "b"}
    same = node.lines("for step in a b; do for i in 0 1; do task $i $image readlink /proc/self/ns/mnt & started; done; done; statuses; gone", tasks=2)
    assert same[-1] == "0 0 0 0"


def test_a_stale_container_of_that_name_is_replaced(node):
    assert node.lines("""hpc run -d --stop-signal=KILL --name uid-$UID-pid-$$ $options $image sleep 600 >/dev/null; (task 0 $image echo new); gone""") == ["new"]


# Hostile

def test_the_place_of_another_user_is_refused(node, other_user):
    """Who gets there first cannot make others wait, nor see their tasks."""
    public = node.hpc.directory / "squat"
    public.mkdir(exist_ok=True)
    public.chmod(0o1777)
    for make in (lambda: (public / "run").mkdir(), lambda: ((public / "run").mkdir(), (public / "run/shared-run").mkdir(mode=0o777)),
                 lambda: (public / "run").symlink_to(node.hpc.directory)):
        make()
        for path in (public / "run", public / "run/shared-run"):
            if path.exists() or path.is_symlink():
                other_user.own(path)
        result = node.script("alone $image true; exit $?", status=1, PODMANHPC_RUN_ROOT=public / "run")
        assert f"User {other_user.uid} owns {public}/run" in result.stderr
        (public / "run").unlink() if (public / "run").is_symlink() else shutil.rmtree(public / "run")


def test_others_cannot_connect(node, other_user):
    lines = node.lines("(task 0 -v $PUBLIC:/public $image true); stat -c %a $DIRECTORY/run/shared-run; chmod 755 $DIRECTORY/run/shared-run; (task 0 $image true)\n"
                       "stat -c %a $DIRECTORY/run/shared-run; gone")
    assert lines == ["700", "700"]


def test_an_image_with_a_pipe_in_place_of_passwd(node):
    assert node.script("alone --tmpfs /etc -u 0 $image true; echo $?; alone $image sh -c 'rm -f /etc/passwd; mkfifo /etc/passwd; exit 3'; echo $?; gone").stdout == "0\n3\n"
    lines = node.lines("""task 0 -v $PUBLIC:/public $image sh -c 'rm -f /etc/passwd; mkfifo /etc/passwd; : >/public/0; exec sleep 1000' & until_exists $PUBLIC/0
(task 1 -v $PUBLIC:/public -u 33 $image sh -c 'grep ^Uid: /proc/self/status'); kill %1; wait; gone""", tasks=2)
    assert lines == ["Uid:\t33\t33\t33\t33"]
