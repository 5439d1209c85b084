"""ldcache_hook with real containers, which find a library through the linker cache alone."""

import shutil
import subprocess
import time

import pytest
from helpers import hook_bundle
from helpers.hook_bundle import Bundle, compile_library, compile_program

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="session")
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


def test_mounted_library_is_found_at_create_container(bundle, hook):
    shutil.rmtree(bundle.root / "opt")
    mounts = [{"destination": "/opt", "type": "bind", "source": str(bundle.directory / "opt"), "options": ["rbind", "ro"]}]
    result = bundle.run(["/bin/ask"], [("createContainer", hook, {})], mounts=mounts)
    assert result.returncode == 0, result.stderr + bundle.log.read_text()


def test_cache_that_is_right_is_kept_and_a_changed_directory_is_noticed(bundle, hook):
    cache = bundle.root / "etc/ld.so.cache"
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


def test_image_without_etc_starts(bundle, hook):
    shutil.rmtree(bundle.root / "etc")
    result = bundle.run(["/bin/ask"], [("prestart", hook, {})])
    assert "ld.so.cache" not in result.stderr and not (bundle.root / "etc/ld.so.cache").exists()
    assert result.returncode == 127  # the program was started


def test_bad_state_is_an_error(hook):
    result = subprocess.run([str(hook)], input="{", capture_output=True, text=True, env={}, check=False)
    assert result.returncode == 1 and "[ldcache hook] [ERROR]" in result.stderr
