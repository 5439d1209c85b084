"""amdgpu_hook with real containers, on a node whose devices and topology are made for the test."""

import pytest
from helpers import hook_bundle
from helpers.hook_bundle import Bundle
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asroot

# A /dev and a /sys/class of the runtime's own. The devices are some that the container may not use without the hook.
DEVICES = """
set -e
new=$(mktemp -d); mount -t tmpfs tmpfs "$new"
mknod -m 666 "$new/null" c 1 3; mknod -m 666 "$new/zero" c 1 5; mknod -m 666 "$new/full" c 1 7
mknod -m 666 "$new/random" c 1 8; mknod -m 666 "$new/urandom" c 1 9; mknod -m 666 "$new/tty" c 5 0
ln -s /proc/self/fd "$new/fd"
mkdir -p "$new/dri/by-path" "$new/pts" "$new/shm"
mount --move "$new" /dev; rmdir "$new"
mount -t tmpfs tmpfs /sys/class
"""
COMPUTE = "mknod -m 666 /dev/kfd c 10 229\n"
GPU = """
mknod -m 666 /dev/dri/card{card} c 10 237; mknod -m 666 /dev/dri/renderD{render} c 10 237
ln -s ../card{card} /dev/dri/by-path/pci-0000:{bus}:00.0-card; ln -s ../renderD{render} /dev/dri/by-path/pci-0000:{bus}:00.0-render
"""
TOPOLOGY = """
mkdir -p /sys/class/kfd/kfd/topology/nodes/{node}
printf 'simd_count {simd}\\ndrm_render_minor {render}\\nunique_id {unique}\\n' >/sys/class/kfd/kfd/topology/nodes/{node}/properties
"""
TWO_GPUS = DEVICES + COMPUTE + GPU.format(card=0, render=128, bus="03") + GPU.format(card=1, render=129, bus="44")
WITH_UUIDS = (TWO_GPUS + TOPOLOGY.format(node=0, simd=0, render=0, unique=0) + TOPOLOGY.format(node=1, simd=416, render=128, unique=0x18f8a8b5b6c25f66)
              + TOPOLOGY.format(node=2, simd=416, render=129, unique=0x18f8a8b5b6c2ffff))
# The same GPUs on a node which keeps its other devices, for engines.
WHOLE_NODE = """
set -e
new=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs "$new"
cp -a --one-file-system /dev/. "$new"
for place in pts shm mqueue; do [ ! -d /dev/$place ] || mount --rbind /dev/$place "$new/$place"; done
mkdir -p "$new/dri/by-path"
mount --move "$new" /dev; rmdir "$new"
mount -t tmpfs tmpfs /sys/class
""" + TWO_GPUS.removeprefix(DEVICES)
PATHS = ["/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128", "/dev/dri/card1", "/dev/dri/renderD129"]
NONE, FIRST, SECOND, BOTH = ["missing"] * 5, ["rw"] * 3 + ["missing"] * 2, ["rw", "missing", "missing", "rw", "rw"], ["rw"] * 5


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "amdgpu_hook"


@pytest.fixture
def make_bundle(tmp_path):
    def make(runtime="crun"):
        tmp_path.chmod(0o755)
        bundle = Bundle(tmp_path, runtime)
        hook_bundle.make_root(bundle.root)
        hook_bundle.install_probe(bundle.root)
        return bundle

    return make


def devices(bundle, hook, node, stage="createContainer", **keywords):
    result = bundle.run(["/bin/probe", *PATHS], [(stage, hook, {})], node=node, **keywords)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()
    return result.stdout.splitlines()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_all_gpus_are_there_and_can_be_opened(make_bundle, hook, runtime, stage):
    assert devices(make_bundle(runtime), hook, TWO_GPUS, stage) == BOTH


def test_node_without_compute_device_is_left_alone(make_bundle, hook):
    without = DEVICES + GPU.format(card=0, render=128, bus="03")
    assert devices(make_bundle(), hook, without, environment=["ROCR_VISIBLE_DEVICES=7"]) == NONE


@pytest.mark.parametrize("value, expected", [("", BOTH), ("0", FIRST), ("1", SECOND), ("1,0", BOTH)])
def test_rocr_visible_devices_selects_by_index(make_bundle, hook, value, expected):
    assert devices(make_bundle(), hook, TWO_GPUS, environment=[f"ROCR_VISIBLE_DEVICES={value}"]) == expected


@pytest.mark.parametrize("value, expected", [("GPU-18f8a8b5b6c25f66", FIRST), ("GPU-18f8a8b5b6c2ffff", SECOND), ("1,GPU-18f8a8b5b6c25f66", BOTH)])
def test_rocr_visible_devices_selects_by_uuid(make_bundle, hook, value, expected):
    assert devices(make_bundle(), hook, WITH_UUIDS, environment=[f"ROCR_VISIBLE_DEVICES={value}"]) == expected


def test_hip_visible_devices_is_left_to_the_container(make_bundle, hook):
    assert devices(make_bundle(), hook, TWO_GPUS, environment=["HIP_VISIBLE_DEVICES=1"]) == BOTH


@pytest.mark.parametrize("value", ["2", "GPU-0000", "none", "0,/dev/sda", "-1"])
def test_what_is_no_gpu_is_explained_and_the_container_does_not_start(make_bundle, hook, value):
    bundle = make_bundle()
    result = bundle.run(["/bin/probe"], [("createContainer", hook, {})], node=WITH_UUIDS, environment=[f"ROCR_VISIBLE_DEVICES={value}"])
    assert result.returncode != 0
    said = result.stderr + bundle.log.read_text()
    assert "which is no AMD GPU of this node" in said
    assert "There are: 0 (GPU-18f8a8b5b6c25f66), 1 (GPU-18f8a8b5b6c2ffff)" in said


def test_display_adapter_without_render_node_is_no_gpu(make_bundle, hook):
    adapter = "mknod -m 666 /dev/dri/card2 c 10 237; ln -s ../card2 /dev/dri/by-path/pci-0000:62:00.0-card\n"
    bundle = make_bundle()
    assert devices(bundle, hook, TWO_GPUS + adapter) == BOTH
    assert "pci-0000:62:00.0-card: it has no render node" in bundle.log.read_text()


# The engine


@pytest.mark.parametrize("options", [[], ["--device=/dev/null:/dev/mine:r"]], ids=["alone", "beside a device of the user"])
@pytest.mark.parametrize("hooks_engine, layout", [("setuid-crun", "--hide-unified"), ("setuid-crun", "--unified"), ("setuid-runc", "--hide-unified"),
                                                  ("setuid-runc", "--unified"), ("rootless-crun", "--hide-unified")], indirect=["hooks_engine"])
def test_gpus_can_be_used_in_containers_of_the_engine(hooks, load_image, plain_busybox, layout, options):  # noqa: F811
    """With device rules on both versions of cgroups, where there are any: of the GPUs that were asked for, and no others."""
    image = load_image(hooks.engine, "busybox", plain_busybox)
    hooks.add("10-amdgpu", hooks.engine.prefix / "bin/amdgpu_hook", ["createContainer"])
    engine = hooks.engine.variant(sandbox=("--fuse", layout, "--node", WHOLE_NODE, "--shared-root"))
    script = 'for path; do if [ ! -e $path ]; then echo missing; elif (: <>$path) 2>/dev/null; then echo rw; else echo closed; fi; done'
    for value, expected in ((None, BOTH), ("1", SECOND)):
        environment = [f"--env=ROCR_VISIBLE_DEVICES={value}"] if value else []
        result = engine.run(image, "sh", "-c", script, "sh", *PATHS, options=[*options, *environment])
        assert (result.stdout.split(), result.stderr) == (expected, "")
