"""What `--verbose` and `--debug` tell: what a container gets, and why."""

import json
import re

import pytest
from helpers import installation

pytestmark = pytest.mark.asroot

LINE = re.compile(r"\[\d+\.\d+\] \[[^\]]+-\d+\] \[[A-Za-z]+\] \[(DEBUG|INFO)\] (.+)")


def said(result, level):
    """The messages of one level on standard output."""
    assert result.returncode == 0, result.stdout + result.stderr
    return [match[2] for match in map(LINE.fullmatch, result.stdout.splitlines()) if match and match[1] == level]


@pytest.fixture(scope="module")
def prefixes(make_setuid_prefix, make_rootless_prefix):
    return {"setuid": make_setuid_prefix("verbose"), "rootless": make_rootless_prefix("verbose")}


@pytest.fixture(params=["setuid", "rootless"])
def engine(request, engines, prefixes):
    return engines(request.param, "crun").variant(prefix=prefixes[request.param], sandbox=("--fuse",))


@pytest.fixture
def image(engine, load_image, plain_busybox):
    return load_image(engine, "busybox", plain_busybox)


@pytest.fixture
def hooks(engine, opt):
    """Two hook files, one of which runs."""
    directory = (engine.user.home if engine.rootless else opt) / "verbose-hooks.d"
    directory.mkdir(exist_ok=True)
    for name, when in (("10-yes", {"always": True}), ("20-no", {"commands": [".*/bash"]})):
        (directory / f"{name}.json").write_text(json.dumps({"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": when, "stages": ["poststop"]}))
    installation.set_configuration(engine.prefix, hooksDir=str(directory), siteDevices=[{"source": "/dev/null", "destination": "/dev/hole"}])
    return directory


def test_verbose_tells_what_a_container_gets(engine, image, hooks, workspace):
    mount = f"--mount=type=bind,src={workspace},dst=/mnt/work,readonly"
    result = engine.sarus("--verbose", "run", "--name=told", mount, image, "echo", "a b")
    lines = said(result, "INFO")
    path = engine.user.home / ".sarus/images/load/library/busybox/latest.squashfs"
    assert f"Image {image}:latest is in {path}" in lines
    place = " in a user namespace" if engine.rootless else ""
    assert f"Container told of image {image}:latest, command echo 'a b', OCI runtime /usr/bin/crun{place}" in lines
    assert f"Mount /mnt/work from {workspace}, read-only" in lines
    assert "Device /dev/hole from /dev/null, access rwm" in lines
    assert "Hook poststop: /bin/true" in lines
    assert f"Image {path} is mounted by {'sarus-squashfs' if engine.rootless else 'the kernel, from a loop device'}" in lines
    assert said(result, "DEBUG") == []
    assert [line for line in result.stdout.splitlines() if not LINE.fullmatch(line)] == ["a b"]


def test_debug_tells_why(engine, image, hooks, workspace):
    mount = f"--mount=type=bind,src={workspace},dst=/mnt/work"
    result = engine.sarus("--debug", "run", "--name=told", mount, image, "true")
    lines = said(result, "DEBUG")
    assert f"Mount /mnt/work from {workspace}: command line (--mount)" in lines
    assert "Device /dev/hole from /dev/null, access rwm: site configuration (siteDevices)" in lines
    assert f"Hook poststop: /bin/true: {hooks}/10-yes.json: always" in lines
    assert f"No hook poststop: /bin/true: {hooks}/20-no.json: command true does not match .*/bash" in lines
    [call] = [line for line in lines if line.startswith("Executing /usr/bin/crun as crun --root ")]
    assert call.endswith(" told") and " --bundle " in call
    assert any(line.startswith("Mount /mnt/work ") for line in said(result, "INFO"))


def test_nothing_is_told_unless_asked_for(engine, image, hooks):
    result = engine.sarus("run", image, "echo", "alone")
    assert (result.stdout, result.stderr) == ("alone\n", "")


def test_foreign_text_stays_on_one_line(engine, image, hooks, workspace):
    directory = workspace / "odd\nname"
    directory.mkdir(exist_ok=True)
    result = engine.sarus("--debug", "run", f"--mount=type=bind,src={directory},dst=/mnt/work", image, "true")
    assert f"Mount /mnt/work from {workspace}/odd\\x0aname" in said(result, "INFO")
    assert [line for line in result.stdout.splitlines() if not LINE.fullmatch(line)] == []


def test_other_commands_name_their_repository_and_hooks(engine, image, hooks):
    assert f"Repository {engine.user.home}/.sarus" in said(engine.sarus("--verbose", "images"), "INFO")
    assert f"Hook files of {hooks}" in said(engine.sarus("--verbose", "hooks"), "INFO")
    result = engine.sarus("--verbose", "rmi", "no/such")
    assert result.returncode == 1 and f"Repository {engine.user.home}/.sarus\n" in result.stdout
