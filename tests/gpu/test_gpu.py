"""Containers with a real NVIDIA GPU: scripts/check-gpu runs these, and says what it could not check.

Each check is a skip with its reason where the machine lacks something. They are no part of the test suite of the project.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers import compiler, installation, mpi

pytestmark = pytest.mark.asroot

# Asks the driver alone, so that neither the image nor the build needs CUDA.
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
typedef struct { char bytes[16]; } Uuid;
typedef int Init(unsigned), Count(int*), Device(int*, int), GetUuid(Uuid*, int), Context(void**, unsigned, int), Allocate(unsigned long long*, size_t);
int main(int argc, char** argv) {
    int count = 0;
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) { printf("no driver library: %s\\n", dlerror()); return 2; }
    int status = ((Init*)dlsym(library, "cuInit"))(0);
    if (status) { printf("cuInit: %d\\n", status); return 3; }
    ((Count*)dlsym(library, "cuDeviceGetCount"))(&count);
    for (int i = 0; i < count; ++i) {
        int device;
        Uuid uuid;
        ((Device*)dlsym(library, "cuDeviceGet"))(&device, i);
        ((GetUuid*)dlsym(library, "cuDeviceGetUuid"))(&uuid, device);
        for (int k = 0; k < 16; ++k) { printf("%02x", (unsigned char)uuid.bytes[k]); }
        printf("\\n");
    }
    if (argc > 1) {
        int device;
        void* context;
        unsigned long long memory;
        ((Device*)dlsym(library, "cuDeviceGet"))(&device, 0);
        status = ((Context*)dlsym(library, "cuCtxCreate_v2"))(&context, 0, device);
        if (!status) { status = ((Allocate*)dlsym(library, "cuMemAlloc_v2"))(&memory, 1 << 20); }
        printf("context: %d\\n", status);
        fflush(stdout);
        sleep(3);
        return status != 0;
    }
    return 0;
}
"""


def tool(name, purpose):
    """The path of a program of the machine, or a skip."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{purpose}: there is no program {name}")
    return path


@pytest.fixture(scope="module")
def gpus():
    """The UUIDs of the machine's GPUs, as hexadecimal digits, in the order of the driver."""
    program = tool("nvidia-smi", "everything")
    result = subprocess.run([program, "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    if result.returncode != 0 or not result.stdout.strip():
        pytest.skip(f"everything: nvidia-smi finds no GPU: {(result.stderr or result.stdout).strip()}")
    return [line.strip().removeprefix("GPU-").replace("-", "") for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def image(images, workspace):
    """Busybox with a program that asks the driver, and the parts of the C library that the driver loads."""
    program = compiler.compile_program(workspace / "ask-driver", PROGRAM)
    files = mpi.needed_libraries(program)
    for name in ("libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"):
        path = mpi.LIBRARIES / name
        files.setdefault(str(path), path.resolve())

    def add(layer):
        made = {"/lib", "/usr", "/usr/lib"}
        for path, source in files.items():
            for parent in reversed(pathlib.Path(path).parents[:-1]):
                if str(parent) not in made:
                    layer.directory(str(parent)[1:])
                    made.add(str(parent))
            layer.file(path[1:], source.read_bytes(), mode=0o755)
        layer.file("app", program.read_bytes(), mode=0o755)

    return images.busybox(extra=add)


@pytest.fixture
def gpu_engine(request, make_setuid_prefix, make_rootless_prefix, user):
    """gpu_engine(mode, **keys of sarus.json) -> Engine of an installation of its own."""

    def make(mode, **settings):
        name = f"gpu-{mode}-{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())}"
        prefix = (make_rootless_prefix if mode == "rootless" else make_setuid_prefix)(name, **settings)
        return installation.Engine(prefix, user, mode, "crun", ("--fuse",) if mode == "rootless" else ())

    return make


def seen(engine, reference, *options, environment=None):
    result = engine.run(reference, "/app", options=options, env=environment, check=False)
    assert result.returncode in (0, 2, 3), result.stdout + result.stderr
    return result.stdout.split("\n")[:-1]


@pytest.fixture(scope="module")
def cdi_directory(gpus, opt):
    """A directory with what nvidia-ctk writes for this machine."""
    program = tool("nvidia-ctk", "CDI")
    directory = opt / "cdi"
    directory.mkdir()
    made = subprocess.run([program, "cdi", "generate", f"--output={directory}/nvidia.yaml"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return directory


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_cdi_device_of_all_gpus(cdi_directory, gpus, gpu_engine, load_image, image, mode):
    engine = gpu_engine(mode, cdiSpecDirs=[str(cdi_directory)])
    assert sorted(seen(engine, load_image(engine, "gpu", image), "--device=nvidia.com/gpu=all")) == sorted(gpus)


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_cdi_device_of_one_gpu(cdi_directory, gpus, gpu_engine, load_image, image, mode):
    engine = gpu_engine(mode, cdiSpecDirs=[str(cdi_directory)])
    assert seen(engine, load_image(engine, "gpu", image), "--device=nvidia.com/gpu=0") == gpus[:1]


@pytest.mark.parametrize("mode", ["setuid", "rootless"])
def test_container_without_a_device_uses_no_gpu(cdi_directory, gpu_engine, load_image, image, mode):
    """Neither the driver's library nor a device is there."""
    engine = gpu_engine(mode, cdiSpecDirs=[str(cdi_directory)])
    assert seen(engine, load_image(engine, "gpu", image))[0].startswith("no driver library")


def add_hook(engine, name, hook, when, stages):
    directory = engine.prefix / "etc" / "hooks.d"
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"version": "1.0.0", "hook": hook, "when": when, "stages": stages}))
    installation.set_configuration(engine.prefix, hooksDir=str(directory))


@pytest.mark.parametrize("chosen", ["all", "0"])
def test_hook_of_nvidia(gpus, gpu_engine, load_image, image, chosen):
    """The documented configuration: Sarus tells the hook by NVIDIA_VISIBLE_DEVICES what CUDA_VISIBLE_DEVICES asks for."""
    path = shutil.which("nvidia-container-runtime-hook") or tool("nvidia-container-toolkit", "NVIDIA's hook")
    tool("nvidia-container-cli", "NVIDIA's hook")
    engine = gpu_engine("setuid")
    add_hook(engine, "07-nvidia", {"path": path, "args": [os.path.basename(path), "prestart"], "env": ["PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"]},
             {"always": True}, ["prestart"])
    environment = {"CUDA_VISIBLE_DEVICES": "0" if chosen == "0" else ",".join(map(str, range(len(gpus)))), "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    found = seen(engine, load_image(engine, "gpu", image), environment=environment)
    assert sorted(found) == sorted(gpus[:1] if chosen == "0" else gpus)


def test_mps_serves_containers_of_a_user(cdi_directory, gpus, gpu_engine, load_image, image, user):
    """Two containers at once use one server, which the hook has started."""
    control = tool("nvidia-cuda-mps-control", "MPS")
    engine = gpu_engine("setuid", cdiSpecDirs=[str(cdi_directory)])
    program = engine.prefix / "bin" / "mps_hook"
    if not program.exists():
        pytest.skip("MPS: this installation has no mps_hook")
    add_hook(engine, "20-mps", {"path": str(program), "env": ["MPS_USER_DIRECTORY=/tmp"]}, {"annotations": {"^mps.enable$": "^true$"}},
             ["precreate", "prestart"])
    pipe = pathlib.Path(f"/tmp/nvidia-mps-{user.uid}/pipe")
    reference = load_image(engine, "gpu", image)
    command = ["run", "--annotation=mps.enable=true", "--device=nvidia.com/gpu=0", reference, "/app", "use"]
    ask = {"input": "get_server_list\n", "env": user.environment(CUDA_MPS_PIPE_DIRECTORY=pipe), "capture_output": True, "text": True, **user.identity()}
    started = [engine.start(*command) for _ in range(2)]
    try:
        outputs = [process.communicate(timeout=300) for process in started]
        servers = subprocess.run([control], check=False, **ask).stdout.split()
    finally:
        subprocess.run([control], check=False, **{**ask, "input": "quit -t 5\n"})
    assert [process.returncode for process in started] == [0, 0], outputs
    assert all("context: 0" in out for out, _ in outputs) and len(servers) == 1


def test_gpudirect_devices_are_suggested(gpus, build_dir):
    """mpi_hook mounts /dev/gdrdrv where the driver of GDRCopy is loaded."""
    if not pathlib.Path("/dev/gdrdrv").exists():
        pytest.skip("GPUDirect: there is no /dev/gdrdrv")
    library = mpi.LIBRARIES / "libmpich.so.12"
    text = subprocess.run([build_dir / "mpi_hook", "--suggest", library], capture_output=True, text=True, check=True).stdout
    assert "/dev/gdrdrv" in text
