"""mount_hook with real containers, with Debian's libfabric and with a Slurm cluster of one node."""

import pathlib
import shutil

import pytest
from helpers import hook_bundle, slurm, system
from helpers.compiler import compile_c
from helpers.hook_bundle import MULTIARCH, Bundle

pytestmark = pytest.mark.asroot

STAGES = ["prestart", "createRuntime", "createContainer"]
LDCONFIG = {"LDCONFIG_PATH": "/sbin/ldconfig"}

# A provider of libfabric which offers nothing but its name.
PROVIDER = """
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
static int get_info(uint32_t v, const char* n, const char* s, uint64_t f, const struct fi_info* h, struct fi_info** i) {
    (void)v; (void)n; (void)s; (void)f; (void)h; (void)i;
    return -FI_ENODATA;
}
static int open_fabric(struct fi_fabric_attr* a, struct fid_fabric** f, void* c) {
    (void)a; (void)f; (void)c;
    return -FI_ENODEV;
}
static void clean(void) {}
static struct fi_provider provider = {.name = "injected", .version = FI_VERSION(1, 0), .fi_version = FI_VERSION(1, 17), .getinfo = get_info,
                                      .fabric = open_fabric, .cleanup = clean};
__attribute__((visibility("default"))) struct fi_provider* fi_prov_ini(void) { return &provider; }
"""


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "mount_hook"


@pytest.fixture(params=["crun", "runc"])
def bundle(request, tmp_path):
    tmp_path.chmod(0o755)
    made = Bundle(tmp_path, request.param)
    hook_bundle.make_root(made.root)
    hook_bundle.install_probe(made.root)
    return made


@pytest.fixture
def crun_bundle(tmp_path):
    """For rules that the OCI runtime has no part in."""
    tmp_path.chmod(0o755)
    made = Bundle(tmp_path, "crun")
    hook_bundle.make_root(made.root)
    hook_bundle.install_probe(made.root)
    return made


@pytest.fixture
def host(tmp_path):
    directory = tmp_path / "host"
    (directory / "configs").mkdir(parents=True)
    (directory / "file").write_text("from the host\n")
    (directory / "configs" / "inner").write_text("configuration\n")
    return directory


def bind(source, destination, more=""):
    return f"--mount=type=bind,src={source},dst={destination}{more}"


def probe(bundle, hook, arguments, paths, stage="createContainer", variables=None, **keywords):
    result = bundle.run(["/bin/probe", *paths], [(stage, hook, variables or {}, *arguments)], **keywords)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()
    return result.stdout.splitlines()


def failure(bundle, hook, arguments, **keywords):
    """What a container says whose hook refuses."""
    result = bundle.run(["/bin/probe"], [("createContainer", hook, {}, *arguments)], **keywords)
    assert result.returncode != 0
    return result.stderr + bundle.log.read_text()


@pytest.mark.parametrize("stage", STAGES)
def test_files_and_directories_are_mounted(bundle, hook, host, stage):
    arguments = [bind(host / "file", "/usr/local/lib/libexample.so.1"), "--mount", f"type=bind,src={host}/configs,dst=/etc/host_configs,readonly"]
    found = probe(bundle, hook, arguments, ["/usr/local/lib/libexample.so.1", "/etc/host_configs/inner"], stage)
    assert found == ["rw from the host", "r configuration"]


@pytest.mark.parametrize("stage", STAGES)
def test_device_appears_and_may_be_opened(bundle, hook, stage):
    assert probe(bundle, hook, ["--device=/dev/fuse"], ["/dev/fuse"], stage) == ["rw"]


def test_device_gets_the_access_requested_and_its_other_name(bundle, hook):
    arguments = ["--device=/dev/fuse:/dev/reading:r", "--device=/dev/loop-control:/dev/writing:w"]
    assert probe(bundle, hook, arguments, ["/dev/reading", "/dev/writing"]) == ["r", "w"]


def test_device_without_the_option_stays_closed(bundle, hook):
    assert probe(bundle, hook, [bind("/dev/fuse", "/dev/fuse")], ["/dev/fuse"]) == [""]


def test_bad_requests_are_explained_and_the_container_does_not_start(crun_bundle, hook, host):
    assert "Invalid mount request 'xyz': 'type' must be specified" in failure(crun_bundle, hook, ["--mount=xyz"])
    assert "Unknown argument --mont=x" in failure(crun_bundle, hook, ["--mont=x"])
    assert f'Source path "{host}" is not a device file' in failure(crun_bundle, hook, [f"--device={host}"])
    assert "/nonexistent" in failure(crun_bundle, hook, [bind("/nonexistent", "/x")])
    missing = failure(crun_bundle, hook, ["--device=/dev/nonexistent"])
    assert 'Failed to check if file "/dev/nonexistent" is a device file. Stat failed: No such file or directory' in missing


@pytest.mark.parametrize("stage", STAGES)
def test_destination_is_made_in_a_read_only_container_that_stays_so(bundle, hook, host, stage):
    (bundle.root / "etc/image").write_text("of the image\n")
    made = probe(bundle, hook, [bind(host / "file", "/opt/made")], ["/opt/made", "/etc/image"], stage, readonly=True)
    assert made == ["rw from the host", "r of the image"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("readonly", [False, True])
def test_destination_is_made_in_a_tmpfs_of_the_containers_own(bundle, hook, host, stage, readonly):
    mounts = [{"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=755"]}]
    assert probe(bundle, hook, [bind(host / "configs", "/run/munge")], ["/run/munge/inner"], stage, mounts=mounts, readonly=readonly) == ["rw configuration"]


@pytest.mark.parametrize("source", ["shared", "shared/part"])
def test_nothing_is_created_in_a_tmpfs_of_the_host(bundle, hook, host, source):
    """Nor in the tmpfs as a whole, nor in a directory of it."""
    node = f"mkdir -p {host}/shared; mount -t tmpfs tmpfs {host}/shared; mkdir {host}/shared/part"
    mounts = [{"destination": "/run", "type": "bind", "source": f"{host}/{source}", "options": ["rbind"]}]
    assert "is not on a device allowed for mounts" in failure(bundle, hook, [bind(host / "file", "/run/made")], mounts=mounts, node=node)


def test_file_and_directory_are_not_mounted_on_each_other(crun_bundle, hook, host):
    assert "the destination is a directory and the source is not" in failure(crun_bundle, hook, [bind(host / "file", "/etc")])
    (crun_bundle.root / "etc/file").write_text("")
    assert "the destination is a file" in failure(crun_bundle, hook, [bind(host / "configs", "/etc/file")])


def test_destination_never_leaves_the_root_filesystem(bundle, hook, host):
    outside = bundle.directory / "outside"
    outside.mkdir()
    (bundle.root / "link").symlink_to(outside)
    (bundle.root / "up").symlink_to("../../../../../../etc")
    arguments = [bind(host / "file", "/link/created"), bind(host / "file", "/up/created"), bind(host / "file", "/../../x")]
    bundle.run(["/bin/probe"], [("createContainer", hook, {}, *arguments)])
    assert list(outside.iterdir()) == []
    assert not pathlib.Path("/etc/created").exists()


def test_provider_path_of_the_container_counts_first(crun_bundle, hook, host):
    arguments = [bind(host / "file", "<FI_PROVIDER_PATH>/libgnix-fi.so")]
    environment = ["FI_PROVIDER_PATH=/opt/providers:/opt/more"]
    assert probe(crun_bundle, hook, arguments, ["/opt/providers/libgnix-fi.so"], variables=LDCONFIG, environment=environment) == [
        "rw from the host"]


def test_provider_path_is_usr_lib_without_library_or_ldconfig_path(crun_bundle, hook, host):
    arguments = [bind(host / "file", "<FI_PROVIDER_PATH>/libgnix-fi.so")]
    assert probe(crun_bundle, hook, arguments, ["/usr/lib/libgnix-fi.so"], variables=LDCONFIG) == ["rw from the host"]
    (crun_bundle.root / "usr/lib/libgnix-fi.so").unlink()
    install_libfabric(crun_bundle.root)
    assert probe(crun_bundle, hook, arguments, ["/usr/lib/libgnix-fi.so"]) == ["rw from the host"]


@pytest.mark.parametrize("value", ["/proc/sys/kernel", "/innocent"])
def test_container_cannot_aim_the_provider_path_at_the_kernel(crun_bundle, hook, host, value):
    """Programs with privileges trust /proc: nothing that the user or the image said may be mounted there."""
    (crun_bundle.root / "innocent").symlink_to("/proc/sys/kernel")
    arguments = [bind(host / "file", "<FI_PROVIDER_PATH>/hostname")]
    assert "cannot be a subdirectory of" in failure(crun_bundle, hook, arguments, environment=[f"FI_PROVIDER_PATH={value}"])


def test_container_has_no_say_in_sources_and_options(crun_bundle, hook, host):
    arguments = ["--mount=type=bind,src=<FI_PROVIDER_PATH>,dst=/x"]
    assert "may stand in the destination only" in failure(crun_bundle, hook, arguments, environment=["FI_PROVIDER_PATH=/etc/shadow"])
    arguments = [bind(host / "file", "<FI_PROVIDER_PATH>/x", ",readonly")]
    environment = ["FI_PROVIDER_PATH=/a,src=/etc/shadow"]
    assert probe(crun_bundle, hook, arguments, ["/a,src=/etc/shadow/x"], environment=environment) == ["r from the host"]


def install_libfabric(root):
    """fi_info and what it needs, as in an image that was built with Debian's libfabric."""
    shutil.copy(system.program("fi_info"), root / "usr/bin/fi_info")
    for library in slurm.libraries_of("/usr/bin/fi_info"):
        shutil.copy(library, root / f"usr{MULTIARCH}" / pathlib.Path(library).name)


@pytest.fixture(scope="module")
def provider(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("provider") / "libinjected-fi.so", PROVIDER, ["-shared", "-fPIC"])


@pytest.mark.parametrize("environment, directory", [([], f"{MULTIARCH}/libfabric"), (["FI_PROVIDER_PATH=/opt/fi"], "/opt/fi")])
def test_injected_provider_is_found_by_the_libfabric_of_the_container(bundle, hook, provider, environment, directory):
    install_libfabric(bundle.root)
    assert "injected" not in bundle.run(["/bin/fi_info", "-l"], [], environment=environment).stdout
    arguments = [bind(provider, "<FI_PROVIDER_PATH>/libinjected-fi.so")]
    result = bundle.run(["/bin/fi_info", "-l"], [("createContainer", hook, LDCONFIG, *arguments)], environment=environment)
    assert "injected:" in result.stdout, result.stdout + result.stderr + bundle.log.read_text()
    assert (bundle.root / directory.lstrip("/") / "libinjected-fi.so").exists()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("slurm")
    directory.chmod(0o755)
    directory.parent.chmod(0o755)
    made = slurm.Slurm(directory / "cluster")
    yield made
    made.stop()


def test_slurm_of_the_host_is_usable_in_the_container(bundle, hook, cluster):
    (bundle.root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    assert bundle.run(["/usr/bin/srun", "--version"], []).returncode != 0
    hooks = [("createContainer", hook, LDCONFIG, *slurm.documented_arguments(cluster))]
    result = bundle.run(["/usr/bin/srun", "--version"], hooks)
    assert result.stdout == cluster.call("srun", "--version").stdout, result.stderr + bundle.log.read_text()
    result = bundle.run(["/usr/bin/sinfo", "--noheader", "--format=%P %t %N"], hooks)
    assert result.stdout == f"all* idle {cluster.node}\n", result.stderr
