"""What root may do with the containers of others, and nobody else may."""

import pathlib

import pytest
from helpers import system
from launch_request import ask, list_request

pytestmark = pytest.mark.asroot


@pytest.fixture
def containers(setuid_engine, load_image, plain_busybox, other_user):
    """start(name, engine=..., **options): a container that sleeps."""
    started = []

    def start(name, engine=setuid_engine, command=("sleep", "600"), **keywords):
        image = load_image(engine, "busybox", plain_busybox)
        process = engine.start("run", "--name", name, image, *command, **keywords)
        started.append((engine, name, process))
        assert system.eventually(lambda: engine.sarus("exec", name, "true").returncode == 0), name
        return process

    yield start
    for engine, name, process in started:
        engine.sarus("kill", "-9", name)
        process.communicate(timeout=300)


def test_root_lists_inspects_and_kills_what_others_run(setuid_engine, root, containers):
    process = containers("node-wide", env={"SLURM_JOB_ID": "4711"})
    admin = setuid_engine.variant(user=root)
    line = next(line for line in admin.sarus("ps", "--all", "--format=brief").stdout.splitlines() if line.startswith("node-wide "))
    assert setuid_engine.user.name in line.split() and "4711" in line.split() and "busybox" in line
    assert "node-wide" not in admin.sarus("ps").stdout
    assert f"Owner:          {setuid_engine.user.name}" in admin.sarus("inspect", "node-wide").stdout
    assert admin.sarus("kill", "-9", "node-wide").returncode == 0
    assert process.wait(timeout=300) == 137


def test_a_directory_that_cannot_be_listed_hides_no_others(setuid_engine, root, containers):
    containers("visible")
    damaged = pathlib.Path("/run/sarus/4000000017")
    damaged.write_text("not a directory")
    try:
        results = [setuid_engine.variant(user=root).sarus(*arguments) for arguments in (["ps", "--all"], ["inspect", "visible"])]
    finally:
        damaged.unlink()
    assert all(result.returncode == 0 and "visible" in result.stdout and str(damaged) in result.stderr for result in results), results


def test_nobody_else_reaches_the_containers_of_others(setuid_engine, other_user, containers):
    containers("not-yours")
    stranger = setuid_engine.variant(user=other_user)
    for listed in (stranger.sarus("ps"), stranger.sarus("ps", "--all"), ask(stranger, list_request())):
        assert listed.returncode == 0 and "not-yours" not in listed.stdout
    result = ask(stranger, list_request(everybodys=True))
    assert (result.returncode, result.stdout) == (1, "") and "Only root" in result.stderr
    for arguments in (["kill", "-9", "not-yours"], ["inspect", "not-yours"], ["exec", "not-yours", "true"], ["kill", "../not-yours"]):
        result = stranger.sarus(*arguments)
        assert result.returncode == 1 and result.stdout == "", arguments
    assert setuid_engine.sarus("exec", "not-yours", "true").returncode == 0


def test_a_name_that_two_users_have_is_not_guessed(setuid_engine, root, other_user, containers):
    other = setuid_engine.variant(user=other_user)
    for engine in (setuid_engine, other):
        containers("twice", engine=engine)
    admin = setuid_engine.variant(user=root)
    result = admin.sarus("kill", "-9", "twice")
    assert result.returncode == 1 and "Several users" in result.stderr
    assert all(engine.sarus("exec", "twice", "true").returncode == 0 for engine in (setuid_engine, other))


def test_what_users_chose_cannot_forge_lines_of_the_list(setuid_engine, root, containers):
    containers("forger", command=("sh", "-c", "sleep 600 # \nroot-container image sh 1 s 1 root\x1b[2J"), env={"SLURM_JOB_ID": "1\nfake"})
    text = setuid_engine.variant(user=root).sarus("ps", "--all", "--format=brief").stdout
    assert "\x1b" not in text and not any(line.startswith(("root-container", "fake")) for line in text.splitlines())


def test_home_is_made_only_in_the_container(setuid_engine, load_image, plain_busybox, user, workspace):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    assert setuid_engine.output(image, "sh", "-c", "cd && pwd", env={"HOME": "/home/of/nobody"}) == "/home/of/nobody"
    place = user.own(workspace / "home-source") if (workspace / "home-source").exists() else workspace / "home-source"
    place.mkdir(exist_ok=True)
    user.own(place)
    option = f"--mount=type=bind,src={place},dst=/home"
    setuid_engine.run(image, "true", options=[option], env={"HOME": "/home/new/user"})
    assert list(place.iterdir()) == []  # the host's directories stay as they are
    for home in ("/proc/self/x", "/dev/x", "/../../etc/x", "/etc/passwd/x", "relative", "/x\ny", "/" + "a/" * 3000):
        assert setuid_engine.output(image, "echo", "runs", env={"HOME": home}) == "runs", home
