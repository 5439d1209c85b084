"""Environment definition files: `sarus run --edf FILE|NAME`."""

import json
import os

import pytest
from helpers import installation


@pytest.fixture(params=["setuid-crun", "rootless-crun", "root-crun"])
def edf_engine(request, engines):
    return engines(*request.param.split("-"))


@pytest.fixture
def image(load_image, plain_busybox):
    return lambda engine: load_image(engine, "busybox", plain_busybox)


@pytest.fixture
def work(edf_engine):
    """A directory of the user's, with a search path `edf` in it."""
    directory = edf_engine.user.home / "edf-work"
    for path in (directory, directory / "edf", directory / "data"):
        path.mkdir(parents=True)
        os.chown(path, edf_engine.user.uid, edf_engine.user.gid)
    (directory / "data" / "file").write_text("data")
    yield directory
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()


class Edf:
    def __init__(self, engine, image, work):
        self.engine, self.image, self.work = engine, image, work

    def write(self, name, text, with_image=True):
        path = self.work / "edf" / f"{name}.toml"
        path.write_text((f'image = "{self.image}"\n' if with_image else "") + text)
        return path

    def sarus(self, name, *command, options=(), env=None):
        environment = {"EDF_PATH": f"/nonexistent:{self.work}/edf", "WORK": str(self.work), **(env or {})}
        return self.engine.sarus("run", f"--edf={name}", *options, *command, cwd=self.work, env=environment)

    def output(self, name, *command, **keywords):
        result = self.sarus(name, *command, **keywords)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout.rstrip("\n")

    def error(self, name, *command, **keywords):
        result = self.sarus(name, *command, **keywords)
        assert result.returncode == 1 and result.stdout == "", result.stdout + result.stderr
        return result.stderr


@pytest.fixture
def edf(edf_engine, image, work):
    return Edf(edf_engine, image(edf_engine), work)


def test_every_key_has_its_effect(edf):
    edf.write("job", """
        mounts = ["${WORK}/data:/data:ro", "./data:/rel"]
        devices = ["/dev/null:/dev/mine:rw"]
        workdir = "/rel"
        writable = false
        [env]
        GREETING = "hello $$USER ${NAME:-world}"
        GONE = ""
        [annotations]
        com.example.flag = true
        """)
    script = 'pwd; cat file; echo; echo $GREETING; echo ${GONE-unset}; test -c /dev/mine && echo device; ' \
             '(echo x > /data/file) 2>/dev/null || echo readonly; (echo x > /new) 2>/dev/null || echo readonly root; echo x > /dev/shm/sarus-edf && rm /dev/shm/sarus-edf'
    assert edf.output("job", "/bin/sh", "-c", script, env={"GONE": "set"}).splitlines() == \
        ["/rel", "data", "hello $USER world", "unset", "device", "readonly", "readonly root"]
    plan = edf.output("job", "true", options=["--dry-run"])
    assert "com.example.flag" in plan and "true" in plan


def test_dry_run_names_the_file_in_which_a_value_stands(edf):
    file = f"{edf.work}/edf/job.toml"
    edf.write("base", """devices = ["/dev/null:/dev/mine:rw"]""")
    edf.write("job", """base_environment = "base"
mounts = ["${WORK}/data:/data:ro"]
[env]
GREETING = "hello"
BOTH = "edf"
[annotations]
com.example.flag = true
com.example.both = true
""")
    options = ["--dry-run", "-e", "BOTH=option", "-e", "MINE=1", "--annotation", "com.example.both=option", f"--mount=type=bind,source={edf.work},destination=/mine"]
    text = edf.output("job", "true", options=options)
    data = f"{edf.work}/data"
    for line in (f"  /data from {data}, read-only  [EDF file {file}:3: mounts[0]]", f"  /mine from {edf.work}  [command line (--mount)]",
                 f"  GREETING=hello  [EDF file {file}:5: env.GREETING]", "  BOTH=option  [command line (--env)]", "  MINE=1  [command line (--env)]",
                 f"  com.example.flag=true  [EDF file {file}:8: annotations.com.example.flag]",
                 "  com.example.both=option  [command line (--annotation)]"):
        assert line in text.splitlines(), (line, text)
    assert f"[EDF file {edf.work}/edf/base.toml:2: devices[0]]" in text
    plan = json.loads(edf.output("job", "true", options=[*options, "--json"]))
    origins = {kind: {entry.get("destination", entry.get("name")): entry["origin"] for entry in plan[kind]}
               for kind in ("mounts", "devices", "environment", "annotations")}
    assert origins["mounts"]["/data"] == f"EDF file {file}:3: mounts[0]"
    assert origins["devices"]["/dev/mine"] == f"EDF file {edf.work}/edf/base.toml:2: devices[0]"
    assert origins["environment"]["GREETING"] == f"EDF file {file}:5: env.GREETING"
    assert origins["environment"]["BOTH"] == "command line (--env)"
    assert origins["annotations"]["com.example.both"] == "command line (--annotation)"


def test_environment_is_the_same_option(edf):
    edf.write("job", "")
    result = edf.engine.sarus("run", "--environment", f"{edf.work}/edf/job.toml", "echo", "works")
    assert result.stdout == "works\n", result.stderr


def test_definition_can_come_from_a_descriptor(edf):
    """As a shell's <(PROGRAM) names it."""
    read, write = os.pipe()
    os.fchown(read, edf.engine.user.uid, edf.engine.user.gid)
    os.write(write, f'image = "{edf.image}"\n'.encode())
    os.close(write)
    assert edf.engine.output(f"--edf=/dev/fd/{read}", "echo", "started", pass_fds=[read]) == "started"
    os.close(read)


def test_paths_are_relative_to_the_current_directory(edf):
    edf.write("job", "")
    assert edf.output("./edf/job.toml", "echo", "works") == "works"
    assert edf.output("edf/job.toml", "echo", "works") == "works"


def test_the_command_line_wins(edf):
    edf.write("job", 'workdir = "/etc"\n[env]\nA = "edf"\nB = "edf"\n')
    assert edf.output("job", "/bin/sh", "-c", "echo $A $B; pwd", options=["-e", "A=cli", "--workdir=/bin"]).splitlines() == ["cli edf", "/bin"]


def test_without_an_image_of_its_own_the_first_word_is_the_image(edf):
    edf.write("base", '[env]\nA = "base"\n', with_image=False)
    assert edf.output("base", edf.image, "/bin/sh", "-c", "echo $A") == "base"
    assert "Neither the environment definition nor the command line names an image" in edf.error("base")


def test_bases_are_read_first(edf):
    edf.write("base", 'mounts = ["${WORK}/data:/data"]\nworkdir = "/data"\n[env]\nA = "base"\nB = "base"\n')
    edf.write("job", 'base_environment = "base"\nworkdir = "/bin"\n[env]\nB = "job"\n', with_image=False)
    assert edf.output("job", "/bin/sh", "-c", "pwd; cat /data/file; echo; echo $A $B").splitlines() == ["/bin", "data", "base job"]


def test_the_sites_directories_come_last(edf, edf_engine):
    site = edf_engine.prefix / "etc" / "edf"
    site.mkdir()
    (site / "job.toml").write_text(f'image = "{edf.image}"\n[env]\nA = "site"\n')
    (site / "only.toml").write_text(f'image = "{edf.image}"\n[env]\nA = "site"\n')
    edf.write("job", '[env]\nA = "user"\n')
    installation.set_configuration(edf_engine.prefix, edfSystemSearchPath=[str(site)])
    try:
        assert edf.output("job", "/bin/sh", "-c", "echo $A") == "user"
        assert edf.output("only", "/bin/sh", "-c", "echo $A") == "site"
        assert f"There is no lost.toml in /nonexistent, {edf.work}/edf, {site}" in edf.error("lost", "true")
    finally:
        installation.set_configuration(edf_engine.prefix, edfSystemSearchPath=None)
        for file in site.iterdir():
            file.unlink()
        site.rmdir()


def test_entrypoint_is_used_only_if_asked_for(edf, images, load_image):
    edf.image = load_image(edf.engine, "edf-entrypoint", images.busybox({"Entrypoint": ["/bin/echo", "entry"], "Env": ["PATH=/bin", "IMAGE_SAYS=from-image"]}))
    edf.write("without", "")
    edf.write("with", 'entrypoint = true\nworkdir = "/${IMAGE_SAYS}"\n')
    assert edf.output("without", "/bin/echo", "plain") == "plain"
    assert edf.output("with", "words") == "entry words"
    assert edf.output("with", "--", "-c", "pwd", options=["--entrypoint=/bin/sh"], env={"IMAGE_SAYS": "host"}) == "/from-image", "variables of the image come first"


def test_nothing_in_a_value_is_executed(edf):
    edf.write("job", "[env]\nA = '`touch ${WORK}/hacked`'\nB = \"$$(touch ${WORK}/hacked)\"\nC = \"$EVIL\"\n")
    assert edf.output("job", "/bin/sh", "-c", 'echo "$A" "$C"', env={"EVIL": "$(touch hacked) ${WORK}"}) == \
        f"`touch {edf.work}/hacked` $(touch hacked) ${{WORK}}"
    assert not (edf.work / "hacked").exists()


@pytest.mark.parametrize("text, message", [
    ("mounts = [", ": not valid TOML: "),
    ("workdir = 5", ":2: workdir: expected a string, found an integer"),
    ("mounts = ['/a:/b:squash']", ":2: mounts[0]: the mount flag 'squash' is not supported"),
    ("mounts = ['${NOWHERE}:/b']", ":2: mounts[0]: the variable 'NOWHERE' is not defined"),
    ("base_environment = 'lost'", ":2: base_environment: the environment definition 'lost' was not found"),
    ("base_environment = 'job'", ":2: base_environment: the environment definition inherits from itself"),
    ("devices = ['gpu']", ":2: devices[0]: Invalid device request 'gpu'"),
    ("devices = ['v.com/gpu=0']", "Unknown CDI device 'v.com/gpu=0'"),
    ("workdir = 'here'", ":2: workdir: The working directory 'here' is invalid"),
    ("[env]\nA = '$(id)'", ":3: env.A: the name of a variable is missing after '$'"),
    ("[annotations]\nrun.oci.x = 'y'", "'run.oci.x' is reserved for the administrator"),
])
def test_bad_input_is_one_line_with_file_and_key(edf, text, message):
    path = edf.write("job", text)
    error = edf.error("job", "true")
    assert message in error.splitlines()[0]
    if message.startswith(":"):
        assert error.startswith(str(path))


def test_unknown_keys_are_ignored_with_a_warning(edf):
    path = edf.write("job", "mount = []")
    result = edf.sarus("job", "echo", "works")
    assert result.stdout == "works\n"
    assert f"{path}:2: mount: unknown key, ignored (did you mean 'mounts'?)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_unknown_keys_are_a_mistake_for_validate(edf):
    """The schema allows them, so containers start; whoever asks for mistakes wants to hear of them, also of inherited ones."""
    base = edf.write("base", "mount = []")
    edf.write("job", 'base_environment = "base"', with_image=False)
    result = edf.engine.sarus("edf", "validate", "job", env={"EDF_PATH": str(base.parent)})
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"{base}:2: mount: unknown key, ignored (did you mean 'mounts'?)\n"


def test_a_cdi_device_of_a_definition(edf, edf_engine):
    directory = edf_engine.prefix / "etc" / "edf-cdi"
    directory.mkdir()
    file = directory / "v.json"
    file.write_text('{"cdiVersion": "0.5.0", "kind": "v.com/gpu", "devices": [{"name": "all", "containerEdits": {"env": ["GPU=here"]}}]}')
    installation.set_configuration(edf_engine.prefix, cdiSpecDirs=[str(directory)])
    edf.write("job", 'devices = ["v.com/gpu=all"]')
    try:
        assert edf.output("job", "/bin/sh", "-c", "echo $GPU") == "here"
    finally:
        installation.set_configuration(edf_engine.prefix, cdiSpecDirs=None)
        file.unlink()
        directory.rmdir()


@pytest.mark.parametrize("mode", ["setuid-crun", "setuid-runc", "rootless-crun", "rootless-runc", "root-crun"])
def test_a_read_only_root(engines, image, mode):
    engine = engines(*mode.split("-"))
    script = "(echo x > /new) 2>&1 | grep -o 'Read-only file system'; echo x > /dev/shm/sarus-ro-$$ && rm /dev/shm/sarus-ro-$$ && echo shm; touch /mnt/x && echo mount"
    options = ["--read-only", f"--mount=type=bind,source={engine.user.home},destination=/mnt"]
    assert engine.output(image(engine), "sh", "-c", script, options=options).splitlines() == ["Read-only file system", "shm", "mount"]
    (engine.user.home / "x").unlink()
