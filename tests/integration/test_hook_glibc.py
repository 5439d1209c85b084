"""glibc_hook with real containers. The old C library is a library of the test that defines old symbol versions only."""

import platform
import re

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_c, compile_library, compile_program
from helpers.hook_bundle import LIBC, LINKER, MULTIARCH, Bundle

pytestmark = pytest.mark.asroot

PROGRAM = '#include <stdio.h>\nint main(void) { puts("started"); return 0; }\n'


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "glibc_hook"


@pytest.fixture(params=["crun", "runc"])
def bundle(request, tmp_path):
    tmp_path.chmod(0o755)
    made = Bundle(tmp_path, request.param)
    hook_bundle.make_root(made.root)
    compile_program(made.root / "usr/bin/start", PROGRAM)
    return made


def settings(**more):
    return {"GLIBC_LIBS": f"{LIBC}:{LINKER}", **more}


def make_old(root, soname="libc.so.6"):
    """Puts an old libc in place of the real one: nothing but the hook can make programs start."""
    compile_library(root / f"usr{MULTIARCH}/libc.so.6", "int only_old(void) { return 0; }\n", soname, "GLIBC_2.5 { only_old; };\n")


def test_programs_do_not_start_with_the_old_library(bundle):
    make_old(bundle.root)
    assert bundle.run(["/bin/start"], []).returncode != 0


@pytest.mark.parametrize("stage", ["prestart", "createRuntime", "createContainer"])
def test_older_glibc_is_replaced(bundle, hook, stage):
    make_old(bundle.root)
    result = bundle.run(["/bin/start"], [(stage, hook, settings())])
    assert (result.stdout, result.returncode) == ("started\n", 0), result.stderr + bundle.log.read_text()


def test_replacement_is_announced_with_both_versions(bundle, hook):
    make_old(bundle.root)
    bundle.run(["/bin/start"], [("createContainer", hook, settings())])
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert re.search(r"^Detected glibc 2\.5 \(< (2\.\d+)\) in the container\. Replacing it with glibc \1 from the host\.", bundle.log.read_text(), re.MULTILINE)


def test_glibc_that_is_not_older_is_kept(bundle, hook):
    result = bundle.run(["/bin/start"], [("createContainer", hook, settings())])
    assert result.stdout == "started\n"
    assert "Detected glibc" not in bundle.log.read_text()


def test_only_a_replacement_reads_the_other_libraries_of_the_host(bundle, hook):
    missing = settings(GLIBC_LIBS=f"/no/such/libm.so.6:{LIBC}")
    assert bundle.run(["/bin/start"], [("createContainer", hook, missing)]).stdout == "started\n"
    make_old(bundle.root)
    result = bundle.run(["/bin/start"], [("createContainer", hook, missing)])
    assert result.returncode != 0 and "/no/such/libm.so.6" in result.stderr + bundle.log.read_text()


def test_other_soname_is_refused(bundle, hook):
    make_old(bundle.root, soname="libc.so.5")
    result = bundle.run(["/bin/start"], [("createContainer", hook, settings())])
    assert result.returncode != 0
    assert "not ABI compatible" in result.stderr + bundle.log.read_text()


def test_library_which_the_container_lacks_is_added(bundle, hook):
    make_old(bundle.root)
    added = compile_library(bundle.directory / "libextra.so.1", "int extra(void) { return 0; }\n", "libextra.so.1")
    others = [compile_library(bundle.directory / f"libmore{i}.so.1", "int extra(void) { return 0; }\n", f"libmore{i}.so.1") for i in (1, 2)]
    variables = settings()
    variables["GLIBC_LIBS"] += "".join(f":{library}" for library in [added, *others])
    result = bundle.run(["/bin/start"], [("createContainer", hook, variables)], annotations={"com.hooks.logging.level": "1"})
    assert result.stdout == "started\n", result.stderr + bundle.log.read_text()
    assert (bundle.root / "usr/lib64/libextra.so.1").exists()
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        warnings = [line for line in bundle.log.read_text().replace("\\n", "\n").splitlines() if "[WARN]" in line and "libmore" not in line]
        assert sum("libextra.so.1 and 2 other libraries of GLIBC_LIBS: the host's are added in /lib64" in line for line in warnings) == 1
        assert "/libmore2.so.1 on the container's /lib64/libmore2.so.1" in bundle.log.read_text()


def test_damaged_libraries_of_the_image_are_no_reason_to_fail(bundle, hook):
    (bundle.root / "usr/lib/libm.so.6").write_bytes(b"\x7fELF\x02\x01")
    (bundle.root / "usr/lib/libdl.so.2").symlink_to("libdl.so.2")
    (bundle.root / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1" + b"\xff" * 100)
    assert bundle.run(["/bin/start"], [("createContainer", hook, settings())]).stdout == "started\n"


def test_documented_variables_may_be_present(bundle, hook):
    variables = settings(LDD_PATH="/nonexistent", LDCONFIG_PATH="/nonexistent", READELF_PATH="/nonexistent")
    make_old(bundle.root)
    assert bundle.run(["/bin/start"], [("createContainer", hook, variables)]).stdout == "started\n"


def test_container_without_c_library_is_left_alone(bundle, hook):
    (bundle.root / f"usr{MULTIARCH}/libc.so.6").unlink()
    (bundle.root / f"usr{LINKER}").unlink()
    compile_c(bundle.root / "usr/bin/start", PROGRAM, ["-static"])
    assert bundle.run(["/bin/start"], [("createContainer", hook, settings())]).stdout == "started\n"


def test_musl_is_named_as_musl(bundle, hook):
    (bundle.root / f"usr{MULTIARCH}/libc.so.6").unlink()
    (bundle.root / f"usr{LINKER}").rename(bundle.root / f"usr/lib/ld-musl-{platform.machine()}.so.1")
    compile_c(bundle.root / "usr/bin/start", PROGRAM, ["-static"])
    result = bundle.run(["/bin/start"], [("createContainer", hook, settings())], annotations={"com.hooks.logging.level": "1"})
    assert result.stdout == "started\n"
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert "Not replacing anything: the container's C library is musl" in bundle.log.read_text()
