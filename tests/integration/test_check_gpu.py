"""scripts/check-gpu with stand-ins for NVIDIA's tools and driver: it checks what it can, and names what it cannot."""

import subprocess

import pytest
from helpers import system
from helpers.compiler import compile_library
from helpers.hook_bundle import MULTIARCH

pytestmark = [pytest.mark.asroot, pytest.mark.thorough]

DRIVER = """
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int* count) { *count = 1; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return 0; }
int cuDeviceGetUuid(char* uuid, int device) { for (int i = 0; i < 16; ++i) { uuid[i] = (char)i; } return device; }
"""

SPECIFICATION = """cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    env:
    - GPU=0
- name: all
  containerEdits:
    env:
    - GPU=all
containerEdits:
  mounts:
  - hostPath: {library}
    containerPath: {place}/libcuda.so.1
    options:
    - ro
    - bind
"""


@pytest.fixture
def machine(tmp_path, workspace):
    """machine(*programs) -> PATH of a machine which has them."""
    library = compile_library(workspace / "libcuda.so.1", DRIVER, "libcuda.so.1")
    specification = SPECIFICATION.format(library=library, place=MULTIARCH)
    texts = {"nvidia-smi": "echo GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "nvidia-ctk": f"cat > \"${{3#--output=}}\" <<'TEXT'\n{specification}TEXT"}

    def make(*programs):
        for name in programs:
            (tmp_path / name).write_text(f"#!/bin/sh\n{texts[name]}\n")
            (tmp_path / name).chmod(0o755)
        return f"{tmp_path}:{system.PATH}"

    return make


def check(source_dir, build_dir, path):
    result = subprocess.run([source_dir / "scripts" / "check-gpu", build_dir], env={"PATH": path, "HOME": "/root"}, capture_output=True, text=True,
                            timeout=120, check=False)
    return result.returncode, sorted(result.stdout.splitlines())


def test_machine_without_gpu_is_said_to_be_unchecked(source_dir, build_dir, machine):
    assert check(source_dir, build_dir, machine()) == (2, ["NOT CHECKED: everything: there is no program nvidia-smi",
                                                           "Not everything could be checked on this machine."])


def test_what_is_there_is_checked_and_the_rest_is_named(source_dir, build_dir, machine):
    status, lines = check(source_dir, build_dir, machine("nvidia-smi", "nvidia-ctk"))
    tests = ("cdi_device_of_all_gpus", "cdi_device_of_one_gpu", "container_without_a_device_uses_no_gpu")
    assert [line for line in lines if line.startswith("passed: ")] == [f"passed:      {name}[{mode}]" for name in tests for mode in ("rootless", "setuid")]
    assert [line for line in lines if line.startswith("NOT CHECKED: ")] == [
        "NOT CHECKED: GPUDirect: there is no /dev/gdrdrv", "NOT CHECKED: MPS: there is no program nvidia-cuda-mps-control",
        "NOT CHECKED: NVIDIA's hook: there is no program nvidia-container-toolkit"]
    assert status == 2
