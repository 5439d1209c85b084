"""podman-hpc shared-run with a program in Podman's place: which calls it makes, and in which order."""

import os
import subprocess

import pytest
from helpers import system
from test_podman_hpc import prefix, wrapper  # noqa: F401

STAND_IN = """#!/bin/sh
printf '%s\\n' "$*" >>"$RECORD/calls"
case " $* " in
*" run "*) [ -z "${START:-}" ] || sleep "$START"; echo 0123abcd ;;
*" container exists "*) if [ ! -e "$RECORD/asked" ]; then : >"$RECORD/asked"; exit 1; fi ;;
*" exec "*) cat; exit 7 ;;
esac
"""


@pytest.fixture
def node(wrapper):  # noqa: F811
    wrapper.podman.write_text(STAND_IN)
    wrapper.variables["PODMANHPC_WAIT_TIMEOUT"] = "300"
    return wrapper


def calls(wrapper):  # noqa: F811
    return (wrapper.directory / "calls").read_text().splitlines()


def test_calls_where_only_podman_can_enter(node):
    result = node.call("shared-run", "--rm", "-it", "-e", "A=b", "-v", "/x:/y", "image", "cmd", "-e", "x", status=7, input=None)
    assert result.stderr == ""
    run, *others = calls(node)
    defaults = " ".join(node.defaults())
    assert run.startswith(f"run --rm -d --name uid-{os.getuid()}-pid-{os.getpid()} --replace --stop-timeout 1 --rm -i -t -e A=b -v /x:/y "
                          + " ".join(node.run_arguments()[1:]) + " --mount type=bind,source=")
    assert run.endswith(" --preserve-fds 1 image") and " --entrypoint /run/podman-hpc-pause " in run
    assert others == [
        f"{defaults} container exists 0123abcd", f"{defaults} container exists 0123abcd", f"{defaults} wait --condition running 0123abcd",
        f"exec {defaults} -e SLURM_* -e PALS_* -e PMI_* -i -t -e A=b 0123abcd cmd -e x", f"{defaults} kill 0123abcd", f"{defaults} rm 0123abcd"]


@pytest.mark.parametrize("option, ours", [(["--security-opt", "seccomp=/f"], 0), (["--security-opt=seccomp=/f"], 0), (["--security-opt", "no-new-privileges"], 1)])
def test_a_seccomp_filter_of_the_user_counts(node, option, ours):
    """Our own option stands behind those of the user, and Podman takes the last one."""
    node.call("shared-run", *option, "image", "cmd", status=7)
    run = calls(node)[0]
    assert " ".join(option) in run and run.count("--security-opt seccomp=unconfined") == ours


def test_without_a_pause_between_questions(node):
    """In the reference, this division by zero ended the program."""
    node.call("shared-run", "-t", "image", "cmd", status=7, variables={"PODMANHPC_WAIT_POLL_INTERVAL": "0"})
    assert len([call for call in calls(node) if "container exists" in call]) == 2


def test_arguments_of_the_site(node):
    node.configure("shared_run_command: [pause, x]\nshared_run_exec_args: '-e SITE_*'\n")
    node.call("shared-run", "image", "cmd", status=7)
    assert calls(node)[0].endswith(" image pause x") and "--entrypoint" not in calls(node)[0] and "--preserve-fds" not in calls(node)[0]
    assert [call for call in calls(node) if call.startswith("exec")] == [f"exec {' '.join(node.defaults())} -e SITE_* 0123abcd cmd"]


def test_pmi_descriptor(node):
    reader, writer = os.pipe()
    os.write(writer, b"cmd=init\n")
    os.close(writer)
    node.call("shared-run", "image", "cmd", status=7, variables={"PMI_FD": str(reader)}, pass_fds=[reader])
    os.close(reader)
    assert [call for call in calls(node) if call.startswith("exec")][0].split(" fatal ")[1].startswith("--preserve-fds 1 -e SLURM_*")


def test_a_start_that_takes_too_long(node):
    result = node.call("shared-run", "image", "cmd", status=1, variables={"START": "1000", "PODMANHPC_WAIT_TIMEOUT": "5"})
    assert result.stderr == "Error: Timeout waiting for shared-run start... Exiting\n"
    assert system.eventually(lambda: len(calls(node)) > 1)
    assert calls(node)[1].endswith(f"rm -f -t 0 --ignore uid-{os.getuid()}-pid-{os.getpid()}")


def test_all_tasks_hear_of_a_failing_start(node):
    node.podman.write_text("#!/bin/sh\ncase \" $* \" in *' run '*) sleep 0.3; echo 'Error: no space' >&2; exit 126; esac\n")
    environment = {name: str(value) for name, value in {**node.variables, "SLURM_STEP_TASKS_PER_NODE": 3}.items()}
    tasks = [subprocess.Popen([node.prefix / "bin/podman-hpc", "shared-run", "image", "cmd"], env={**environment, "SLURM_LOCALID": str(i)},
                              stderr=subprocess.PIPE, text=True) for i in range(3)]
    reasons = sorted(task.communicate(timeout=300)[1] for task in tasks)
    assert [task.returncode for task in tasks] == [126] * 3
    assert reasons == ["Error: The shared container did not start... Exiting\n"] * 2 + ["Error: no space\n"]


def test_help(node):
    node.add_module("tools", "cli_arg: tools\nenv: TOOLS\nhelp: Site tools\n")
    page = node.call("shared-run", "--help").stdout
    assert "Usage: podman-hpc shared-run [options] IMAGE [COMMAND [ARG...]]\n" in page and "--tools" in page and "--help" in page
    assert not (node.directory / "calls").exists()
