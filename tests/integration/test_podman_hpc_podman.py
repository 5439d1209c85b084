"""podman-hpc with the real Podman, as root and rootless."""

import os
import re
import subprocess

import pytest
from helpers import system
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401

pytestmark = pytest.mark.asroot


def test_containers_run(podman_hpc):
    assert podman_hpc.run("echo", "--help") == "--help\n"
    podman_hpc.run("sh", "-c", "exit 7", status=7)
    assert podman_hpc("__complete", "run", "localhost/bu").startswith("localhost/busybox:latest")


def test_containers_run_from_an_environment_without_login_variables(podman_hpc):
    variables = dict.fromkeys(("HOME", "USER", "LOGNAME", "PATH", "XDG_RUNTIME_DIR", "TMPDIR"))
    assert podman_hpc.run("echo", "started", **variables) == "started\n"


def test_store_and_driver(podman_hpc):
    assert podman_hpc("info", "--format", "{{.Store.GraphDriverName}} {{.Store.GraphRoot}} {{.Host.CgroupManager}}").split() == [
        "overlay", f"{podman_hpc.directory}/graph", "cgroupfs"]


def test_module_and_descriptors_reach_the_container(podman_hpc):
    (podman_hpc.modules / "tools.yaml").write_text("name: tools\ncli_arg: tools\nenv: ENABLE_TOOLS\nadditional_args: ['-e TOOLS_*', '--hostname=tools']\n"
                                                   "bind: ['$SCRATCH:$SCRATCH']\n")
    command = ["sh", "-c", "echo $ENABLE_TOOLS $TOOLS_X $(hostname)"]
    assert podman_hpc.run(*command, options=["--tools", "--uts=private"], TOOLS_X="x", SCRATCH="/tmp/a,b") == "1 x tools\n"
    assert podman_hpc.run(*command, options=["--hostname=h", "--uts=private"], TOOLS_X="x") == "h\n"
    assert podman_hpc.run("sh", "-c", "cat <&$PMI_FD", options=["-e", "PMI_FD"], input="cmd=init\n", PMI_FD="0") == "cmd=init\n"


def test_exec_in_a_container(podman_hpc):
    name = f"hpc-{os.getpid()}"
    podman_hpc(*RUN, "-d", f"--name={name}", "localhost/busybox", "sleep", "1000")
    assert podman_hpc("exec", name, "echo", "--help") == "--help\n"
    (podman_hpc.modules / "gear.yaml").write_text("name: gear\ncli_arg: gear\nenv: ENABLE_GEAR\nadditional_args: ['-e GEAR_*', '--hostname=gear']\n")
    assert podman_hpc("exec", "--gear", name, "sh", "-c", "echo $ENABLE_GEAR $GEAR_X", GEAR_X="x") == "1 x\n"
    podman_hpc("rm", "-f", "-t", "0", name)


def test_additional_store(podman_hpc, images, plain_busybox):
    other = podman_hpc.directory / "other"
    podman_hpc("load", "-i", images.archive(plain_busybox, "additional"), options=[f"--root={other}"])
    assert "localhost/additional" not in podman_hpc("images")
    store = [f"--additional-stores={other}"]
    assert "localhost/additional" in podman_hpc("images", options=store)
    assert podman_hpc(*RUN, "localhost/additional", "echo", "found", options=store) == "found\n"


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
def test_build(podman_hpc):
    context = podman_hpc.directory / "context"
    context.mkdir(exist_ok=True)
    (context / "Containerfile").write_text("FROM localhost/busybox\nCOPY Containerfile /copied\n")
    podman_hpc("build", "-q", "-t", "built", context)
    assert podman_hpc(*RUN, "localhost/built", "head", "-n1", "/copied") == "FROM localhost/busybox\n"


def test_login_and_registries_keep_working(podman_hpc, private_registry, plain_busybox):
    """The credentials are below XDG_RUNTIME_DIR, which Podman does not see, and plain HTTP is allowed by a file of the user's home."""
    reference = private_registry.push(plain_busybox, f"hpc{podman_hpc.user.uid}:1")
    runtime = podman_hpc.directory / "runtime"
    runtime.mkdir(mode=0o700)
    podman_hpc.user.own(runtime)
    podman_hpc("pull", "-q", reference, status=125, XDG_RUNTIME_DIR=runtime)
    podman_hpc("login", "-u", "tester", "--password-stdin", private_registry.host, input=private_registry.password, XDG_RUNTIME_DIR=runtime)
    assert (runtime / "containers/auth.json").exists()
    podman_hpc("pull", "-q", reference, XDG_RUNTIME_DIR=runtime)


def test_help_of_the_real_podman(build_dir):
    def page(*words):
        return subprocess.run([build_dir / "podman-hpc", *words], capture_output=True, text=True, check=True).stdout

    text = page("run", "--help")
    assert "\n  podman-hpc run [options] IMAGE [COMMAND [ARG...]]\n" in text and "\nPodman options follow:\n" in text
    assert "Podman help page follows:\n  Available Commands:\n" in page("--help")


@pytest.mark.parametrize("command", ["run", "create", "exec"])
def test_option_tables_are_those_of_podman(source_dir, command):
    source = (source_dir / "src/podman_hpc/cli/option_table.cpp").read_text()
    known = {word.split(":")[-1] for text in re.findall(r'"([^"\n]*)"', source) for word in text.split()}
    page = subprocess.run([system.program("podman"), command, "--help"], capture_output=True, text=True, check=True).stdout
    options = re.findall(r"^ +(?:-\w, )?--([\w-]+)", page.split("Options:")[1], re.MULTILINE)
    assert len(options) > 8 and [option for option in options if option not in known | {"help"}] == []
