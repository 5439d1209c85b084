"""What skopeo says of the answers of registries, by the skopeo of later releases of Debian: its texts differ between versions."""

import subprocess

import pytest
import test_registry_answers
from helpers.debian import Releases
from test_registry_answers import *  # noqa: F401,F403 (the same tests)
from test_registry_answers import hasty, registry, two_layers  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.thorough]

SUITES = ["trixie", "sid"]


@pytest.fixture(scope="module", params=SUITES)
def skopeo_path(request, workspace):
    """They need a newer C library, so its own loader starts each."""
    releases = Releases(workspace)
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    files, names = workspace / f"skopeo-{request.param}", ["skopeo"]
    for name in names:
        names += [needed for needed in releases.dependencies(request.param, architecture, name)
                  if needed.startswith("lib") and needed not in names]
    releases.packages(request.param, architecture, names, files)
    loader = next(path for path in files.glob("**/ld-linux-*.so.*") if path.is_file())
    libraries = ":".join(str(path) for path in files.glob("usr/lib/*-linux-gnu"))
    program = workspace / f"skopeo-of-{request.param}"
    program.write_text(f"#!/bin/sh\nexec {loader} --library-path {libraries} {files}/usr/bin/skopeo \"$@\"\n")
    program.chmod(0o755)
    version = subprocess.run([str(program), "--version"], check=True, capture_output=True, text=True).stdout
    assert version != subprocess.run(["skopeo", "--version"], check=True, capture_output=True, text=True).stdout
    return {"skopeoPath": str(program)}


def test_all_answers_are_tried():
    assert [name for name in dir(test_registry_answers) if name.startswith("test_") and name not in globals()] == []
