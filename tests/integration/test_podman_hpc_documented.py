"""The command lines of the pages about podman-hpc, typed with the real Podman."""

import re
import shutil
import subprocess

import pytest
from helpers import system
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401
from test_documented_commands import PODMAN, commands, documented_image, own_all  # noqa: F401

pytestmark = pytest.mark.asroot


@pytest.mark.parametrize("podman_hpc", ["rootless"], indirect=True)
@pytest.mark.parametrize("name", PODMAN)
def test_commands_of_podman_hpc(podman_hpc, registry, source_dir, documented_image, name):  # noqa: F811
    """With the options that containers need on a machine of the tests."""
    registry.push(documented_image, "library/ubuntu:24.04")
    configuration = podman_hpc.user.home / ".config/containers/registries.conf.d/documented.conf"
    configuration.write_text(f'[[registry]]\nprefix = "docker.io"\nlocation = "{registry.host}"\ninsecure = true\n')
    directory = podman_hpc.directory / "documented"
    directory.mkdir(exist_ok=True)
    (directory / "Containerfile").write_text("FROM docker.io/library/ubuntu:24.04\nCOPY new.yaml /\n")
    (directory / "tools.yaml").write_text("name: tools\ncli_arg: tools\nenv: ENABLE_TOOLS\n")
    (directory / "new.yaml").write_text("name: new\ncli_arg: new\nenv: ENABLE_NEW\n")
    shutil.copy(source_dir / "etc/podman_hpc/modules.d/gpu.yaml", podman_hpc.modules)
    as_user = podman_hpc.argv()[:podman_hpc.argv().index("--") + 1]
    for program, before, arguments in (("podman-hpc", f'[ "$1" != run ] || {{ shift; set -- {" ".join(RUN)} "$@"; }}', podman_hpc.argv()),
                                       ("podman_hpc_hook", ":", [*as_user, f"{podman_hpc.prefix}/bin/podman_hpc_hook"])):
        (directory / program).write_text(f'#!/bin/sh\n{before}\nexec {" ".join(arguments)} "$@"\n')
        (directory / program).chmod(0o755)
    own_all(podman_hpc.user, directory, podman_hpc.prefix)
    script = [f"status() {{ echo \"$2: $1\" >> {directory}/ended; }}; : > {directory}/ended"]
    chosen = [command for command in commands(source_dir / name) if command.is_run()]
    for number, command in enumerate(chosen):
        text = re.sub(r"run \.\.\.", "run --rm localhost/busybox true", command.text)
        text = re.sub(r"\bimage nvidia-smi", "localhost/busybox true", text)
        script.append(f"{text.split('#')[0]}\nstatus $? {number}")
    (directory / "script").write_text("\n".join(script) + "\n")
    result = subprocess.run(["script", "--quiet", "--return", "--command", f"bash {directory}/script", "/dev/null"], cwd=directory, stdin=subprocess.DEVNULL,
                            env=podman_hpc.environment(PATH=f"{directory}:{podman_hpc.prefix}/bin:{system.PATH}", SHELL="/bin/bash"),
                            capture_output=True, text=True, timeout=150, check=False)
    ended = dict(line.split(": ") for line in (directory / "ended").read_text().splitlines())
    assert [command.text for number, command in enumerate(chosen) if ended.get(str(number)) != "0"] == [], result.stdout + result.stderr
