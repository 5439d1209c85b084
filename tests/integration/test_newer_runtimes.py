"""OCI runtimes that are newer than this node's, with what containers need most of them: those of later releases of Debian.

They need a newer C library, so each runs on a node that has the files of its packages above its own /usr.
"""

import subprocess

import pytest
from helpers import installation
from helpers.debian import Releases
from test_run import test_every_filesystem_is_nosuid, test_keeps_the_callers_cpus_and_limits  # noqa: F401
from test_shared_namespaces import engine_with_hook, hold, image, neighbour  # noqa: F401 (fixtures)
from test_shared_namespaces import (  # noqa: F401
    test_containers_read_each_others_memory_and_descriptors, test_hooks_inside_and_commands_beside,
    test_private_processes_and_a_command_beside_them_are_in_the_same_namespace)
from test_terminal import terminal  # noqa: F401 (fixtures)
from test_terminal import (  # noqa: F401
    test_the_size_of_the_terminal_is_the_users_at_the_start_and_after_each_change, test_what_a_container_with_a_terminal_prints_goes_to_a_file)

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

RUNTIMES = [f"{runtime}-{suite}" for suite in ("trixie", "sid") for runtime in ("crun", "runc")]


@pytest.fixture(scope="module")
def on_newer_node(engines, workspace):
    """on_newer_node(mode, runtime, suite) -> Engine."""
    releases = Releases(workspace)
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    options = {}

    def make(mode, runtime, suite):
        if (runtime, suite) not in options:
            files = workspace / f"{runtime}-{suite}"
            releases.packages(suite, architecture, [runtime, *releases.dependencies(suite, architecture, runtime)], files)
            options[runtime, suite] = ("--node", f"mount -t overlay -o lowerdir={files}/usr:/usr overlay /usr")
        engine = engines(mode, runtime)
        return engine.variant(sandbox=(*engine.sandbox, *options[runtime, suite]))

    return make


@pytest.fixture(params=RUNTIMES)
def rootless_engine(request, on_newer_node):
    return on_newer_node("rootless", *request.param.split("-"))


@pytest.fixture(params=[f"{mode}-{runtime}" for mode in ("setuid", "rootless") for runtime in RUNTIMES])
def engine(request, on_newer_node):
    return on_newer_node(*request.param.split("-"))


def test_the_runtime_is_the_newer_one(engine):
    def version(options):
        return subprocess.run([str(installation.SANDBOX), *options, "--", engine.runtime, "--version"], check=True, capture_output=True, text=True).stdout

    assert version(engine.sandbox) != version(())


def test_commands_run_and_their_status_is_the_containers(engine, busybox):
    result = engine.run(busybox, "sh", "-c", "id -u; exit 7", check=False)
    assert (result.returncode, result.stdout) == (7, f"{engine.user.uid}\n"), result.stderr
