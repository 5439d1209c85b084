"""podman-hpc doctor: each thing that keeps containers from running is found, with the command that mends it."""

import fcntl
import json
import os
import pathlib
import struct
import subprocess
import tempfile

import pytest
from helpers import squashed_store, system
from test_podman_hpc import prefix, wrapper  # noqa: F401: fixtures
from helpers.images import Image, busybox_layer
from helpers.podman_hpc import RUN, podman_hpc_of
from helpers.registry import allow_plain_http

F_OFD_SETLK = 37  # Python names it from version 3.9 on
GRADES = {"ok", "note", "warning", "error"}


@pytest.fixture
def doctor(wrapper, tmp_path):  # noqa: F811
    wrapper.call("configure-hooks", "--force")
    (wrapper.prefix / "bin/hook_tool").symlink_to("/bin/true")

    short = {"PODMANHPC_RUN_ROOT": f"/tmp/sarus-doctor-{os.getpid()}"}

    def examine(variables=None):
        environment = {name: str(value) for name, value in {**wrapper.variables, **short, **(variables or {})}.items()}
        result = subprocess.run([wrapper.prefix / "bin/podman-hpc", "doctor", "--json"], capture_output=True, text=True, env=environment, timeout=300)
        findings = json.loads(result.stdout)
        assert all(finding["status"] in GRADES and finding["message"] for finding in findings)
        assert all(finding["cure"] for finding in findings if finding["status"] in ("warning", "error"))
        assert result.returncode == max({"warning": 1, "error": 2}.get(finding["status"], 0) for finding in findings)
        return {finding["check"]: finding for finding in findings}

    examine.wrapper = wrapper
    return examine


def grade(finding):
    return finding["status"]


def test_all_checks(doctor):
    found = doctor()
    assert [*found] == ["podman", "OCI runtime", "mount program", "user namespaces", "FUSE", "CDI devices", "subordinate ids", "graph_root", "run_root",
                        "config_home", "squash store", "runtime directory", "hook", "modules", "image names"]
    for name in ("podman", "mount program", "graph_root", "run_root", "config_home", "squash store", "hook", "image names"):
        assert grade(found[name]) == "ok", found[name]
    assert "not there yet" in found["graph_root"]["message"] and not (doctor.wrapper.directory / "graph").exists()


def test_text(doctor):
    text = subprocess.run([doctor.wrapper.prefix / "bin/podman-hpc", "doctor"], capture_output=True, text=True,
                          env={name: str(value) for name, value in doctor.wrapper.variables.items()} | {"PODMANHPC_MOUNT_PROGRAM": "/nonexistent"}).stdout
    assert "error    mount program      /nonexistent cannot be executed\n" + " " * 28 + (
        "cure: apt-get install fuse-overlayfs # as root; or correct mount_program (env: PODMANHPC_MOUNT_PROGRAM)\n") in text


def test_usage(doctor):
    assert "No such option: --x" in doctor.wrapper.call("doctor", "--x", status=2).stderr
    assert "doctor [options]" in doctor.wrapper.call("doctor", "--help").stdout


def test_programs(doctor):
    broken = doctor.wrapper.directory / "broken"
    broken.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 127\n")
    broken.chmod(0o755)
    assert "no such library" in doctor({"PODMANHPC_PODMAN_BIN": broken})["podman"]["message"]
    assert grade(doctor({"PODMANHPC_PODMAN_BIN": "/nonexistent"})["podman"]) == "error"
    assert doctor({"PATH": "/nonexistent"})["OCI runtime"]["message"] == "neither crun nor runc is in PATH"


def test_directories(doctor):
    assert "more than 50 characters" in doctor({"PODMANHPC_RUN_ROOT": f"/tmp/{'x' * 60}"})["run_root"]["message"]
    found = doctor({"PODMANHPC_GRAPH_ROOT": "/proc/storage", "SQUASH_DIR": "/proc/squash", "XDG_RUNTIME_DIR": "/nonexistent"})
    assert grade(found["runtime directory"]) == "note"
    if os.geteuid() != 0:
        assert grade(found["graph_root"]) == grade(found["squash store"]) == "error"
        assert "belongs to user 0" in doctor({"PODMANHPC_GRAPH_ROOT": "/usr"})["graph_root"]["message"]


@pytest.mark.asroot
def test_a_directory_of_another_user(doctor, user):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sarus-", dir="/tmp"))
    user.own(directory)
    try:
        finding = doctor({"PODMANHPC_GRAPH_ROOT": directory})["graph_root"]
        assert f"belongs to user {user.uid}" in finding["message"] and "PODMANHPC_GRAPH_ROOT" in finding["cure"]
    finally:
        directory.rmdir()


def test_hook_and_modules(doctor):
    file = doctor.wrapper.prefix / "share/containers/oci/hooks.d/02-hook_tool.json"
    text = file.read_text()
    file.write_text(text.replace("hook_tool\",", "moved\","))
    assert doctor()["hook"]["cure"] == "podman-hpc configure-hooks --force"
    file.unlink()
    assert doctor()["hook"]["cure"] == "podman-hpc configure-hooks"
    doctor.wrapper.add_module("bad", "cli_arg: bad\n")
    assert "bad.yaml:2" in doctor()["modules"]["message"]


def test_names_that_podman_refuses(doctor):
    store = doctor.wrapper.directory / "squash/overlay-images"
    store.mkdir(parents=True)
    (store / "images.json").write_text(json.dumps([{"id": letter * 64, "names": ["docker.io/x:1"]} for letter in "ab"]))
    finding = doctor()["image names"]
    assert grade(finding) == "error" and "docker.io/x:1" in finding["message"] and "podman-hpc rmsqi docker.io/x:1" in finding["cure"]
    (store / "images.json").write_text("{")
    finding = doctor()["image names"]
    assert finding["message"].startswith(f"the squash store is damaged: {store}/images.json is not a list")
    assert finding["cure"].startswith("podman-hpc migrate IMAGE #")


SQUASHFS = struct.pack("<4s24xHH8xQ48x", b"hsqs", 4, 0, 96)
LAYER, IMAGE, LINK = "1" * 64, "a" * 64, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture
def store(doctor):
    """A squash store with one image."""
    store = squashed_store.create(doctor.wrapper.directory / "squash")
    (store / "overlay-images/images.json").write_text(json.dumps([{"id": IMAGE, "layer": LAYER, "names": ["docker.io/x:1", "docker.io/x:2"]}]))
    (store / "overlay-layers/layers.json").write_text(json.dumps([{"id": LAYER}]))
    (store / "overlay-images" / IMAGE).mkdir()
    (store / "overlay" / LAYER / "diff").mkdir(parents=True)
    (store / "overlay" / LAYER / "link").write_text(LINK)
    (store / "overlay/l" / LINK).symlink_to(f"../{LAYER}/diff")
    (store / f"overlay/l/{LINK}.squash").write_bytes(SQUASHFS)
    assert grade(doctor()["image names"]) == "ok" and "squashed images" not in doctor()
    return store


@pytest.mark.parametrize("break_it, named", [
    (lambda store: (store / f"overlay/l/{LINK}.squash").unlink(), f"{LINK}.squash is missing or not complete"),
    (lambda store: (store / f"overlay/l/{LINK}.squash").write_bytes(b""), f"{LINK}.squash is missing or not complete"),
    (lambda store: (store / "overlay-layers/layers.json").write_text("[]"), "layers.json lacks its layers"),
    (lambda store: (store / "overlay" / LAYER / "link").unlink(), f"overlay/{LAYER} is not complete"),
    (lambda store: (store / "overlay/l" / LINK).unlink(), f"overlay/{LAYER} is not complete"),
    (lambda store: (store / "overlay-images" / IMAGE).rmdir(), f"overlay-images/{IMAGE} is missing"),
], ids=["no squash", "empty squash", "no layers", "no link", "dangling link", "no manifest"])
def test_image_that_cannot_be_used(doctor, store, break_it, named):
    break_it(store)
    finding = doctor()["squashed images"]
    assert grade(finding) == "error" and "the image docker.io/x:1 cannot be used" in finding["message"] and named in finding["message"]
    migrate, remove = finding["cure"].split(" # or remove it: ")
    assert migrate == "podman-hpc migrate docker.io/x:1 || podman-hpc migrate docker://docker.io/x:1"
    doctor.wrapper.call(*remove.split()[1:])
    assert grade(doctor().get("squashed images", {"status": "ok"})) in ("ok", "note")


def test_what_an_interrupted_migration_leaves(doctor, store):
    unfinished, orphan = (store / "overlay/l" / name for name in (f".{LINK}.squash.unfinished", f"{LINK[::-1]}.squash"))
    for file in (unfinished, orphan):
        file.write_bytes(b"hsqs")
        with open(file, "r+") as held:  # as a migration that runs holds its file
            if file == unfinished:
                fcntl.fcntl(held, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                assert "squashed images" not in doctor()
        finding = doctor()["squashed images"]
        assert grade(finding) == "note" and str(file) in finding["message"] and finding["cure"].startswith(f"rm {file} ")
        subprocess.run(["sh", "-c", finding["cure"]], check=True)
        assert "squashed images" not in doctor()


def test_the_latest_failure_of_the_hook(doctor):
    graph = doctor.wrapper.directory / "graph"
    graph.mkdir()
    (graph / "podman_hpc_hook.log").write_text("first\nsecond\n")
    assert doctor()["hook failures"]["message"] == "second"


@pytest.fixture
def lonely(build_dir, home_base):
    """A user without subordinate ids, with an installation of his own."""
    made = system.create_user(f"sarus{os.getpid()}n", home_base)
    with system.account_files():
        for which in ("uids", "gids"):
            subprocess.run(["usermod", f"--del-sub{which}", "1-4294967294", made.name], check=True)
    made.home.mkdir(exist_ok=True)
    made.own(made.home)
    podman = podman_hpc_of(made, build_dir)
    yield podman
    podman.remove()
    system.remove_user(made)


@pytest.mark.asroot
def test_without_subordinate_ids(lonely, images, plain_busybox):
    """Containers have one id. The doctor says so, and what else works."""
    subprocess.run([lonely.prefix / "bin/podman-hpc", "configure-hooks"], check=True, capture_output=True)
    (lonely.modules / "tools.yaml").write_text(json.dumps({"name": "tools", "cli_arg": "tools", "env": "TOOLS", "copy": ["/etc/hostname:/opt/copied"]}))
    finding = {finding["check"]: finding for finding in json.loads(lonely("doctor", "--json", status=1))}["subordinate ids"]
    assert grade(finding) == "warning" and f"{lonely.user.name} has no ids in /etc/subuid" in finding["message"]
    assert finding["cure"].startswith("usermod --add-subuids ")
    lonely("load", "-i", images.archive(plain_busybox, "busybox"))
    assert lonely(*RUN, "--tools", "localhost/busybox", "sh", "-c", "id -u; test -s /opt/copied && echo copied") == "0\ncopied\n"
    for option, shown in ((["--userns=keep-id"], "--userns=keep-id"), (["-itu", "5"], "--user=5"), (["--user=0:app"], "--user=0:app")):
        error = lonely(*RUN, *option, "localhost/busybox", "id", "-u", status=1, stream="err")
        assert f"{shown} needs subordinate ids, and {lonely.user.name} has no ids in /etc/subuid... Exiting\n" in error
        assert "usermod --add-subuids" in error
    assert lonely(*RUN, "--user=root:0", "-w", "/", "localhost/busybox", "id", "-u") == "0\n"


@pytest.mark.asroot
def test_owners_without_subordinate_ids(lonely, registry):
    """The one id of the containers owns all files of images, from a pull and from a registry alike."""
    def content(layer):
        layer.directory("home/app", 0o700, uid=1000, gid=1001).file("home/app/data", "mine\n", 0o600, uid=1000, gid=1001)

    allow_plain_http(lonely.user, registry)
    image = Image([busybox_layer(extra=content)], {"Env": ["PATH=/bin"], "WorkingDir": "/home/app"})
    reference = registry.push(image, f"lonely{lonely.user.uid}:1")
    for word in (["pull", "-q", reference], ["migrate", f"docker://{reference}"]):
        store = {"SQUASH_DIR": lonely.directory / word[0]}
        lonely(*word, **store)
        lonely("rmi", "-f", reference, status=None)
        assert lonely(*RUN, reference, "sh", "-c", "id -u; stat -c %u:%g /home/app; cat data", **store) == "0\n0:0\nmine\n"
    lonely("login", "-u", "somebody", "--password-stdin", "localhost:1", input="x", status=125)  # not a container's user
