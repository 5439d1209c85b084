"""What root may do with the containers of others, and nobody else may."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from helpers import system
from launch_request import ask, list_request

pytestmark = pytest.mark.asroot

SILENT_SERVER = pathlib.Path(__file__).parents[2] / "integration/programs/silent_fuse.py"


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


def listed(engine, root):
    """What root sees: {name: (owner, status)}, and the warnings."""
    result = engine.variant(user=root).sarus("ps", "--all", "--json")
    assert result.returncode == 0 and "\x1b" not in result.stdout + result.stderr, result
    return {container["name"]: (container["owner"], container["status"]) for container in json.loads(result.stdout)}, result.stderr


def test_root_lists_what_others_keep_and_run_without_privileges(setuid_engine, rootless_engine, root, other_user, containers, load_image, plain_busybox):
    other = setuid_engine.variant(user=other_user)
    image = load_image(other, "busybox", plain_busybox)
    assert other.sarus("run", "--name", "wide-kept", "--keep", image, "true").returncode == 0
    containers("wide-privileged")
    containers("wide-rootless", engine=rootless_engine)
    own = load_image(rootless_engine, "busybox", plain_busybox)
    assert rootless_engine.sarus("run", "--name", "wide-kept-rootless", "--keep", own, "true").returncode == 0
    try:
        found, warnings = system.eventually(lambda: answer if not (answer := listed(setuid_engine, root))[1] else None)  # others may answer late
        assert warnings == "", warnings
        assert {name: found[name] for name in found if name.startswith("wide-")} == {
            "wide-kept": (other_user.name, "stopped"), "wide-privileged": (setuid_engine.user.name, "running"),
            "wide-rootless": (rootless_engine.user.name, "running"), "wide-kept-rootless": (rootless_engine.user.name, "stopped")}
        table = setuid_engine.variant(user=root).sarus("ps", "-a").stdout.splitlines()
        assert len([line for line in table if line.startswith("wide-privileged ")]) == 1
        assert "wide-kept" not in setuid_engine.variant(user=root).sarus("ps").stdout
    finally:
        other.sarus("rm", "wide-kept")
        rootless_engine.sarus("rm", "wide-kept-rootless")


def test_what_users_put_where_their_containers_are_stops_no_list_of_root(setuid_engine, root, user, other_user, temp_dir, load_image, plain_busybox):
    """Pipes, links, texts for the terminal, and a file server that never answers."""
    other = setuid_engine.variant(user=other_user)
    image = load_image(other, "busybox", plain_busybox)
    assert other.sarus("run", "--name", "wide-sound", "--keep", image, "true").returncode == 0
    storage = temp_dir / f"sarus-containers-{user.uid}-rootless"
    shutil.rmtree(storage, ignore_errors=True)
    served = storage / "served"
    description = {"name": "forged\x1b[2J\nroot-container", "image": "x", "content": "x", "job": "\x1b", "jobDirectory": "", "jobEnd": 0, "created": 1}
    for name in ("pipe", "pipe-lock", "link", "forged"):
        (storage / name).mkdir(parents=True)
    os.mkfifo(storage / "pipe/container.json")
    os.mkfifo(storage / "pipe-lock/lock")
    (storage / "pipe-lock/container.json").write_text(json.dumps({**description, "name": "wide-locked", "job": ""}))
    (storage / "link/container.json").symlink_to("/etc/shadow")
    (storage / "forged/container.json").write_text(json.dumps(description))
    subprocess.run(["chown", "-Rh", f"{user.uid}:{user.gid}", storage], check=True)
    storage.chmod(0o700)
    for name in ("sarus-4000000018", f"sarus-{root.uid}-x", "sarus-x"):
        (temp_dir / name).mkdir()
    try:
        found, warnings = listed(setuid_engine, root)
        assert found["wide-sound"] == (other_user.name, "stopped") and found["wide-locked"][0] == user.name and "root-container" not in found
        ready = storage / "ready"
        served.mkdir()
        user.own(served)
        server = subprocess.Popen([sys.executable, "-B", SILENT_SERVER, served, ready])
        try:
            assert system.eventually(ready.exists)
            found, warnings = listed(setuid_engine, root)
            assert found["wide-sound"] == (other_user.name, "stopped")
            assert f"The containers of {user.name} may be missing" in warnings, warnings
        finally:
            server.kill()
            server.wait()
            subprocess.run(["umount", "--lazy", served], check=False)
    finally:
        shutil.rmtree(storage, ignore_errors=True)
        for name in ("sarus-4000000018", f"sarus-{root.uid}-x", "sarus-x"):
            (temp_dir / name).rmdir()
        other.sarus("rm", "wide-sound")


def test_a_directory_that_cannot_be_listed_hides_no_others(setuid_engine, root, containers):
    """Seen by these commands alone: everybody's lists would warn."""
    containers("visible")
    damaged = """mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work && echo 'no directory' > /mnt/upper/4000000017 &&
        mount -t overlay none -o lowerdir=/run/sarus,upperdir=/mnt/upper,workdir=/mnt/work /run/sarus && exec "$@" """
    engine = setuid_engine.variant(user=root, wrapper=("unshare", "--mount", "sh", "-c", damaged, "sh"))
    results = [engine.sarus(*arguments) for arguments in (["ps", "--all"], ["inspect", "visible"])]
    assert all(result.returncode == 0 and "visible" in result.stdout and "/run/sarus/4000000017" in result.stderr for result in results), results


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
