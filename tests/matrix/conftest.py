"""What the tests of the matrix share: the files of other machines."""

import os
import pathlib
import re

import pytest
from helpers import debian
from helpers.system import only_one

# What a site would have: OCI runtimes, Podman, skopeo, Slurm, MPI, and what the plugin for Slurm is built with.
PACKAGES = ["crun", "runc", "podman", "skopeo", "uidmap", "fuse-overlayfs", "slurm-wlm", "munge", "libslurm-dev", "g++", "mpich", "openmpi-bin",
            "openssh-client", "iproute2", "procps"]


@pytest.fixture(scope="session")
def bootstrapped(common):
    """bootstrapped(name, suite, packages) -> the root directory of a machine with these packages. SARUS_MATRIX names a directory that keeps them for
    the next time."""
    roots = pathlib.Path(os.environ.get("SARUS_MATRIX", common)) / "roots"
    roots.mkdir(parents=True, exist_ok=True)

    def root(name, suite, packages):
        with only_one(roots):
            if not (roots / name).exists():
                debian.bootstrap(suite, packages, roots / name)
        return roots / name

    return root


@pytest.fixture(scope="session")
def releases(bootstrapped):
    """releases(suite) -> the root directory of that release of Debian with PACKAGES."""
    return lambda suite: bootstrapped(suite, suite, PACKAGES)


OUTCOMES = {}  # {(test, release): text}


def pytest_runtest_logreport(report):
    found = re.search(r"tests/matrix/\w+\.py::test_(\w+)\[(\w+)-?(.*)\]", report.nodeid)
    if found and found[2] in debian.SUITES and (report.when == "call" or report.failed):
        name, suite, others = found.groups()
        OUTCOMES[" ".join([*name.split("_"), others]).strip(), suite] = "no" if hasattr(report, "wasxfail") else {"passed": "yes"}.get(report.outcome, "FAILED")


def pytest_terminal_summary(terminalreporter):
    """The table of docs/admin/distributions.md."""
    for name in dict.fromkeys(name for name, _ in OUTCOMES):
        columns = [OUTCOMES.get((name, suite), "") for suite in debian.SUITES]
        terminalreporter.write_line(f"| {name} | {' | '.join(columns)} |")
