"""What people type who come from other engines: the lines of habits.txt, each typed and compared with what is expected."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import termios

import pytest
from helpers import system
from helpers.terminal import Terminal

LINES = [line for line in (pathlib.Path(__file__).parent / "habits.txt").read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def start_container(any_engine):
    """start_container(name): a container of load/library/sci:1 runs until it is killed."""
    started = []

    def start(name, *options):
        process = any_engine.start("run", "--name", name, *options, "load/library/sci:1", "sleep", "600")
        started.append((name, process))
        assert system.eventually(lambda: any_engine.sarus("exec", name, "true").returncode == 0), name
        return process

    yield start
    for name, process in started:
        any_engine.sarus("kill", "-9", name)
        process.communicate(timeout=300)


@pytest.fixture(scope="module")
def names(any_engine, user, images, plain_busybox, start_container):
    """What stands in braces in habits.txt."""
    any_engine.load(images.archive(images.busybox(extra=lambda layer: layer.file("own", "an ID of its own")), "sci:1"), "sci:1")
    directory = user.home / "habits"
    directory.mkdir()
    (directory / "data").write_text("of the user\n")
    (directory / "data").chmod(0o755)
    (directory / "Upper.sqsh").write_text("named only")
    (directory / "job.toml").write_text('image = "load/library/with-command:latest"\n')
    user.own(directory)
    any_engine.load(images.archive(images.busybox({"Cmd": ["echo", "default command"]}), "with-command"), "with-command")
    start_container("habits")
    stored = json.loads(any_engine.sarus("images", "--json").stdout)
    identity = next(image["id"] for image in stored if image["repository"] == "load/library/sci")
    return {"dir": directory, "home": user.home, "archive": images.archive(plain_busybox, "again"), "id": identity,
            "uid": user.uid, "gid": user.gid}


@pytest.mark.parametrize("line", LINES)
def test_line(any_engine, names, line):
    typed, expected = line.split(" => ")
    status, _, pattern = expected.partition(" ")
    result = any_engine.sarus(*shlex.split(typed.format_map(names)), cwd=names["dir"], env={"HABITS": "1"}, timeout=120)
    printed = result.stdout + result.stderr
    assert result.returncode == int(status), printed
    pattern = pattern.replace("{dir}", str(names["dir"])).replace("{home}", str(names["home"]))
    assert (re.search(pattern.removeprefix("!"), printed, re.MULTILINE) is None) == pattern.startswith("!"), printed


@pytest.mark.parametrize("option", ["-KILL", "-9", "-SIGKILL", "-s9", "--signal=KILL"])
def test_signals_of_kill(any_engine, names, start_container, option):
    process = start_container(f"habits{option.replace('=', '-')}".replace("--", "-"))
    assert any_engine.sarus("kill", option, f"habits{option.replace('=', '-')}".replace("--", "-")).returncode == 0
    assert process.wait(timeout=300) == 137


def test_files_carry_their_metadata(any_engine, names, load_image, images, user):
    """save writes them into the file; a .meta file beside it wins."""
    image = load_image(any_engine, "habits-meta", images.busybox({"Entrypoint": ["/bin/echo", "of the image"], "Cmd": ["and its default"],
                                                                 "Env": ["OF_IMAGE=1"], "WorkingDir": "/tmp"}))
    file = names["dir"] / "meta.squashfs"
    assert any_engine.sarus("save", image, file).returncode == 0
    assert any_engine.sarus("run", file).stdout == "of the image and its default\n"
    assert any_engine.sarus("run", "--entrypoint", "", file, "sh", "-c", "pwd; echo $OF_IMAGE").stdout == "/tmp\n1\n"
    beside = user.own(names["dir"] / "meta.meta") if (names["dir"] / "meta.meta").exists() else names["dir"] / "meta.meta"
    beside.write_text(json.dumps({"Cmd": ["echo", "beside"]}))
    assert any_engine.sarus("run", file).stdout == "beside\n"
    beside.write_text("{")
    result = any_engine.sarus("run", file)
    assert result.returncode == 1 and "Failed to read the metadata of" in result.stderr
    beside.unlink()
    content = file.read_bytes()
    file.write_bytes(content[:-32] + b"fffffffffffffff0" + content[-16:])
    assert "damaged" in any_engine.sarus("run", file).stderr


def test_messages_on_a_terminal_carry_their_kind(any_engine, names):
    """Elsewhere they stay as programs know them."""
    for variables, expected in (({"TERM": "xterm"}, "sarus: \x1b[1;31merror:\x1b[0m Cannot find image"), ({"TERM": "dumb"}, "sarus: error: Cannot find image"),
                                ({"TERM": "xterm", "NO_COLOR": "1"}, "sarus: error: Cannot find image")):
        primary, secondary = os.openpty()
        any_engine.sarus("rmi", "nosuch", stderr=secondary, stdout=subprocess.DEVNULL, env=variables)
        os.close(secondary)
        assert os.read(primary, 4096).decode().startswith(expected)
        os.close(primary)


def test_tables_on_a_terminal_are_for_people(any_engine, names):
    for command, title in (("images", "REPOSITORY"), ("ps", "NAME")):
        primary, secondary = os.openpty()
        any_engine.sarus(command, stdout=secondary, stderr=subprocess.DEVNULL)
        os.close(secondary)
        lines = os.read(primary, 65536).decode().splitlines()
        os.close(primary)
        assert lines[0].startswith(title) and "AGE" in lines[0].split() and max(map(len, lines)) <= 80


def test_time_of_an_image_is_that_of_the_reader(any_engine, names):
    """The index holds the local time of the one who stored it."""
    shown = {zone: re.search(r"load/library/sci .*?(\d{4}-\S+)", any_engine.sarus("images", env={"TZ": zone}).stdout)[1] for zone in ("UTC", "UTC-5")}
    assert (int(shown["UTC-5"][11:13]) - int(shown["UTC"][11:13])) % 24 == 5


def test_site_decides_about_home_directory_and_memory(any_engine, make_any_prefix, names):
    engine = any_engine.variant(prefix=make_any_prefix("habits-site", mountHome=True, mountWorkingDirectory=True, writableLayerSize=8 << 20))
    text = engine.sarus("run", "load/library/sci:1", "sh", "-c", f"cat {names['dir']}/data; df -k / | tail -n1", cwd=names["dir"]).stdout
    assert text.startswith("of the user\n") and " 8192 " in text
    image = engine.sarus("run", "load/library/sci:1", "ls", "/usr/bin", cwd=names["dir"]).stdout
    for place in ("/proc/self", "/sys", "/dev", "/usr/bin", "/"):  # nobody has asked for a mount of them
        result = engine.sarus("run", "load/library/sci:1", "ls", "/usr/bin", cwd=place, env={"HOME": "/dev/null"})
        assert result.returncode == 0 and result.stdout == image, (place, result.stderr)


def test_removing_an_image_in_use_says_so(any_engine, images, plain_busybox):
    any_engine.load(images.archive(plain_busybox, "in-use"), "in-use:1")
    process = any_engine.start("run", "--name", "habits-in-use", "load/library/in-use:1", "sleep", "600")
    assert system.eventually(lambda: any_engine.sarus("exec", "habits-in-use", "true").returncode == 0)
    result = any_engine.sarus("rmi", "load/library/in-use:1")
    assert result.stdout == "removed image load/library/in-use:1\nrunning containers keep it until they end: habits-in-use\n"
    assert any_engine.sarus("exec", "habits-in-use", "echo", "runs").stdout == "runs\n"
    any_engine.sarus("kill", "-9", "habits-in-use")
    process.communicate(timeout=300)


def test_pull_tells_programs_what_it_stored(any_engine, registry, images, plain_busybox):
    name = registry.push(plain_busybox, "habits/pulled:1")
    for options in ([], ["--missing"]):
        result = any_engine.sarus("pull", "--json", *options, name, timeout=120)
        stored = json.loads(result.stdout)
        assert result.returncode == 0 and len(stored["id"]) == 64 and any_engine.sarus("inspect", "--json", name).stdout == result.stdout
    any_engine.sarus("rmi", name)


def test_open_mpi_without_pmix_is_explained(any_engine, load_image, images):
    image = load_image(any_engine, "habits-openmpi", images.busybox({"Env": ["PATH=/usr/lib64/openmpi/bin:/bin"]}))
    step = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_MPI_TYPE": "none"}
    assert "Start them with 'srun --mpi=pmix'" in any_engine.sarus("run", image, "true", env=step).stderr
    for changes in ({"SLURM_MPI_TYPE": "pmix_v4"}, {"SLURM_PROCID": "1"}, {"SLURM_STEP_NUM_TASKS": "1"}):
        assert "pmix" not in any_engine.sarus("run", image, "true", env=step | changes).stderr


def test_the_starters_messages_carry_their_kind_too(any_engine, names):
    primary, secondary = os.openpty()
    any_engine.sarus("run", "load/library/sci:1", "/nosuch", stderr=secondary, stdout=subprocess.DEVNULL)
    any_engine.sarus("kill", "habits-nosuch", stderr=secondary, stdout=subprocess.DEVNULL)
    os.close(secondary)
    assert "sarus: error: " in os.read(primary, 65536).decode()
    os.close(primary)


@pytest.mark.parametrize("environment", [{}, {"SLURM_PROCID": "3"}], ids=["a script", "a task of a step"])
def test_missing_image_is_one_line_in_a_step(any_engine, names, environment):
    """Scripts read the lines of 1.7."""
    lines = any_engine.sarus("run", "quay.io/far/away", "true", env=environment).stderr.splitlines()
    assert len(lines) == 2 - len(environment) and "quay.io/far/away" in lines[0] and "sarus pull" in lines[-1], lines


@pytest.fixture
def terminal(any_engine):
    """terminal(*arguments of sarus) -> Terminal."""

    def start(*arguments):
        argv, identity = any_engine.command(*arguments)
        return Terminal(argv, identity, env=any_engine.user.environment(), cwd=any_engine.user.home)

    return start


@pytest.mark.parametrize("options", [["-it"], ["-ti", "--rm"], ["--interactive", "--tty"]])
def test_interactive_containers(names, terminal, options):
    session = terminal("run", *options, "sci:1", "sh")
    session.type("tty; exit 7\n")
    session.expect("/dev/pts/")
    assert session.wait() == 7


def test_shell(names, terminal):
    session = terminal("shell", "sci:1")
    session.type("echo $((6 * 7)); exit\n")
    session.expect("42\n")
    assert session.wait() == 0


@pytest.mark.parametrize("password, status, said", [("let me in", 0, "Stored "), ("wrong", 1, "The registry refused this user name or password.")])
def test_pull_with_a_user_name_asks_for_the_password(any_engine, private_registry, plain_busybox, terminal, password, status, said):
    reference = private_registry.push(plain_busybox, "library/habits:1")
    session = terminal("pull", "-u", "tester", reference)
    session.expect("password: ")
    assert system.eventually(lambda: not termios.tcgetattr(session.master)[3] & termios.ECHO), "what is typed before the echo is off is discarded"
    session.type(f"{password}\n")
    assert session.wait() == status
    text = session.read()
    assert said in text and password not in text and "may be private" not in text, text
    any_engine.sarus("rmi", reference)


def test_registry_without_tls_gets_the_lines_to_copy(any_engine, names, registry, plain_busybox):
    reference = registry.push(plain_busybox, "habits/plain:1")
    result = any_engine.sarus("pull", reference.replace("127.0.0.1", "localhost"), timeout=120)
    assert result.stderr.splitlines()[-3:] == ["[[registry]]", f'location = "localhost:{registry.port}"', "insecure = true"]


def new_directory(user):
    return user.own(pathlib.Path(tempfile.mkdtemp(dir=user.home)))


def test_all_images_are_removed(make_any_prefix, any_engine, images, plain_busybox, user):
    """With one option, or by the IDs of all, of which two may be the same."""
    engine = any_engine.variant(prefix=make_any_prefix("habits-rmi"))
    variables = {"SARUS_REPOSITORY_DIR": str(new_directory(user))}
    archive = images.archive(plain_busybox, "of-all")
    for remove in (lambda ids: ["rmi", *ids], lambda ids: ["rmi", "--all"], lambda ids: ["rmi", "--force", ids[0], ids[2]]):
        for name in ("one:1", "one:2"):
            assert engine.sarus("load", archive, name, env=variables).returncode == 0
        assert engine.sarus("load", images.archive(images.busybox(extra=lambda layer: layer.file("of-all", "other")), "of-all2"), "two:1",
                            env=variables).returncode == 0
        ids = engine.sarus("images", "-q", "--sort", "name", env=variables).stdout.split()
        assert len(ids) == 3 and ids[0] == ids[1]
        assert "has several names" in engine.sarus("rmi", ids[0], env=variables).stderr
        result = engine.sarus(*remove(ids), env=variables)
        assert (result.returncode, result.stdout.count("removed image")) == (0, 3), result.stderr
        assert engine.sarus("images", "-q", env=variables).stdout == ""


def test_a_missing_image_is_never_its_own_suggestion(any_engine, make_any_prefix, images, plain_busybox, user):
    """The index may name an image whose files are gone."""
    engine = any_engine.variant(prefix=make_any_prefix("habits-gone"))
    place = new_directory(user)
    variables = {"SARUS_REPOSITORY_DIR": str(place)}
    assert engine.sarus("load", images.archive(plain_busybox, "gone"), "gone:1", env=variables).returncode == 0
    for file in place.rglob("*.squashfs"):
        file.unlink()
    message = engine.sarus("run", "load/library/gone:1", "true", env=variables).stderr
    assert message.startswith("Image load/library/gone:1 is not available") and "did you mean" not in message.lower(), message
