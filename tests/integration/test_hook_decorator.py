"""decorator_hook with real containers: the two documented inventories, with files and devices that stand in for the vendors'."""

import json
import os

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_library, compile_program
from helpers.hook_bundle import Bundle

pytestmark = pytest.mark.asroot

NVIDIA = {
    "version": "396.26", "log_level": "LOG_DEBUG", "activation_flag": "OCI_NVIDIA", "driver_feature": ["compute", "utility"],
    "inventory": {
        "compute": {
            "devices": ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"],
            "binaries": ["/usr/bin/nvidia-cuda-mps-control", "/usr/bin/nvidia-cuda-ms-server"],
            "libraries": ["/usr/lib64/nvidia/libcuda.so", "/usr/lib64/nvidia/libcuda.so.396.26", "/usr/lib64/nvidia/libnvidia-opencl.so.396.26"],
            "directories": ["/usr/lib64/nvidia"],
            "miscellaneous": ["/etc/ld.so.conf.d/nvidia-lib64.conf"]},
        "utility": {
            "devices": ["nvidia0", "nvidiactl"],
            "binaries": ["/usr/bin/nvidia-smi"],
            "libraries": ["/usr/lib64/nvidia/libnvidia-ml.so.396.26", "/usr/lib64/nvidia/libnvidia-ml.so"],
            "directories": ["/usr/lib64/nvidia"],
            "miscellaneous": ["/etc/ld.so.conf.d/nvidia-lib64.conf"]}}}
SOLARFLARE = {
    "version": "201805", "log_level": "LOG_DEBUG", "activation_flag": "OCI_SOLARFLARE", "driver_feature": ["onload"],
    "inventory": {
        "onload": {
            "devices": ["onload", "onload_epoll", "sfc_char"],
            "binaries": ["/usr/bin/onload", "/usr/lib64/libonload.so"],
            "libraries": ["/usr/lib64/libonload_ext.so", "/usr/lib64/libonload_ext.so.1.1.0"],
            "directories": ["/usr/libexec/onload", "/usr/libexec/onload/profiles", "/usr/libexec/onload/apps"],
            "miscellaneous": ["/usr/libexec/onload/profiles/latency.opf"]}}}

# What only the runtime and the hook see of the node: overlays with the vendors' files on /usr and /etc, and a /dev with their devices.
NODE = """
set -e
upper={directory}/node; mount -t tmpfs tmpfs "$upper/overlay"
for place in usr etc; do
    mkdir -p "$upper/overlay/$place-upper" "$upper/overlay/$place-work"
    cp -a "$upper/$place/." "$upper/overlay/$place-upper"
    mount -t overlay overlay -o "lowerdir=/$place,upperdir=$upper/overlay/$place-upper,workdir=$upper/overlay/$place-work" "/$place"
done
new=$(mktemp -d); mount -t tmpfs tmpfs "$new"
mknod -m 666 "$new/null" c 1 3; mknod -m 666 "$new/zero" c 1 5; mknod -m 666 "$new/full" c 1 7
mknod -m 666 "$new/random" c 1 8; mknod -m 666 "$new/urandom" c 1 9; mknod -m 666 "$new/tty" c 5 0
ln -s /proc/self/fd "$new/fd"
mkdir -p "$new/pts" "$new/shm"
for name in {devices}; do mknod -m 666 "$new/$name" c 10 229; done
mount --move "$new" /dev; rmdir "$new"
"""
NVIDIA_DEVICES = ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
DEVICES = [*NVIDIA_DEVICES, "onload", "onload_epoll", "sfc_char"]
PATHS = ["/dev/nvidia-uvm", "/usr/bin/nvidia-cuda-mps-control", "/dev/nvidia0", "/usr/bin/nvidia-smi", "/dev/onload",
         "/usr/libexec/onload/profiles/latency.opf"]
MISSING = ["missing"] * 2
# Mounts are read-only, which root notices as well.
COMPUTE, SMI, ONLOAD = ["rw", "r mps"], ["r smi"], ["rw", "r latency"]


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "decorator_hook"


class Decorated(Bundle):
    def __init__(self, directory, runtime, hook):
        directory.chmod(0o755)
        super().__init__(directory, runtime)
        self.hook = hook
        hook_bundle.make_root(self.root)
        hook_bundle.install_probe(self.root)
        (self.root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
        self.node = directory / "node"
        (self.node / "overlay").mkdir(parents=True)
        self.configuration = self.node / "etc/oci-decorator/oci-decorator.d"
        self.configuration.mkdir(parents=True)
        library = compile_library(self.node / "usr/lib64/nvidia/libcuda.so.396.26", 'const char* cuda(void) { return "cuda of the host"; }', "libcuda.so.1")
        (library.parent / "libcuda.so").symlink_to(library.name)
        for path, text in {"usr/bin/nvidia-cuda-mps-control": "mps\n", "usr/bin/nvidia-smi": "smi\n", "usr/bin/onload": "onload\n",
                           "usr/libexec/onload/profiles/latency.opf": "latency\n", "etc/ld.so.conf.d/nvidia-lib64.conf": "/usr/lib64/nvidia\n"}.items():
            (self.node / path).parent.mkdir(parents=True, exist_ok=True)
            (self.node / path).write_text(text)
        (self.node / "usr/bin/nvidia-smi").chmod(0o6775)
        self.add("nvidia.cfg", NVIDIA)
        self.add("onload.json", SOLARFLARE)

    def add(self, name, inventory):
        (self.configuration / name).write_text(inventory if isinstance(inventory, str) else json.dumps(inventory))

    def start(self, *environment, program=("/bin/probe", *PATHS), stage="createContainer", arguments=(), devices=DEVICES, **keywords):
        node = NODE.format(directory=self.directory, devices=" ".join(devices))
        return self.run(program, [(stage, self.hook, {}, *arguments)], environment=environment, node=node, **keywords)

    def probed(self, *environment, **keywords):
        result = self.start(*environment, **keywords)
        assert result.returncode == 0, self.said(result)
        return result.stdout.splitlines()

    def said(self, result):
        return result.stderr + self.log.read_text()


@pytest.fixture
def make_bundle(tmp_path, hook):
    return lambda runtime="crun": Decorated(tmp_path, runtime, hook)


def add_program(bundle):
    """A program of the image that needs the vendor's library."""
    show = 'extern const char* cuda(void);\n#include <stdio.h>\nint main(void) { puts(cuda()); return 0; }\n'
    compile_program(bundle.root / "usr/bin/show", show, [bundle.node / "usr/lib64/nvidia/libcuda.so.396.26"])


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_documented_examples_work(make_bundle, runtime, stage):
    bundle = make_bundle(runtime)
    assert bundle.probed("OCI_NVIDIA=all", "OCI_SOLARFLARE=", stage=stage) == [*COMPUTE, "rw", *SMI, *ONLOAD]
    assert (bundle.root / "usr/libexec/onload/apps").is_dir()


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.parametrize("arguments", [[], ["--mode=copy"]])
def test_read_only_container_gets_the_same(make_bundle, runtime, arguments):
    bundle = make_bundle(runtime)
    add_program(bundle)
    assert bundle.probed("OCI_NVIDIA=compute", program=["/bin/show"], arguments=arguments, readonly=True) == ["cuda of the host"]


@pytest.mark.parametrize("arguments", [[], ["--mode=copy"]])
def test_program_finds_the_library_by_its_soname_through_the_cache(make_bundle, arguments):
    bundle = make_bundle()
    add_program(bundle)
    assert bundle.start("OCI_NVIDIA=none", program=["/bin/show"], arguments=arguments).returncode != 0
    assert bundle.probed("OCI_NVIDIA=compute", program=["/bin/show"], arguments=arguments) == ["cuda of the host"]


@pytest.mark.parametrize("environment, expected", [
    ([], ["missing"] * 6),
    (["OCI_NVIDIA=none"], ["missing"] * 6), (["OCI_NVIDIA=void"], ["missing"] * 6), (["OCI_NVIDIA=0"], ["missing"] * 6),
    (["MY_OCI_NVIDIA_X=1", "X=OCI_NVIDIA"], ["missing"] * 6),
    (["OCI_NVIDIA=utility"], [*MISSING, "rw", *SMI, *MISSING]),
    (["OCI_NVIDIA=utility,compute"], [*COMPUTE, "rw", *SMI, *MISSING]),
    (["OCI_NVIDIA="], [*COMPUTE, "rw", *SMI, *MISSING]),
    (["OCI_NVIDIA=0", "OCI_SOLARFLARE=onload"], ["missing"] * 4 + ONLOAD)])
def test_value_of_each_flag_counts_for_its_vendor(make_bundle, environment, expected):
    assert make_bundle().probed(*environment) == expected


def refused(bundle, *environment, **keywords):
    result = bundle.start(*environment, **keywords)
    assert result.returncode != 0 and result.stdout == ""
    return bundle.said(result)


def test_unknown_feature_is_explained_before_anything_is_changed(make_bundle):
    bundle = make_bundle()
    said = refused(bundle, "OCI_NVIDIA=all", "OCI_SOLARFLARE=onlaod")
    assert "OCI_SOLARFLARE holds 'onlaod', which is not a feature of /etc/oci-decorator/oci-decorator.d/onload.json" in said
    assert "There are: all, none, onload" in said
    assert not (bundle.root / "usr/lib64/nvidia").exists()


def test_huge_value_is_refused_in_one_line(make_bundle):
    said = refused(make_bundle(), "OCI_NVIDIA=" + "compute," * 15000)
    assert "OCI_NVIDIA is longer than 4096 bytes" in said and len(said) < 2000


def test_missing_device_is_an_error_and_a_missing_file_is_not(make_bundle):
    bundle = make_bundle()
    assert bundle.probed("OCI_NVIDIA=all")[0] == "rw"
    assert "There is no /usr/bin/nvidia-cuda-ms-server on this node" in bundle.log.read_text()
    assert "There is no device /dev/nvidia-uvm on this node" in refused(bundle, "OCI_NVIDIA=all", devices=["nvidia0", "nvidiactl"])


def test_copies_are_the_containers_own_files(make_bundle):
    bundle = make_bundle()
    probed = bundle.probed("OCI_NVIDIA=all", arguments=["--mode=copy"])
    assert probed[:4] == ["rw", "rw mps", "rw", "rw smi"]
    copy = bundle.root / "usr/bin/nvidia-smi"
    assert copy.read_text() == "smi\n"
    assert [path.name for path in copy.parent.iterdir() if path.name.startswith(".")] == []  # no temporary file is left
    assert copy.stat().st_mode & 0o7777 == 0o755  # neither set-user-ID nor writable for the group


@pytest.mark.parametrize("arguments", [[], ["--mode=copy"]])
def test_links_of_the_image_lead_nowhere_outside(make_bundle, arguments):
    bundle = make_bundle()
    outside = bundle.directory / "outside"
    outside.mkdir()
    (outside / "nvidia-smi").write_text("untouched\n")
    for directory in (bundle.root / "usr/libexec", bundle.root / "usr/lib64/nvidia"):
        directory.symlink_to(outside)
    (bundle.root / "usr/bin/nvidia-smi").symlink_to(outside / "nvidia-smi")
    refused_or_inside = bundle.start("OCI_NVIDIA=all", "OCI_SOLARFLARE=all", arguments=arguments)
    assert sorted(path.name for path in outside.iterdir()) == ["nvidia-smi"], bundle.said(refused_or_inside)
    assert (outside / "nvidia-smi").read_text() == "untouched\n"


@pytest.mark.parametrize("arguments", [[], ["--mode=copy"]])
def test_image_cannot_lead_files_into_filesystems_of_the_kernel(make_bundle, arguments):
    bundle = make_bundle()
    (bundle.root / "usr/lib64/nvidia").symlink_to("/proc/self")
    assert "libcuda.so" in refused(bundle, "OCI_NVIDIA=compute", arguments=arguments)


def test_file_is_not_mounted_over_one_of_the_kernel(make_bundle):
    bundle = make_bundle()
    (bundle.root / "usr/bin/nvidia-smi").symlink_to("/proc/version")
    assert "cannot be a subdirectory of" in refused(bundle, "OCI_NVIDIA=utility")


@pytest.mark.parametrize("arguments", [[], ["--mode=copy"]])
def test_nothing_is_created_in_directories_of_the_user(make_bundle, arguments):
    bundle = make_bundle()
    volume = bundle.directory / "volume"
    volume.mkdir()
    mounts = [{"destination": "/usr/libexec/onload/profiles", "type": "bind", "source": str(volume), "options": ["bind"]}]
    reason = "is mounted from elsewhere" if "--mode=copy" in arguments else "is not on a device allowed for mounts"
    assert reason in refused(bundle, "OCI_SOLARFLARE=all", arguments=arguments, mounts=mounts)
    assert list(volume.iterdir()) == []


def test_inventory_that_others_can_write_is_refused_to_those_who_ask_for_it(make_bundle):
    bundle = make_bundle()
    os.chown(bundle.configuration / "nvidia.cfg", 1000, 1000)
    assert "nvidia.cfg is not root's alone" in refused(bundle, "OCI_NVIDIA=all")
    assert bundle.probed("OCI_SOLARFLARE=all") == ["missing"] * 4 + ONLOAD


def test_broken_inventory_harms_only_containers_that_ask_for_it(make_bundle):
    bundle = make_bundle()
    bundle.add("vendor.json", '{"activation_flag": "A", "driver_feature": ["a"], "inventory": {"a": {"libraries": ["/x/../y"]}}}')
    bundle.add("zz.json", '{"activation_flag" : "B", "driver_feature": [')
    bundle.add("zzz.json", "nonsense")
    assert "vendor.json: inventory.a.libraries[0]: expected a path without" in refused(bundle, "A=1")
    assert "zz.json: not valid JSON" in refused(bundle, "B=all")
    assert bundle.probed("OCI_SOLARFLARE=all", "A=none") == ["missing"] * 4 + ONLOAD
    assert "Ignoring an inventory: /etc/oci-decorator/oci-decorator.d/zzz.json: not valid JSON" in bundle.log.read_text()


@pytest.mark.parametrize("value", ["1", "true", "ALL", "yes", "on"])
def test_usual_words_switch_a_vendor_on(make_bundle, value):
    assert make_bundle().probed(f"OCI_SOLARFLARE={value}") == ["missing"] * 4 + ONLOAD


def test_node_without_inventories_is_left_alone_unless_a_directory_is_named(make_bundle):
    bundle = make_bundle()
    assert bundle.run(["/bin/probe", "/dev/nvidia0"], [("createContainer", bundle.hook, {})], environment=["OCI_NVIDIA=all"]).stdout == "missing\n"
    assert "/nonexistent" in refused(bundle, arguments=["--config-dir=/nonexistent"])


def test_directory_can_be_named(make_bundle):
    bundle = make_bundle()
    elsewhere = bundle.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.cfg").write_text(json.dumps({"activation_flag": "X", "driver_feature": ["f"], "inventory": {"f": {"binaries": ["/usr/bin/nvidia-smi"]}}}))
    assert bundle.probed("X=", "OCI_NVIDIA=all", arguments=[f"--config-dir={elsewhere}"]) == ["missing"] * 3 + SMI + MISSING


@pytest.mark.parametrize("argument", ["--mode=move", "prestart", "--config-dir=relative"])
def test_wrong_arguments_are_named(make_bundle, argument):
    assert argument.split("=")[-1] in refused(make_bundle(), arguments=[argument])
