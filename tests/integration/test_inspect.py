"""`sarus inspect`, and the lists as JSON: keys that programs can rely on."""

import json
import os
import re

import pytest
from helpers import system

IMAGE_KEYS = {"reference", "server", "repository", "tag", "digest", "id", "platform", "created", "size", "path"}
CONTAINER_KEYS = {"name", "pid", "status", "bundle", "created", "owner"}


@pytest.fixture
def tool(user_engine, load_image, images):
    image = images.busybox({"Env": ["PATH=/bin", "SECRET=1"], "Cmd": ["sh", "-c", "a b"], "Entrypoint": ["env"], "WorkingDir": "/w",
                            "Labels": {"org.example": "yes"}})
    return load_image(user_engine, "inspected", image)


@pytest.fixture
def running(engine, busybox):
    """The name of a container that runs."""
    name = f"seen-{os.getpid()}"
    process = engine.start("run", "--name", name, busybox, "sleep", "1000")
    assert system.eventually(lambda: re.search(rf"^{name} .* running ", engine.sarus("ps").stdout, re.MULTILINE))
    yield name
    process.terminate()
    process.communicate(timeout=300)


def output(engine, *arguments):
    result = engine.sarus(*arguments)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def test_images_json_has_the_documented_keys_and_what_run_takes(user_engine, tool):
    listed = json.loads(output(user_engine, "images", "--json"))
    assert all(set(image) == IMAGE_KEYS for image in listed)
    [image] = [image for image in listed if image["repository"].endswith("/inspected")]
    assert image["size"] == os.path.getsize(image["path"])
    assert image["digest"] is None and image["tag"] == "latest"
    assert user_engine.output(image["reference"], "true") == ""


def test_images_json_is_not_for_verification(user_engine):
    result = user_engine.sarus("images", "--json", "--verify")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == ["The options '--json' and '--verify' cannot be used together", "See 'sarus help images'"]


def test_inspect_shows_what_an_image_brings(user_engine, tool):
    image = json.loads(output(user_engine, "inspect", "--json", tool))
    assert image.items() >= {"kind": "image", "entrypoint": ["env"], "cmd": ["sh", "-c", "a b"], "workingDir": "/w",
                             "env": ["PATH=/bin", "SECRET=1"], "labels": {"org.example": "yes"}}.items()
    assert re.fullmatch(r"fsverity-sha256:[0-9a-f]{64}", image["squashfsDigest"])
    owner = user_engine.user
    assert image["build"] == {"options": "", "owner": f"{owner.uid}:{owner.gid}", "builder": output(user_engine, "version").strip(),
                              "compressor": image["build"]["compressor"]}
    assert re.fullmatch(r"zstd \d+\.\d+\.\d+", image["build"]["compressor"])
    lines = output(user_engine, "inspect", tool).splitlines()
    assert f"Owner:          {owner.uid}:{owner.gid}" in lines and "Built with:     default options" in lines
    assert "Command:        sh -c 'a b'" in lines and "Label:          org.example=yes" in lines


def test_inspect_of_a_container(engine, running):
    container = json.loads(output(engine, "inspect", "--json", running))
    assert set(container) >= CONTAINER_KEYS | {"kind"} and container["kind"] == "container"
    assert container["name"] == running and container["status"] == "running"
    assert os.path.exists(f"/proc/{container['pid']}")
    assert f"Container:      {running}" in output(engine, "inspect", running).splitlines()


def test_ps_json(engine, running):
    [container] = [entry for entry in json.loads(output(engine, "ps", "--json")) if entry["name"] == running]  # root may have others
    assert set(container) == CONTAINER_KEYS | {"image", "args", "job", "step", "task"}


def test_ps_json_of_no_container_is_an_empty_array(user_engine):
    assert json.loads(output(user_engine, "ps", "--json")) == []


def test_inspect_of_a_strangers_container_finds_nothing(engines, running, engine, other_user):
    result = engine.variant(user=other_user).sarus("inspect", running) if not engine.rootless else engine.sarus("inspect", "stranger")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("There is no container with the name")


@pytest.mark.parametrize("arguments, message", [
    (["--type=image", "nothing"], "Cannot find image 'nothing'"),
    (["nothing"], "There is no container with the name 'nothing'"),
    (["--type=pod", "x"], "Incorrect value provided for --type option: 'pod'. Supported values: 'container', 'image'."),
    (["--type=image", "UPPER"], "Invalid image reference 'UPPER'"),
    (["UPPER/../x"], "There is no container with the name 'UPPER/../x'"),
])
def test_inspect_says_what_is_missing(user_engine, arguments, message):
    result = user_engine.sarus("inspect", *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == message


def test_hooks_json(make_setuid_prefix, setuid_engine, opt):
    directory = opt / "json-hooks.d"
    directory.mkdir()
    (directory / "07-mpi.json").write_text(json.dumps({
        "version": "1.0.0", "hook": {"path": "/usr/bin/true"}, "stages": ["poststop"],
        "when": {"annotations": {"^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": "^fast$"}}}))
    (directory / "08-other.json").write_text(json.dumps({"version": "1.0.0", "hook": {"path": "/usr/bin/true", "args": ["true", "x"]},
                                                         "stages": ["poststop"], "when": {"always": True}}))
    engine = setuid_engine.variant(prefix=make_setuid_prefix("json-hooks", hooksDir=str(directory), defaultMPIType="fast"))
    mpi, other = json.loads(output(engine, "hooks", "--json"))
    assert mpi == {"name": "07-mpi", "file": str(directory / "07-mpi.json"), "path": "/usr/bin/true", "args": [], "stages": ["poststop"],
                   "mpi": {"enabled": True, "type": "^fast$", "default": True}}
    assert (other["name"], other["args"], other["mpi"]["enabled"]) == ("08-other", ["true", "x"], False)
    assert [hook["name"] for hook in json.loads(output(engine, "hooks", "--json", "--mpi"))] == ["07-mpi"]
