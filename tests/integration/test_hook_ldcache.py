"""ldcache_hook with real containers, which find a library through the linker cache alone."""

import json
import shutil
import subprocess
import time

import pytest
from helpers import hook_bundle, images
from helpers.compiler import compile_library, compile_program
from helpers.hook_bundle import Bundle
from test_hook_podman import podman  # noqa: F401 (a fixture)
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "ldcache_hook"


@pytest.fixture(params=["crun", "runc"])
def bundle(request, tmp_path):
    tmp_path.chmod(0o755)
    made = Bundle(tmp_path, request.param)
    hook_bundle.make_root(made.root)
    library = compile_library(tmp_path / "opt/libanswer.so.1", "int answer(void) { return 42; }\n", "libanswer.so.1")
    compile_program(made.root / "usr/bin/ask", "int answer(void); int main(void) { return answer() != 42; }\n", [library])
    (made.root / "etc/ld.so.conf").write_text("/opt\n")
    shutil.copytree(tmp_path / "opt", made.root / "opt")
    return made


def test_library_is_found_through_the_cache_alone(bundle, hook):
    assert bundle.run(["/bin/ask"], []).returncode == 127
    for stage in ("prestart", "createRuntime", "createContainer"):
        (bundle.root / "etc/ld.so.cache").unlink(missing_ok=True)
        result = bundle.run(["/bin/ask"], [(stage, hook, {"LDCONFIG_PATH": "/no/such"})])
        assert result.returncode == 0, result.stderr + bundle.log.read_text()


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_cache_of_a_read_only_container_is_written(bundle, hook, stage):
    result = bundle.run(["/bin/ask"], [(stage, hook, {})], readonly=True)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_mounted_library_is_found(bundle, hook, stage):
    shutil.rmtree(bundle.root / "opt")
    mounts = [{"destination": "/opt", "type": "bind", "source": str(bundle.directory / "opt"), "options": ["rbind", "ro"]}]
    result = bundle.run(["/bin/ask"], [(stage, hook, {})], mounts=mounts)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()


def test_cache_that_is_right_is_kept_and_a_changed_directory_is_noticed(bundle, hook):
    cache = bundle.root / "etc/ld.so.cache"
    time.sleep(0.05)  # what is younger than a tick of the clock is not trusted
    bundle.run(["/bin/ask"], [("prestart", hook, {})])
    first = cache.stat()
    bundle.run(["/bin/ask"], [("prestart", hook, {})])
    assert (cache.stat().st_ino, cache.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    time.sleep(0.02)
    compile_library(bundle.root / "opt/libmore.so.1", "int more;\n", "libmore.so.1")
    bundle.run(["/bin/ask"], [("prestart", hook, {})])
    assert b"/opt/libmore.so.1" in cache.read_bytes()


def test_links_of_the_image_lead_nowhere_else(bundle, hook):
    outside = bundle.directory / "outside"
    outside.write_text("untouched\n")
    (bundle.root / "etc/ld.so.cache").symlink_to(outside)
    result = bundle.run(["/bin/ask"], [("prestart", hook, {})])
    assert result.returncode == 0 and outside.read_text() == "untouched\n"
    assert not (bundle.root / "etc/ld.so.cache").is_symlink()


def update(bundle, hook, *arguments, **environment):
    """The hook by itself. Returns its status and its last line, with the path of the root filesystem as ROOT."""
    (bundle.directory / "config.json").write_text(json.dumps({"root": {"path": "rootfs"}, "annotations": {"com.hooks.logging.level": "0"}}))
    state = json.dumps({"ociVersion": "1.0.2", "id": "direct", "pid": 0, "status": "creating", "bundle": str(bundle.directory)})
    result = subprocess.run([*arguments, str(hook)], input=state, capture_output=True, text=True, env=environment, check=False)
    lines = (result.stdout + result.stderr).replace(str(bundle.root), "ROOT").splitlines()
    return result.returncode, lines


def test_the_last_line_tells_about_the_cache(bundle, hook):
    status, lines = update(bundle, hook, LDCONFIG_PATH="/bin/false")
    cache = (bundle.root / "etc/ld.so.cache").stat()
    assert (status, lines[-1]) == (0, f"ldcache_hook: cache=ROOT/etc/ld.so.cache exists size={cache.st_size} mtime_unix={int(cache.st_mtime)}")


@pytest.mark.parametrize("kind", ["musl", "static", "without etc"])
def test_images_which_need_no_cache_are_left_alone(bundle, hook, kind):
    if kind == "without etc":
        shutil.rmtree(bundle.root / "etc")
    else:
        for linker in bundle.root.glob("usr/lib*/ld-linux*"):
            linker.unlink()
        if kind == "musl":
            (bundle.root / "usr/lib/ld-musl-x86_64.so.1").write_bytes(b"the dynamic linker")
    compile_program(bundle.root / "usr/bin/static", "int main(void) { return 7; }\n", ["-static"])
    before = sorted(bundle.root.rglob("*"))
    status, lines = update(bundle, hook)
    assert status == 0 and lines[-1] == "ldcache_hook: cache=ROOT/etc/ld.so.cache missing"
    assert "[DEBUG] No linker cache is needed" in lines[0]
    assert sorted(bundle.root.rglob("*")) == before
    assert bundle.run(["/bin/static"], [("createContainer", hook, {})]).returncode == 7


def test_root_that_cannot_be_written_is_an_error_unless_its_cache_is_right(bundle, hook):
    def with_root(mount):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mount}; exec "$@"', "sh"]

    (bundle.directory / "empty").mkdir()
    # Without an upper directory, the filesystem itself cannot be written; the flag of a mount would be lifted meanwhile.
    status, lines = update(bundle, hook, *with_root(f"mount -t overlay -o lowerdir={bundle.root}:{bundle.directory}/empty overlay {bundle.root}"))
    assert status == 1 and "Read-only file system" in lines[-1]
    time.sleep(0.05)
    update(bundle, hook)
    cache = bundle.root / "etc/ld.so.cache"
    before = cache.stat().st_mtime_ns
    status, lines = update(bundle, hook, *with_root(f"mount --bind {bundle.root} {bundle.root}; mount -o remount,bind,ro {bundle.root}"))
    assert status == 0 and "exists" in lines[-1] and cache.stat().st_mtime_ns == before


@pytest.mark.parametrize("config, message", [("{", "Invalid JSON"), ("[]", "Invalid JSON"), ("{}", "root.path"), ('{"root": {"path": 1}}', "root.path"),
                                             ('{"root": {"path": "/"}}', "root directory of the host"), (None, "No such file"),
                                             ('{"root": {"path": "missing"}}', "No such file")])
def test_bad_configuration_is_an_error_without_a_line_about_the_cache(tmp_path, hook, config, message):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    result = subprocess.run([str(hook)], input=json.dumps({"id": "x", "pid": 0, "bundle": str(tmp_path)}), capture_output=True, text=True, env={}, check=False)
    assert result.returncode == 1 and message in result.stderr and "cache=" not in result.stderr


@pytest.mark.parametrize("stage", ["prestart", "createContainer"])
@pytest.mark.parametrize("bundle", ["crun"], indirect=True)
def test_mounted_library_is_found_under_podman(podman, bundle, hook, stage):  # noqa: F811
    shutil.copytree(bundle.directory / "opt", podman.directory / "opt")
    shutil.copy(bundle.root / "usr/bin/ask", podman.root / "usr/bin/ask")
    (podman.root / "etc/ld.so.conf").write_text("/opt\n")
    volume = [f"--volume={podman.directory}/opt:/opt:ro"]
    assert podman.run("/bin/ask", options=volume).returncode == 127
    podman.add("ldcache", hook, stages=[stage])
    result = podman.run("/bin/ask", options=volume)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def image(hooks_engine, load_image, bundle):  # noqa: F811
    """Busybox with a program that needs a library of the host."""

    def extra(layer):
        layer.directory(hook_bundle.MULTIARCH.lstrip("/"))
        layer.directory("lib64")
        layer.file(hook_bundle.MULTIARCH.lstrip("/") + "/libc.so.6", hook_bundle.LIBC.read_bytes(), mode=0o755)
        layer.file(str(hook_bundle.LINKER).lstrip("/"), hook_bundle.LINKER.read_bytes(), mode=0o755)
        layer.file("etc/ld.so.conf", b"/opt/host\n")
        layer.file("usr/bin/ask", (bundle.root / "usr/bin/ask").read_bytes(), mode=0o755)

    return load_image(hooks_engine, "ldcache", images.Image([images.busybox_layer(extra=extra)], {"Env": [images.PATH_VARIABLE]}))


@pytest.mark.parametrize("bundle", ["crun"], indirect=True)
def test_mounted_library_is_found_under_the_engine(hooks, image, bundle, workspace):  # noqa: F811
    host = shutil.copytree(bundle.directory / "opt", workspace / "ldcache", dirs_exist_ok=True)
    libraries = [f"--mount=type=bind,source={host},destination=/opt/host,readonly"]
    assert hooks.engine.run(image, "ask", options=libraries, check=False).returncode == 127
    hooks.add("ldcache", hooks.engine.prefix / "bin/ldcache_hook", ["createContainer"], env=["LDCONFIG_PATH=/sbin/ldconfig"])
    hooks.engine.run(image, "ask", options=libraries)
    result = hooks.engine.run(image, "sh", "-c", "ask && ! touch /etc/new", options=[*libraries, "--read-only"])
    assert "Read-only file system" in result.stderr


def test_cache_says_nothing_of_a_mounted_file_that_the_user_cannot_read(hooks, hooks_engine, load_image, images, opt):  # noqa: F811
    """A mount source needs no read permission of the user, and the image's links can lead to it."""
    token = opt / "token-of-another-user"
    token.write_text("/TOKEN-OF-ANOTHER-USER\n")
    token.chmod(0o600)

    def extra(layer):
        layer.directory("lib64")
        layer.file(str(hook_bundle.LINKER).lstrip("/"), hook_bundle.LINKER.read_bytes(), mode=0o755)
        layer.symlink("etc/ld.so.conf", "/mnt/token")

    image = load_image(hooks_engine, "ldcache-token", images.busybox(extra=extra))  # noqa: F811
    hooks.add("ldcache", hooks.engine.prefix / "bin/ldcache_hook", ["createContainer"])
    result = hooks.engine.run(image, "cat", "/etc/ld.so.cache", options=[f"--mount=type=bind,source={token},destination=/mnt/token"], text=False, check=False)
    token.unlink()
    assert b"glibc-ld.so.cache" in result.stdout and b"/lib64" in result.stdout, result.stderr
    assert b"TOKEN" not in result.stdout


def test_bad_state_is_an_error(hook):
    result = subprocess.run([str(hook)], input="{", capture_output=True, text=True, env={}, check=False)
    assert result.returncode == 1 and "[ldcache hook] [ERROR]" in result.stderr
