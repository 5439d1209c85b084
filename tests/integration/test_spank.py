"""The plugin for Slurm: what its options mean, what reaches the container, and what a user cannot do with it."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from helpers import installation, mpi, sif, slurm, system
from test_mpi import RANKS, SOURCE, expected_lines

pytestmark = pytest.mark.asroot

TOOL = b"#!/bin/sh\necho the tool of the image\n"
ENTRY = b"#!/bin/sh\necho entry\nexec \"$@\"\n"


@pytest.fixture(scope="module")
def prefix(make_setuid_prefix):
    made = make_setuid_prefix("spank")
    if not (made / "lib/slurm/spank_sarus.so").exists():
        pytest.skip("the plugin was not built: Slurm's headers are missing (Debian package libslurm-dev)")
    return made


@pytest.fixture(scope="module")
def spank_engine(prefix, user):
    return installation.Engine(prefix, user, "setuid", "crun")


@pytest.fixture(scope="module")
def site(workspace, prefix):
    prolog = workspace / "task-prolog"
    prolog.write_text("#!/bin/sh\necho export FROM_TASK_PROLOG=yes\n")
    prolog.chmod(0o755)
    made = slurm.Slurm(workspace / "spank-slurm", settings=f"TaskProlog={prolog}\nLaunchParameters=use_interactive_step\n"
                       "InteractiveStepOptions=\"--interactive --quiet --preserve-env $SHELL\"\n",
                       plugins=[f"optional {prefix}/lib/slurm/spank_sarus.so"])
    yield made
    made.stop()


@pytest.fixture(scope="module")
def image_description(images):
    def extra(layer):
        layer.directory("usr")
        layer.directory("usr/local")
        layer.directory("usr/local/bin")
        layer.directory("work")
        layer.file("usr/local/bin/only-in-the-image", TOOL, mode=0o755)
        layer.file("usr/local/bin/hostname", TOOL, mode=0o755)
        layer.file("work/relative", TOOL, mode=0o755)
        layer.file("entry", ENTRY, mode=0o755)

    return images.busybox({"Entrypoint": ["/entry"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "FROM_IMAGE=image"]}, extra=extra)


@pytest.fixture
def image(spank_engine, load_image, image_description):
    return load_image(spank_engine, "spank", image_description)


class Caller:
    """Slurm's programs, called by the user in a folder of the user's."""

    def __init__(self, site, user, prefix):
        self.site, self.user, self.prefix = site, user, prefix

    def __call__(self, name, *arguments, env=None, cwd=None, timeout=300, **keywords):
        keywords = {"stdin": subprocess.DEVNULL, "capture_output": True, **keywords}
        return subprocess.run([system.program(name), *map(str, arguments)], text=True, timeout=timeout, cwd=cwd or self.user.home,
                              env=self.user.environment(**{**self.site.environment, **(env or {})}), **self.user.identity(), **keywords)

    def output(self, *arguments, **keywords):
        result = self("srun", *arguments, **keywords)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout.rstrip("\n")

    def start(self, *arguments):
        return subprocess.Popen([system.program("srun"), "--quiet", *map(str, arguments)], env=self.user.environment(**self.site.environment),
                                cwd=self.user.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **self.user.identity())

    def error(self, *arguments, program="srun", **keywords):
        result = self(program, *arguments, **keywords)
        assert result.returncode != 0, result.stdout
        return result.stderr

    def batch(self, script, *options, arguments=(), **keywords):
        """What a batch job prints."""
        path = self.folder() / "job.sh"
        path.write_text(script)
        self.user.own(path)
        result = self("sbatch", "--parsable", f"--output={path.parent}/out", *options, path, *arguments, **keywords)
        assert result.returncode == 0, result.stderr
        self.wait_for_job(result.stdout.strip())
        return (path.parent / "out").read_text()

    def wait_for_job(self, job):
        """`sbatch --wait` asks every ten seconds."""
        assert system.eventually(lambda: "JobState=COMPLETED" in self("scontrol", "show", "job", job).stdout, interval=0.1)

    def folder(self):
        folder = self.user.home / f"spank-{time.monotonic_ns()}"
        folder.mkdir()
        return pathlib.Path(self.user.own(folder) or folder)


@pytest.fixture
def call(site, user, prefix):
    return Caller(site, user, prefix)


# The command


@pytest.mark.parametrize("word", ["only-in-the-image", "hostname", "/usr/local/bin/hostname", "./relative"])
def test_the_word_that_the_user_typed_is_run_in_the_container(call, image, word):
    assert call.output(f"--container-image={image}", "--container-workdir=/work", word) == "the tool of the image"


def test_arguments_reach_the_command_unchanged(call, image):
    arguments = ["a b", "", "--", "-x", "--container-image=no", "new\nline", "ä"]
    assert call.output(f"--container-image={image}", "printf", "%s|", *arguments) == "".join(f"{each}|" for each in arguments)


def test_multi_prog_is_refused_by_name(call, image):
    programs = call.folder() / "programs"
    programs.write_text("0 hostname\n")
    assert "--multi-prog cannot run programs in containers" in call.error(f"--container-image={image}", "--multi-prog", programs)


def test_steps_without_the_options_do_not_change(call):
    assert call.output("hostname") == os.uname().nodename
    assert call.output("sh", "-c", "env | grep -c SARUS_ || true") == "0"


def test_exit_statuses_and_signals_are_those_of_the_command(call, image):
    assert call("srun", f"--container-image={image}", "sh", "-c", "exit 7").returncode == 7
    assert call("srun", f"--container-image={image}", "sh", "-c", "kill -TERM $$").returncode == 128 + 15


# What reaches the container


def test_limits_prolog_and_variables_reach_the_container(call, image):
    script = "ulimit -n; echo $FROM_TASK_PROLOG $SLURM_PROCID $OWN; env | grep -E 'SLURM_SARUS|SLURM_SPANK|SARUS_' | grep -v ^SARUS_CONTAINER= | wc -l"
    result = call.output(f"--container-image={image}", "--propagate=NOFILE", "sh", "-c", script, env={"OWN": "value"},
                         preexec_fn=lambda: __import__("resource").setrlimit(__import__("resource").RLIMIT_NOFILE, (333, 444)))
    assert result.splitlines() == ["333", "yes 0 value", "0"]


def test_variables_pass_an_empty_export_list(call, image):
    assert call.output(f"--container-image={image}", "--export=NONE", "only-in-the-image") == "the tool of the image"


def test_pty_is_the_terminal_of_the_container(call, image):
    result = call("script", "-qec", f"{system.program('srun')} --quiet --pty --container-image={image} sh -c 'test -t 0 && test -t 1 && tty'", "/dev/null")
    assert "/dev/pts/" in result.stdout, result.stdout + result.stderr


def test_ranks_of_mpi_find_each_other_by_pmi2(call, spank_engine, load_image, images, workspace):
    program = mpi.compile_program("mpich", SOURCE, workspace / "spank-mpich")
    ranks = load_image(spank_engine, "spank-mpich", mpi.image_with(images, "mpich", program))
    result = call.output("--mpi=pmi2", "-n", RANKS, f"--container-image={ranks}", "/app", timeout=120)
    assert sorted(result.splitlines()) == expected_lines()


# The options


def test_mounts(call, image):
    folder = call.folder()
    (folder / "file").write_text("of the host\n")
    (folder / "lr=0.1,batch=32").mkdir()
    (folder / "lr=0.1,batch=32" / "log").write_text("of the run\n")
    mounts = f"./{folder.name}:/rw:rw,{folder}:/ro:ro+rprivate,{folder},{folder}/lr=0.1,batch=32:/run\\:1"
    script = f"cat /rw/file {folder}/file /run:1/log; touch /rw/made; touch /ro/made 2>/dev/null || echo readonly"
    assert call.output(f"--container-image={image}", f"--container-mounts={mounts}", "sh", "-c", script).splitlines() == \
        ["of the host", "of the host", "of the run", "readonly"]


def test_mounts_of_memory_or_of_nothing_and_with_conditions(call, image, user):
    """The words that people have in scripts for Pyxis."""
    folder = call.folder()
    (folder / "file").write_text("of the host\n")
    mounts = f"{folder}:/a:,tmpfs:/memory:size=1m+mode=0700,{folder}/file:/f:ro+x-create=file,{folder}:/d:x-create=dir+unbindable," \
        f"{folder}:/e:x-create=auto,tmpfs:/plain,umount:/a"
    script = "ls /a 2>&1 | tail -1; stat -c %a:%U /memory /plain; df -k /memory | tail -1 | tr -s ' ' | cut -d' ' -f2; cat /f /d/file /e/file"
    assert call.output("--container-mount-home", f"--container-image={image}", f"--container-mounts={mounts}", "sh", "-c", script).splitlines() == \
        ["ls: /a: No such file or directory", f"700:{user.name}", f"755:{user.name}", "1024"] + 3 * ["of the host"]
    for wrong, message in ((f"{folder}:/x:x-create=file", "expects a file"), (f"{folder}/file:/x:x-create=dir", "as x-create=dir expects")):
        assert message in call.error(f"--container-image={image}", f"--container-mounts={wrong}", "true")


@pytest.mark.parametrize("mounts, message", [
    ("umount:/proc", "what is mounted on /proc belongs to every container"),
    ("umount:relative", "destination must be an absolute path"),
    ("umount:/tmp:ro", "'umount:DESTINATION' has no flags"),
    ("tmpfs:/tmp:size=much", "'much' is not a size"),
    ("tmpfs:/tmp:ro", "a memory file system cannot be read-only"),
    ("/tmp:/x:x-create=link", "'link' is not a value of 'x-create'"),
    ("relative:/x", "the source 'relative' must begin with '/' or '.'"),
    ("/tmp:x", "destination must be an absolute path"),
    ("/tmp:/x:ro:rw", "expected SOURCE:DESTINATION[:FLAGS]"),
    ("/tmp:/x:umount", "the mount flag 'umount' is not supported"),
    ("", "expected SOURCE:DESTINATION[:FLAGS], found ''"),
])
def test_mistakes_in_mounts_are_reported_before_the_job_starts(call, image, mounts, message):
    assert message in call.error(f"--container-image={image}", f"--container-mounts={mounts}", "true")


def test_home_is_mounted_on_request_alone(call, image, user):
    script = ["sh", "-c", f"ls -d {user.home}/mark 2>/dev/null || echo no"]
    (user.home / "mark").touch()
    assert call.output(f"--container-image={image}", *script) == "no"
    assert call.output(f"--container-image={image}", "--container-mount-home", *script) == f"{user.home}/mark"
    assert "--container-mount-home and --no-container-mount-home contradict each other" in \
        call.error(f"--container-image={image}", "--container-mount-home", "--no-container-mount-home", *script)


def test_entrypoint_is_off_by_default(call, image):
    assert call.output(f"--container-image={image}", "echo", "command") == "command"
    assert call.output(f"--container-image={image}", "--container-entrypoint", "--container-entrypoint-log", "echo", "command") == "entry\ncommand"


def test_mpi_option_asks_for_the_hook(call, image):
    """The installation has none, which the engine says."""
    result = call("srun", f"--container-image={image}", "--container-mpi", "true")
    assert result.returncode == 0 and "MPI" in result.stderr, result.stderr
    assert "No MPI hook has the type 'mpich4'" in call.error(f"--container-image={image}", "--container-mpi=mpich4", "true")


def test_mpi_option_names_the_types_of_which_one_must_be_chosen(call, image, prefix):
    directory = prefix / "typed-hooks.d"
    directory.mkdir(exist_ok=True)
    for name in ("mpich4", "openmpi5"):
        when = {"annotations": {"^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": f"^{name}$"}}
        (directory / f"05-{name}.json").write_text(json.dumps({"version": "1.0.0", "hook": {"path": "/usr/bin/true"}, "stages": ["poststop"], "when": when}))
    installation.set_configuration(prefix, hooksDir=str(directory))
    try:
        result = call("srun", f"--container-image={image}", "--container-mpi", "true")
        assert result.returncode == 0 and "choose one of the types mpich4, openmpi5 (" in result.stderr, result.stderr
        assert "--container-mpi=TYPE" in result.stderr
        chosen = call("srun", f"--container-image={image}", "--container-mpi=openmpi5", "true")
        assert chosen.returncode == 0 and "MPI" not in chosen.stderr, chosen.stderr
        assert "Configured types: mpich4, openmpi5" in call.error(f"--container-image={image}", "--container-mpi=cray", "true")
    finally:
        installation.set_configuration(prefix, hooksDir=None)


def test_root_filesystem_can_be_readonly(call, image):
    script = ["sh", "-c", "touch /made 2>/dev/null && echo written || echo readonly"]
    assert call.output(f"--container-image={image}", *script) == "written"
    assert call.output(f"--container-image={image}", "--container-readonly", *script) == "readonly"


def test_root_inside_of_a_step(call, image):
    assert call.output(f"--container-image={image}", "--container-remap-root", "sh", "-c", "id -u; touch /etc/made && echo made") == "0\nmade"
    assert call.output(f"--container-image={image}", "id", "-u", env={"PYXIS_CONTAINER_REMAP_ROOT": "1"}) == "0"
    assert call.output(f"--container-image={image}", "--no-container-remap-root", "id", "-u", env={"PYXIS_CONTAINER_REMAP_ROOT": "1"}) != "0"


def test_images_of_pytorch_get_their_ranks(call, spank_engine, load_image, images):
    image = load_image(spank_engine, "torch", images.busybox({"Env": ["PATH=/bin", "PYTORCH_VERSION=2.3"]}))
    show = ["sh", "-c", "echo $MASTER_ADDR $((MASTER_PORT > 61000)) $WORLD_SIZE $RANK $LOCAL_RANK"]
    lines = sorted(call.output("-n", "2", "--overcommit", f"--container-image={image}", *show).splitlines())
    node, *rest = lines[0].split()
    assert rest == ["1", "2", "0", "0"] and lines[1] == f"{node} 1 2 1 1" and node
    assert call.output(f"--container-image={image}", *show, env={"MASTER_ADDR": "chosen", "RANK": "7"}) == "chosen 1 1 7 0"


def test_namespaces_that_are_not_shared(call, image):
    look = ["sh", "-c", "for kind in net ipc uts; do readlink /proc/self/ns/$kind; done"]
    of_node = call.output(f"--container-image={image}", *look).splitlines()
    alone = call.output(f"--container-image={image}", "--container-unshare=net,ipc,uts", *look).splitlines()
    network = call.output(f"--container-image={image}", "--container-unshare=net,net", *look).splitlines()
    assert not set(alone) & set(of_node) and network[0] != of_node[0] and network[1:] == of_node[1:]
    assert call.output(*look, env={"PYXIS_CONTAINER_IMAGE": image, "PYXIS_CONTAINER_UNSHARE": "uts"}).splitlines()[:2] == of_node[:2]


def test_values_of_listed_variables_come_from_the_host(call, image):
    script, env = ["sh", "-c", "echo $FROM_IMAGE"], {"FROM_IMAGE": "host, with = and\nline"}
    assert call.output(f"--container-image={image}", *script, env=env) == "image"
    assert call.output(f"--container-image={image}", "--container-env=FROM_IMAGE,MISSING", *script, env=env) == "host, with = and line"


@pytest.mark.parametrize("option, message", [
    ("--container-save=.", "is a directory"),
    ("--container-save=./", "is a directory"),
    ("--container-workdir=", "--container-workdir: the path is empty"),
    ("--container-workdir=../../proc/1", "it must not be below /proc"),
    ("--container-name=a/b", "--container-name: 'a/b' is not a valid name"),
    ("--container-name=work:exec", "--container-name: a batch script joins no container"),
    ("--container-name=7.0", "--container-name: a batch script joins no container"),
    ("--container-name=7.0:create", "--container-name: '7.0' is a job step, whose container can only be joined"),
    (f"--container-name={'n' * 115}", "A name has 1 to 114 of the characters"),
    ("--container-image=Not:A:Name", "Invalid image reference 'Not:A:Name'"),
    ("--container-image=host#Not/a name", "Invalid image reference"),
    ("--container-image=./missing.sqsh", "missing.sqsh: No such file or directory"),
    ("--container-image=./picture", "picture: it is not a squashfs file"),
    ("--container-unshare=net,user", "--container-unshare: 'user' is not known"),
    ("--container-unshare=", "--container-unshare: '' is not known"),
    ("--container-env=A=b", "--container-env: 'A=b' is not the name of a variable"),
])
def test_other_mistakes_are_reported_before_the_job_starts(call, image, option, message):
    folder = call.folder()
    (folder / "picture").write_text("no image")
    options = [option] if option.startswith("--container-image=") else [f"--container-image={image}", option]
    assert message in call.error("--hold", *options, "--wrap=true", program="sbatch", cwd=folder)


def test_what_only_starts_on_a_node_is_refused_before(call):
    """The script's container would end it with the job's first line; a step could not save what is another one's."""
    assert "--container-name: a batch script needs an image" in call.error("--hold", "--container-name=work", "--wrap=true", program="sbatch")
    assert "--container-save cannot be used with the name of a step" in call.error("--container-name=7.0", "--container-save=new.sqsh", "true")


def test_image_file_may_be_on_the_nodes_alone(call):
    """What a job copies to a directory of each node cannot be seen before."""
    assert call("sbatch", "--test-only", "--container-image=/tmp/on/the/node.sqsh", "--wrap=true").returncode == 0


def test_the_image_of_a_definition_is_checked_before_the_job_starts(call):
    definition = write_definition(call, 'image = "Not:A:Name"\n')
    assert "Invalid image reference" in call.error(f"--environment={definition}", "true")


def test_relative_working_directory_begins_at_that_of_the_image(call, image):
    for directory, expected in (("work", "/work"), ("./work/../usr", "/usr"), ("..", "/")):
        assert call.output(f"--container-image={image}", f"--container-workdir={directory}", "pwd") == expected


def test_options_of_a_step_win_over_those_of_its_allocation(call, image):
    script = "srun --container-writable --container-workdir=/usr sh -c 'touch /made && pwd'; srun sh -c 'touch /made 2>/dev/null || pwd'"
    result = call("salloc", "--quiet", f"--container-image={image}", "--container-readonly", "--container-workdir=/bin", "sh", "-c", script)
    assert result.stdout == "/usr\n/bin\n", result.stderr
    assert "contradict each other" in call.error("--hold", f"--container-image={image}", "--container-image=other", "--wrap=true", program="sbatch")


def test_options_without_a_container_are_an_error(call):
    assert "--container-workdir needs a container" in call.error("--container-workdir=/x", "true")


def test_variables_stand_for_options_of_srun(call, image):
    env = {"SARUS_CONTAINER_IMAGE": image, "SARUS_CONTAINER_WORKDIR": "/work"}
    assert call.output("./relative", env=env) == "the tool of the image"
    assert call.output("--container-workdir=/usr", "pwd", env=env) == "/usr"
    assert call.output("hostname", env={"SARUS_CONTAINER_WORKDIR": "/work", "SARUS_CONTAINER_IMAGE": ""}) == os.uname().nodename


def test_variables_of_pyxis_are_honoured_or_end_the_step(call, image):
    env = {"PYXIS_CONTAINER_IMAGE": image, "PYXIS_CONTAINER_WORKDIR": "/work", "PYXIS_CONTAINER_READONLY": "1"}
    script = ["sh", "-c", "pwd; touch /made 2>/dev/null || echo readonly"]
    assert call.output(*script, env=env) == "/work\nreadonly"
    assert call.output("--container-workdir=/usr", "--container-writable", *script, env=env) == "/usr"
    assert call.output("hostname", env={**env, "PYXIS_CONTAINER_IMAGE": ""}) == os.uname().nodename
    error = call.error("hostname", env={**env, "PYXIS_CONTAINER_NEWER": "x"})
    assert "PYXIS_CONTAINER_NEWER is not supported" in error and os.uname().nodename not in error
    try:
        installation.set_configuration(call.prefix, pyxisVariables=False)
        assert call.output("hostname", env={**env, "PYXIS_CONTAINER_NEWER": "x"}) == os.uname().nodename
    finally:
        installation.set_configuration(call.prefix, pyxisVariables=None)
    script = "#!/bin/sh\nhostname\nsrun hostname\n"
    assert call.batch(script, env={"PYXIS_CONTAINER_IMAGE": image}) == f"{os.uname().nodename}\nthe tool of the image\n"


# Environment definition files


def write_definition(call, text, name="job.toml", folder=None):
    folder = folder or call.folder()
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize("option", ["environment", "edf"])
def test_environment_definition(call, image, option):
    folder = call.folder()
    write_definition(call, f'image = "{image}"\nmounts = ["{folder}:/in:ro"]\n[env]\nQUOTED = "a\\"b\\\\c\\n$$d"\n', "base.toml", folder)
    path = write_definition(call, f'base_environment = "{folder}/base.toml"\nworkdir = "/in"\n[annotations]\ncom.hooks.none = true\n', folder=folder)
    script = ["sh", "-c", "pwd; ls job.toml; echo \"$QUOTED\""]
    assert call.output(f"--{option}={path}", *script) == '/in\njob.toml\na"b\\c\n$d'


def test_name_of_a_definition_is_searched(call, image, user):
    folder = user.home / ".edf"
    folder.mkdir(exist_ok=True)
    write_definition(call, f'image = "{image}"\n', "named.toml", folder)
    assert call.output("--environment=named", "hostname") == "the tool of the image"
    assert "the environment definition 'missing' was not found" in call.error("--environment=missing", "true")


def test_options_win_over_the_definition(call, image):
    path = write_definition(call, 'image = "nobody/has:this"\nworkdir = "/"\nwritable = false\n')
    options = [f"--environment={path}", f"--container-image={image}", "--container-workdir=/work", "--container-entrypoint", "--container-writable"]
    assert call.output(*options, "sh", "-c", "touch made && ./relative") == "entry\nthe tool of the image"


def test_definition_is_read_when_the_job_is_submitted(call, image):
    path = write_definition(call, f'image = "{image}"\n[env]\nREAD = "before"\n')
    script = path.parent / "job.sh"
    script.write_text("#!/bin/sh\necho $READ\n")
    submitted = call("sbatch", "--parsable", "--hold", f"--environment={path}", f"--output={path.parent}/%j", script)
    path.write_text('image = "nobody/has:this"\n')
    job = submitted.stdout.strip()
    call.user.own(path.parent)
    assert call("scontrol", "release", job).returncode == 0
    assert system.eventually(lambda: (path.parent / job).exists() and (path.parent / job).read_text() == "before\n")


@pytest.mark.parametrize("text, message", [
    ("image = 3", "expected a string"), ("workdir = '/x'", "names no image"), ("image =", "not valid TOML"),
    ("image = 'i'\nmounts = ['/a:/b:squash']", "squash"), ("image = 'i'\ndevices = ['gpu']", "gpu"), ("image = 'i'\nworkdir = 'here'", "here"),
    ("image = 'A B'", "Invalid image reference")])
def test_mistakes_in_a_definition_are_reported_before_the_job_starts(call, text, message):
    definition = write_definition(call, text)
    assert message in call.error("--test-only", f"--environment={definition}", "--wrap=true", program="sbatch")


def test_a_definition_may_name_variables_of_the_node_and_the_kind_of_registry(call, image):
    """The registry as other engines name it: the same as with `sarus run --edf`."""
    text = f"image = 'docker://{image}'\nmounts = ['$SLURM_JOB_ID_OF_NO_LOGIN_NODE:/b:squash']\nworkdir = '$UNKNOWN'\n"
    assert call("sbatch", "--test-only", f"--environment={write_definition(call, text)}", "--wrap=true").returncode == 0
    assert call.output(f"--environment={write_definition(call, f'image = {chr(34)}docker://{image}{chr(34)}')}", "hostname") == "the tool of the image"


# Batch scripts and allocations


def test_batch_script_runs_in_the_container(call, image):
    script = "#!/bin/sh\n#SBATCH --container-workdir=/work\nonly-in-the-image; pwd; echo $1; env | grep -E 'SLURM_SARUS|SLURM_SPANK' || echo none\n"
    assert call.batch(script, f"--container-image={image}", arguments=["an argument"]) == "the tool of the image\n/work\nan argument\nnone\n"


def test_number_sign_in_a_line_of_a_batch_script(call, image):
    registry, name = image.split("/", 1)
    assert call.batch(f"#!/bin/sh\n#SBATCH --container-image {registry}\\#{name}\nonly-in-the-image\n") == "the tool of the image\n"


def test_steps_of_a_batch_script_are_not_in_its_container(call, image):
    """What srun would take the options from is gone; without a container around the script, variables choose one for each step."""
    assert call.batch("#!/bin/sh\nenv | grep SPANK_OPTION || echo none\n", f"--container-image={image}") == "none\n"
    script = f"#!/bin/sh\nsrun hostname\nexport SARUS_CONTAINER_IMAGE={image}\nsrun hostname\n"
    assert call.batch(script) == f"{os.uname().nodename}\nthe tool of the image\n"


def test_options_of_salloc_are_for_the_steps_of_the_allocation(call, image):
    result = call("salloc", "--quiet", f"--container-image={image}", "sh", "-c", "hostname; srun hostname")
    assert result.stdout == f"{os.uname().nodename}\nthe tool of the image\n", result.stderr


def test_shell_of_salloc_is_outside_of_the_container_also_as_a_step(call, image):
    result = call("salloc", "--quiet", f"--container-image={image}", stdin=None, input="hostname; echo $SLURM_STEP_ID; srun --overlap hostname\n",
                  env={"SHELL": "/bin/sh"})
    assert result.stdout == f"{os.uname().nodename}\n4294967290\nthe tool of the image\n", result.stderr


# The image


def usable(call):
    state = call("sinfo", "--noheader", "--format=%T").stdout.strip()
    return state in ("idle", "mixed", "allocated", "completing")


def test_image_is_pulled_once(call, registry, image_description, spank_engine):
    name = registry.push(image_description, "spank/pulled:1")
    options = [f"--container-image=someone@{name.replace('/', '#', 1)}"]
    assert call.output("-n", 4, *options, "hostname").splitlines() == ["the tool of the image"] * 4
    assert registry.host in spank_engine.sarus("images").stdout
    asked = len(registry.requests())
    assert call.output(*options, "hostname") == "the tool of the image"
    definition = write_definition(call, f'image = "{name}"\n')
    assert call.output(f"--environment={definition}", "hostname") == "the tool of the image"
    assert len(registry.requests()) == asked


def test_image_of_a_definition_is_pulled(call, registry, image_description):
    name = registry.push(image_description, "spank/defined:1")
    definition = write_definition(call, 'image = "${SERVER}#spank/defined:1"\n')
    assert call.output(f"--environment={definition}", "hostname", env={"SERVER": name.split("/")[0]}) == "the tool of the image"


def test_error_of_the_pull_reaches_the_user_once(call, registry):
    error = call.error("-n", 4, f"--container-image={registry.host}#spank/missing:1", "true")
    assert error.count("Failed to pull image") == 1, error
    assert usable(call)


def test_a_mistake_is_said_once_by_all_tasks(call, image):
    error = call.error("-n", 4, f"--container-image={image}", "--container-mounts=/missing:/x", "true")
    assert error.count("/missing") == 1, error
    error = call.error("-n", 4, "sh", "-c", "exec $0 run missing:1 true", call.prefix / "bin/sarus")
    assert error.count("missing:1 is not available") == 1, error


def test_cancelled_pull_frees_the_node(call):
    """Slurm can neither signal nor end a step before its tasks have started, and drains the node."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(300)
        image = f"127.0.0.1:{silent.getsockname()[1]}#silent/image"
        step = call.start("--job-name=spank-silent", f"--container-image={image}", "true")
        connection, _ = silent.accept()
        assert call("scancel", "--name=spank-silent").returncode == 0
        step.communicate(timeout=300)
        assert step.returncode != 0
        assert system.eventually(lambda: call("sinfo", "--noheader", "--format=%T").stdout.strip() == "idle", interval=0.2)
        connection.close()


def test_image_file(call, image):
    folder = call.folder()
    path, = call.user.home.glob(".sarus/images/load/library/spank/*.squashfs")
    shutil.copy(path, folder / "copy.squashfs")
    call.user.own(folder / "copy.squashfs")
    assert call.output("--container-image=./copy.squashfs", "/usr/local/bin/hostname", cwd=folder) == "the tool of the image"


def test_files_of_data_are_mounted(call, image):
    folder = call.folder()
    (folder / "tree").mkdir()
    (folder / "tree/name").write_text("data\n")
    subprocess.run(["mksquashfs", folder / "tree", folder / "data.sqsh", "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    sif.make(folder / "data.sif", ((folder / "data.sqsh").read_bytes(), sif.SQUASHFS, sif.PRIMARY))
    call.user.own(folder)
    mounts = f"{folder}/data.sqsh:/first:sqsh,{folder}/data.sif:/second:sqsh"
    assert call.output(f"--container-image={image}", f"--container-mounts={mounts}", "cat", "/first/name", "/second/name") == "data\ndata"


# Names


def test_step_joins_the_running_container_of_that_name(call, image):
    """Of its job: a container of the name in another job does not count."""
    script = f"""#!/bin/sh
exec 2>/dev/null
srun --overlap --quiet --container-name=joined --container-image={image} sh -c 'echo made > /mark; echo ready; exec sleep 1000' > $1/started &
until grep -q ready $1/started; do sleep 0.1; done
srun --overlap -n 2 --container-name=joined --container-workdir=/work sh -c 'echo $(cat /mark) $(pwd)'
srun --overlap --container-name=joined:create --container-image={image} true 2>&1 | grep -o 'There is a .*'
env -u SLURM_JOB_ID -u SLURM_JOBID srun --container-name=joined true 2>&1 | grep -o 'There is no .*'
kill $!
wait $!
while {call.prefix}/bin/sarus ps | grep -q ^joined; do sleep 0.1; done
srun --container-name=joined:exec true 2>&1 | grep -o 'There is no .*'
srun --container-name=joined sh -c 'echo again >> /mark'
srun --container-name=joined:no_exec --container-image={image} cat /mark
srun --overlap -n 3 --container-name=joined hostname | sort -u
srun --container-name=other:create --container-image={image} sh -c 'test -e /mark || echo anew'
"""
    lines = call.batch(script, arguments=[call.folder()]).splitlines()
    here = "with the name 'joined' on this node in this job"
    assert lines == ["made /work"] * 2 + [f"There is a container {here} already",
                                          f"There is no container {here}, and no image to start it from", f"There is no running container {here}",
                                          "made", "again", "the tool of the image", "anew"]


@pytest.mark.parametrize("tasks", [1, 3])
def test_of_steps_that_start_at_once_one_makes_the_container_and_the_others_join_it(call, image, tasks):
    folder = call.folder()
    script = f"""#!/bin/sh
exec 2>$1/messages
for round in 1 2 3; do
    for step in 1 2 3; do
        srun --overlap --quiet -n {tasks} --container-name=round$round --container-image={image} sh -c "
            readlink /proc/self/ns/mnt; : >/$step; for i in \\$(seq 600); do [ -e /1 -a -e /2 -a -e /3 ] && break; sleep 0.1; done; sleep 0.5" &
    done
    wait
done
"""
    lines = call.batch(script, f"--ntasks={tasks}", arguments=[folder]).splitlines()
    each = 3 * tasks
    assert len(lines) == 3 * each and all(len(set(lines[start:start + each])) == 1 for start in (0, each, 2 * each)), \
        "\n".join(lines + [(folder / "messages").read_text()])


def test_a_command_joins_the_container_of_a_step_by_its_number(call, image):
    """Which has no name."""
    folder = call.folder()
    script = f"""#!/bin/sh
exec 2>/dev/null
srun --overlap -n 2 --container-image={image} sh -c 'test $SLURM_PROCID != 0 || echo made > /mark; echo ready $$; exec sleep 1000' > $1/started &
until test "$(grep -c ready $1/started)" = 2; do sleep 0.1; done
number=$SLURM_JOB_ID.$({call.prefix}/bin/sarus ps --json | sed 's/.*"step":"\\([0-9]*\\)".*/\\1/')
srun --overlap -n 2 --container-name=$number sh -c 'echo task $SLURM_PROCID in $(cat /mark)'
srun --overlap -n 1 --container-name=$number:exec --container-image={image} cat /mark
srun --overlap -n 1 --container-name=$SLURM_JOB_ID.999 true 2>&1 | sed "s/$SLURM_JOB_ID/JOB/g" | grep 'running container'
srun --overlap -n 1 --container-name=1000000.0 true 2>&1 | grep -e 'another job' -e ' own job'
kill $(sed "s/ready //" $1/started); wait $! || :
"""
    lines = call.batch(script, "--ntasks=2", arguments=[folder]).splitlines()
    assert sorted(lines[:2]) == ["task 0 in made", "task 1 in made"]
    assert lines[2:] == ["made", "There is no running container of the step 'JOB.999' on this node",
                         "--container-name: the step 1000000.0 belongs to another job",
                         "A command joins containers of its own job: srun --jobid=1000000 --overlap --container-name=1000000.0"]


def test_a_container_that_is_ending_is_not_joined(call, image):
    """Whoever ends it takes a moment after its program: here that one is stopped."""
    step = call.start("--container-name=ending", f"--container-image={image}", "sh", "-c", "echo $$ $SLURM_JOB_ID; exec sleep 1000")
    program, job = step.stdout.readline().split()
    runtime = parent(program)
    supervisors = [parent(runtime), runtime]
    for pid in supervisors:
        system.kill(pid, signal.SIGSTOP)
    system.kill(int(program))
    error = call.error("--overlap", f"--jobid={job}", "--container-name=ending:exec", "true")
    for pid in supervisors:
        system.kill(pid, signal.SIGCONT)
    step.communicate(timeout=300)
    assert "There is no running container with the name 'ending' on this node in this job" in error


def parent(pid):
    return int(re.search(r"^PPid:\t(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1])


def test_options_that_a_running_container_does_not_have_end_the_step(call, image, spank_engine, load_image, plain_busybox):
    """Each task meets them, and one says so. The same options again are fine, and what holds for the command alone."""
    other = load_image(spank_engine, "spank-other", plain_busybox)
    folder = call.folder()
    wrong = [f"--container-image={other}", "--container-mounts=/usr:/mnt/other", "--container-mounts=/tmp:/mnt/own:ro", "--container-mount-home",
             "--container-writable", "--container-remap-root", "--container-unshare=ipc,uts", "--container-entrypoint"]
    fine = ["--container-name=full", f"--container-image={image} --container-mounts=/tmp:/mnt/own", "--container-readonly --container-unshare=net",
            "--no-container-entrypoint --no-container-remap-root", "--container-workdir=/work --container-env=OWN"]
    script = f"""#!/bin/sh
exec 2>/dev/null
srun --overlap --quiet --container-name=full --container-image={image} --container-mounts=/tmp:/mnt/own --container-readonly --container-unshare=net \
    sh -c 'echo ready $$; exec sleep 1000' > $1/started &
until grep -q ready $1/started; do sleep 0.1; done
export OWN=own
for options in {" ".join(f"'{one}'" for one in fine)}; do srun --overlap --quiet --container-name=full $options sh -c 'echo "joined $OWN"'; done
for options in {" ".join(f"'{one}'" for one in wrong)}; do
    srun --overlap --quiet -n 3 --container-name=full $options echo ran 2> $1/error
    echo "status $? lines $(grep -c 'runs already and cannot change' $1/error)"
    sed -n 's/.*cannot change: //p' $1/error
done
grep 'Leave these options out' $1/error
kill $(sed "s/ready //" $1/started); wait $! || :
"""
    lines = call.batch(script, arguments=[folder]).splitlines()
    assert lines[:5] == ["joined own"] * 5, lines
    rest = lines[5:-1]
    assert rest[0::2] == ["status 1 lines 1"] * len(wrong), lines
    assert rest[1::2] == [f"image: {image}:latest instead of {other}:latest", "mount on /mnt/other: none instead of /usr", "mount on /mnt/own: /tmp instead of /tmp (read-only)",
                          f"mount on {call.user.home}: none instead of {call.user.home}", "read-only root filesystem: yes instead of no",
                          "root in the container: no instead of yes", "IPC of its own: no instead of yes; host name of its own: no instead of yes",
                          "entrypoint of the image: no instead of yes"]
    assert lines[-1].strip() == "Leave these options out to join it as it is, or choose another name"


def test_a_definition_must_be_that_of_the_running_container(call, image):
    """Its variables hold for the command that joins."""
    folder = call.folder()
    (folder / "one.toml").write_text(f'image = "{image}"\nmounts = ["/tmp:/mnt/one"]\n[env]\nOF = "one"\n')
    (folder / "two.toml").write_text('base_environment = "one"\nmounts = ["/tmp:/mnt/two"]\n[env]\nOF = "two"\n')
    script = f"""#!/bin/sh
exec 2>/dev/null
export EDF_PATH={folder}
srun --overlap --quiet --container-name=defined --environment=one sh -c 'echo ready $$; exec sleep 1000' > $1/started &
until grep -q ready $1/started; do sleep 0.1; done
srun --overlap --quiet --container-name=defined --environment=one sh -c 'echo $OF'
srun --overlap --quiet --container-name=defined --environment=two sh -c 'echo $OF' 2>&1 | sed -n 's/.*cannot change: //p'
kill $(sed "s/ready //" $1/started); wait $! || :
"""
    assert call.batch(script, arguments=[folder]).splitlines() == ["one", "mount on /mnt/two: none instead of /tmp"]


def test_several_tasks_can_start_under_a_name(call, image):
    result = call.output("-n", 3, "--container-name=several", f"--container-image={image}", "hostname")
    assert result.splitlines() == ["the tool of the image"] * 3


# Hostile users


def test_request_in_the_environment_is_ignored(call):
    assert call.output("hostname", env={"SLURM_SARUS_STEP": "garbage\n", "SLURM_SARUS_MODE": "run"}) == os.uname().nodename


def test_damaged_request_ends_with_a_message(call):
    error = call.error("--export=ALL,SLURM_SARUS_STEP=garbage", "true")
    assert "The description of the container is damaged" in error and usable(call)


@pytest.fixture
def spy_library(workspace):
    source = workspace / "spy.c"
    source.write_text("""
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        __attribute__((constructor)) static void spy(void) {
            uid_t r, e, s; getresuid(&r, &e, &s);
            FILE* file = getenv("SPY_FILE") ? fopen(getenv("SPY_FILE"), "a") : NULL;
            if (file) { fprintf(file, "%d %d %d\\n", (int)r, (int)e, (int)s); fclose(file); }
        }
    """)
    library = workspace / "spy.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_preloaded_library_never_gets_rights_of_root(call, image, spy_library):
    log = call.folder() / "log"
    env = {"LD_PRELOAD": str(spy_library), "SPY_FILE": str(log),
           "LD_LIBRARY_PATH": str(log.parent), "SLURM_SARUS_SHARED": "2", "SPANK_X": "y", "_SLURM_SPANK_OPTION_sarus_edf": "z"}
    assert call.output(f"--container-image={image}", "hostname", env=env) == "the tool of the image"
    uid = call.user.uid
    assert set(log.read_text().splitlines()) == {f"{uid} {uid} {uid}"}


def test_paths_that_the_user_cannot_read_are_refused(call, image, workspace):
    secret = workspace / "spank-secret"
    secret.mkdir(exist_ok=True)
    (secret / "secret.toml").write_text("image = 'secret'\n")
    secret.chmod(0o700)
    assert "Permission denied" in call.error(f"--container-image={secret}/x.squashfs", "true")
    assert "Permission denied" in call.error(f"--container-image={image}", f"--container-mounts={secret}/x:/x", "true")
    error = call.error(f"--environment={secret}/secret.toml", "true")
    assert "Permission denied" in error and "'secret'" not in error
    assert usable(call)


def test_pipe_as_definition_is_read_on_the_submitting_side_once(call, image):
    folder = call.folder()
    pipe = folder / "pipe.toml"
    os.mkfifo(pipe)
    call.user.own(pipe)
    writer = subprocess.Popen(["sh", "-c", f"printf 'image = \"%s\"\\n' {image} > {pipe}"])
    assert call.output(f"--environment={pipe}", "hostname") == "the tool of the image"
    assert writer.wait(timeout=300) == 0


def test_paths_with_newlines_add_no_options(call, image):
    folder = call.folder() / "x\nboth=--env=INJECTED"
    folder.mkdir()
    assert call.output(f"--container-image={image}", f"--container-mounts={folder}:/in", "sh", "-c", "ls -d /in; echo $INJECTED") == "/in"
    plain = folder.parent / "x\nrun\\n"
    plain.mkdir()
    assert call.output(f"--container-image={image}", f"--container-mounts={plain}:/in", "sh", "-c", "ls -d /in; echo $INJECTED") == "/in"


# The plugin itself


def test_plugin_shows_slurm_its_entry_points_alone(prefix):
    listed = subprocess.run(["nm", "-D", "--defined-only", prefix / "lib/slurm/spank_sarus.so"], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert all(name.startswith(("slurm_spank_", "plugin_", "spank_plugin_version")) for name in names), names
    needed = subprocess.run(["readelf", "-d", prefix / "lib/slurm/spank_sarus.so"], check=True, capture_output=True, text=True).stdout
    assert "libstdc++" not in needed and "libslurm" not in needed


@pytest.fixture(scope="module")
def old_plugin(prefix, workspace):
    """The plugin of an installation that was built for Slurm 20.11. Slurm compares the version in the plugin with its own."""
    plugin = workspace / "old" / "lib" / "slurm" / "spank_sarus.so"
    plugin.parent.mkdir(parents=True)
    symbols = subprocess.run(["readelf", "-Ws", prefix / "lib/slurm/spank_sarus.so"], check=True, capture_output=True, text=True).stdout
    address = int(re.search(r"([0-9a-f]{16})\s+4 OBJECT .* plugin_version\n", symbols).group(1), 16)  # .rodata: the address is the offset
    content = bytearray((prefix / "lib/slurm/spank_sarus.so").read_bytes())
    content[address:address + 4] = (0x140b00).to_bytes(4, "little")
    plugin.write_bytes(re.sub(rb"(spank_sarus for Slurm )\d\d\.\d\d", rb"\g<1>20.11", bytes(content)))
    (workspace / "old" / "bin").mkdir()
    shutil.copy(prefix / "bin/sarus", workspace / "old" / "bin")
    return plugin


def own_configuration(site, workspace):
    """A folder with a copy of the cluster's configuration."""
    folder = installation.unused(workspace / "own-configuration")
    shutil.copytree(site.directory, folder, ignore=lambda *_: ["state", "spool", "tmp", "run-munge", "munge.key", "etc-slurm"])
    return folder


def test_plugin_for_another_version_of_slurm_ends_no_step_and_doctor_explains(site, old_plugin, workspace):
    folder = own_configuration(site, workspace)
    (folder / "plugstack.conf").write_text(f"include {folder}/sarus*.conf\n")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(*argv):
        return subprocess.run(list(map(str, argv)), env=environment, capture_output=True, text=True, timeout=300)

    for word, status, effect in (("required", "error", "every srun fails"), ("optional", "warning", "srun has no --container-image")):
        (folder / "sarus.conf").write_text(f"{word} {old_plugin}\n")
        found, = (finding for finding in json.loads(run(workspace / "old/bin/sarus", "doctor", "--json").stdout) if finding["check"] == "Slurm plugin")
        assert found["status"] == status and re.search(rf"for Slurm 20\.11, and this node has Slurm \d\d\.\d\d: {effect}", found["message"]), found
        assert (f"write 'optional' for 'required' in {folder}/sarus.conf" in found["cure"]) == (word == "required"), found
    result = run(system.program("srun"), "hostname")
    assert (result.returncode, result.stdout) == (0, f"{os.uname().nodename}\n") and "ncompatible" in result.stderr, result.stderr


def test_node_that_does_not_load_the_plugin_runs_no_command(site, call, image, workspace):
    folder = own_configuration(site, workspace)
    nodes = site.directory / "plugstack.conf"
    line = nodes.read_text()
    nodes.write_text("")
    try:
        result = call("srun", f"--container-image={image}", "hostname", env={"SLURM_CONF": str(folder / "slurm.conf")})
    finally:
        nodes.write_text(line)
    assert result.returncode != 0 and result.stdout == "" and "/spank_sarus.so/is/not/loaded/on/this/node/hostname" in result.stderr, result.stdout + result.stderr


def test_doctor_advises_against_a_required_plugin(site, prefix, workspace, call):
    folder = own_configuration(site, workspace)
    for word, status in (("required", "warning"), ("optional", "ok")):
        (folder / "plugstack.conf").write_text(f"{word} {prefix}/lib/slurm/spank_sarus.so\n")
        answer = subprocess.run([prefix / "bin/sarus", "doctor", "--json"], env=call.user.environment(SLURM_CONF=str(folder / "slurm.conf")),
                                capture_output=True, text=True, timeout=300, **call.user.identity())
        found, = (finding for finding in json.loads(answer.stdout) if finding["check"] == "Slurm plugin")
        assert found["status"] == status and f"{prefix}/lib/slurm/spank_sarus.so is for Slurm " in found["message"], found
