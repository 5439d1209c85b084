"""mpi_hook with real containers: which library does a program get, and what does the user read when it gets none."""

import json
import os
import platform
import subprocess

import pytest
from helpers import hook_bundle
from helpers.compiler import compile_library, compile_program
from helpers.hook_bundle import Bundle

pytestmark = pytest.mark.asroot

PROGRAM = '#include <stdio.h>\nconst char* which_mpi(void);\nint main(void) { puts(which_mpi()); return 0; }\n'
STAGES = ["prestart", "createRuntime", "createContainer"]


def mpi_source(text):
    return f'const char* which_mpi(void) {{ return "{text}"; }}\n'


@pytest.fixture(scope="module")
def hook(build_dir):
    return build_dir / "mpi_hook"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """Libraries of the host."""
    directory = tmp_path_factory.mktemp("host")
    directory.chmod(0o755)
    compile_library(directory / "libmpi.so.12.2.0", mpi_source("host 12.2"), "libmpi.so.12")
    compile_library(directory / "libmpi.so.12.0.0", mpi_source("host 12.0"), "libmpi.so.12")
    compile_library(directory / "libdep.so.1.3", "int dep(void) { return 1; }\n", "libdep.so.1")
    newer = compile_library(directory / "newer/libver.so.1", "int ver2(void) { return 1; }\n", "libver.so.1",
                            "VER_1 { };\nVER_2 { ver2; } VER_1;\n")
    compile_library(directory / "demanding/libmpi.so.12.2.0",
                    'int ver2(void);\nconst char* which_mpi(void) { return ver2() ? "demanding" : ""; }\n',
                    "libmpi.so.12", links=[newer])
    return directory


@pytest.fixture(params=["crun", "runc"])
def bundle(request, tmp_path):
    tmp_path.chmod(0o755)
    made = Bundle(tmp_path, request.param)
    hook_bundle.make_root(made.root)
    return made


def install_mpi(root, directory="usr/lib", name="libmpi.so.12.1.8", text="container", soname="libmpi.so.12"):
    library = compile_library(root / directory / name, mpi_source(text), soname)
    if soname != name:
        (root / directory / soname).symlink_to(name)
    compile_program(root / "usr/bin/show", PROGRAM, [library])
    return library


def variables(host, libraries=("libmpi.so.12.2.0",), **more):
    return {"MPI_LIBS": ":".join(str(host / library) for library in libraries), **more}


def test_program_uses_its_own_library_without_the_hook(bundle):
    install_mpi(bundle.root)
    assert bundle.run(["/bin/show"], []).stdout == "container\n"


@pytest.mark.parametrize("stage", STAGES)
def test_program_gets_the_hosts_library(bundle, hook, host, stage):
    install_mpi(bundle.root)
    result = bundle.run(["/bin/show"], [(stage, hook, variables(host))])
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()


def test_read_only_root_is_no_reason_to_warn(bundle, hook, host):
    install_mpi(bundle.root)
    settings = variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3")
    result = bundle.run(["/bin/show"], [("createContainer", hook, settings)], readonly=True)
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()
    assert "WARN" not in result.stderr + bundle.log.read_text()  # of runc only failures would be seen
    assert "libdep.so.1" in listed_libraries(bundle.root)


def test_image_is_not_changed_by_replacing(bundle, hook, host):
    library = install_mpi(bundle.root)
    before = library.read_bytes()
    assert bundle.run(["/bin/show"], [("createContainer", hook, variables(host))]).returncode == 0
    assert library.read_bytes() == before


def test_library_in_a_directory_of_ld_library_path_is_replaced(bundle, hook, host):
    install_mpi(bundle.root, "opt/mpi/lib")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))], environment=["LD_LIBRARY_PATH=/opt/mpi/lib"])
    assert result.stdout == "host 12.2\n", result.stderr


NEW, OLD = "-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"
WAYS_TO_MPI = {
    "DT_RPATH": ["-Wl,-rpath,/opt/mpi/lib", OLD],
    "DT_RUNPATH": ["-Wl,-rpath,/nowhere:/opt/mpi/lib", NEW],
    "$ORIGIN": ["-Wl,-rpath,$ORIGIN/../opt-of-program/../../opt/mpi/lib", NEW],
    "of a dependency": [],
    "of whoever asked for the dependency": ["-Wl,-rpath,/opt/mpi/lib:/opt/app/lib", OLD],
}


def install_behind_rpath(root, way, *, name="libmpi.so.12.1.8", soname="libmpi.so.12"):
    """A program that finds its MPI in /opt/mpi/lib by an RPATH, and another MPI where the dynamic linker looks by itself."""
    install_mpi(root, text="other of the image")
    own = compile_library(root / "opt/mpi/lib" / name, mpi_source("container"), soname)
    (own.parent / soname).symlink_to(name)
    links = [own, *WAYS_TO_MPI[way]]
    if "dependency" in way:
        (root / "opt/mpi/lib/libmpi.so").symlink_to(name)
        further = [] if "asked" in way else ["-Wl,-rpath,$ORIGIN/../../mpi/lib", NEW]
        links = [compile_library(root / "opt/app/lib/libsolver.so.1", "const char* which_mpi(void);\nconst char* solve(void) { return which_mpi(); }\n",
                                 "libsolver.so.1", links=[own, *further]), *(links[1:] or ["-Wl,-rpath,/opt/app/lib", NEW])]
    (root / "usr/opt-of-program").mkdir()
    return compile_program(root / "usr/bin/show", PROGRAM.replace("which_mpi", "solve") if "dependency" in way else PROGRAM, links)


@pytest.mark.parametrize("way", WAYS_TO_MPI)
def test_mpi_that_the_program_finds_by_rpath_is_replaced(bundle, hook, host, way):
    install_behind_rpath(bundle.root, way)
    assert bundle.run(["show"], []).stdout == "container\n"
    result = bundle.run(["show"], [("createContainer", hook, variables(host))])
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()


def test_mpi_behind_rpath_is_found_with_the_rights_of_the_containers_user(bundle, hook, host):
    install_behind_rpath(bundle.root, "$ORIGIN")
    result = bundle.run(["show"], [("createContainer", hook, variables(host))], user=1234)
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()


def test_mpi_behind_rpath_need_not_be_where_the_linker_looks_by_itself(bundle, hook, host):
    install_behind_rpath(bundle.root, "DT_RUNPATH")
    for library in (bundle.root / "usr/lib").glob("libmpi.so*"):
        library.unlink()
    (bundle.root / "script").write_text("#!/bin/show\n")
    (bundle.root / "script").chmod(0o755)
    for command in (["/bin/show"], ["/dev/init", "--", "show"], ["/script"]):
        result = bundle.run(command, [("createContainer", hook, variables(host))])
        if "init" not in command[0]:
            assert result.stdout == "host 12.2\n", result.stderr + bundle.log.read_text()
        assert "No MPI libraries" not in result.stderr + bundle.log.read_text()


def test_program_with_an_incompatible_mpi_behind_rpath_does_not_start(bundle, hook, host):
    """It would run without the host's MPI, although that of the linker cache can be replaced."""
    install_behind_rpath(bundle.root, "DT_RPATH", name="libmpi.so.40.1.0", soname="libmpi.so.40")
    result = bundle.run(["show"], [("createContainer", hook, variables(host))])
    assert result.returncode != 0
    assert "not ABI compatible with container's MPI library /opt/mpi/lib/libmpi.so.40.1.0, which /usr/bin/show uses" in result.stderr + bundle.log.read_text()


def test_other_mpi_of_the_image_is_warned_about(bundle, hook, host):
    install_mpi(bundle.root)
    other = compile_library(bundle.root / "usr/lib/libmpi.so.40.1.0", mpi_source("other"), "libmpi.so.40")
    other.with_name("libmpi.so.40").symlink_to(other.name)
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert "Another MPI in the container is not replaced" in bundle.log.read_text()


def test_mpi_library_without_counterpart_is_left_out(bundle, hook, host):
    """What it needs does not matter: the image has no program that could use it."""
    install_mpi(bundle.root)
    fortran = compile_library(host / "fortran/libmpifort.so.12.2.0", "int ver2(void);\nint fortran(void) { return ver2(); }\n", "libmpifort.so.12",
                              links=[host / "newer/libver.so.1"])
    result = bundle.run(["/bin/show"], [("createContainer", hook, {"MPI_LIBS": f"{host / 'libmpi.so.12.2.0'}:{fortran}"})],
                        annotations={"com.hooks.logging.level": "1"})
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()
    assert not (bundle.root / "usr/lib/libmpifort.so.12.2.0").exists()
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert "libmpifort.so.12.2.0 is left out: the container has no such library" in bundle.log.read_text()


def test_debians_name_of_mpich_is_replaced(bundle, hook, host):
    install_mpi(bundle.root, f"usr{hook_bundle.MULTIARCH}", "libmpich.so.12.1.6", soname="libmpich.so.12")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])
    assert result.stdout == "host 12.2\n", result.stderr


CRAY_AND_STANDARD = [
    # host file, host SONAME, container file, container SONAME
    ("libmpi_gnu_112.so.12.2.0", "libmpi_gnu_112.so.12", "libmpi.so.12.1.8", "libmpi.so.12"),
    ("libmpi_cray.so.12.0.0", "libmpi_cray.so.12", "libmpich.so.12.0.0", "libmpich.so.12"),
    ("libmpi.so.12.2.0", "libmpi.so.12", "libmpi_gnu_112.so.12.1.8", "libmpi_gnu_112.so.12"),
    ("libmpi_abi.so.1.0.0", "libmpi_abi.so.1", "libmpi_abi.so.1.0.0", "libmpi_abi.so.1"),
]


@pytest.mark.parametrize("file, soname, own, own_soname", CRAY_AND_STANDARD)
def test_names_of_cray_and_of_the_standard_abi_are_known(bundle, hook, tmp_path, file, soname, own, own_soname):
    library = compile_library(tmp_path / "vendor" / file, mpi_source("vendor"), soname)
    install_mpi(bundle.root, name=own, soname=own_soname)
    result = bundle.run(["/bin/show"], [("createContainer", hook, {"MPI_LIBS": library})])
    assert result.stdout == "vendor\n", result.stderr + bundle.log.read_text()


def test_standard_abi_is_replaced_beside_an_mpi_that_is_left_alone(bundle, hook, tmp_path):
    """An image with Open MPI and a program for the standard ABI: only the latter is the host's to serve. A program that uses
    the other one would be a job of single ranks."""
    directory = tmp_path / "vendor"
    standard = compile_library(directory / "libmpi_abi.so.1.0.0", mpi_source("vendor"), "libmpi_abi.so.1")
    own = compile_library(directory / "libmpi.so.12.2.0", mpi_source("vendor's own"), "libmpi.so.12")
    open_mpi = install_mpi(bundle.root, name="libmpi.so.40.30.4", text="Open MPI", soname="libmpi.so.40")
    compile_program(bundle.root / "usr/bin/show-open-mpi", PROGRAM, [open_mpi])
    install_mpi(bundle.root, name="libmpi_abi.so.1.0.0", soname="libmpi_abi.so.1")
    hooks = [("createContainer", hook, {"MPI_LIBS": f"{standard}:{own}"})]
    assert bundle.run(["/bin/show"], hooks).stdout == "vendor\n", bundle.log.read_text()
    result = bundle.run(["/bin/show-open-mpi"], hooks)
    assert (result.stdout, result.returncode != 0) == ("", True)
    assert "container's MPI library /lib/libmpi.so.40.30.4, which /usr/bin/show-open-mpi uses" in result.stderr + bundle.log.read_text()


MPICH, STANDARD = ("libmpi.so.12.2.0", "libmpi.so.12"), ("libmpi_abi.so.1.0.0", "libmpi_abi.so.1")


@pytest.mark.parametrize("ours, other", [(MPICH, STANDARD), (STANDARD, MPICH)])
def test_program_that_uses_an_mpi_of_another_abi_does_not_start(bundle, hook, tmp_path, ours, other):
    """MPICH 5 installs both ABIs; each rank of a program for the one that the host lacks would be a job of its own."""
    library = compile_library(tmp_path / "vendor" / ours[0], mpi_source("vendor"), ours[1])
    hooks = [("createContainer", hook, {"MPI_LIBS": library})]
    install_mpi(bundle.root, name=other[0], soname=other[1])
    for also_has_ours in False, True:
        if also_has_ours:
            own = install_mpi(bundle.root, "usr/lib", name=ours[0], soname=ours[1])
            compile_program(bundle.root / "usr/bin/show", PROGRAM, [bundle.root / "usr/lib" / other[0]])
            compile_program(bundle.root / "usr/bin/show-ours", PROGRAM, [own])
        result = bundle.run(["/bin/show"], hooks)
        assert (result.stdout, result.returncode != 0) == ("", True)
        assert f"container's MPI library /lib/{other[0]}, which /usr/bin/show uses" in result.stderr + bundle.log.read_text()
    bundle.log.write_text("")
    assert bundle.run(["/bin/show-ours"], hooks).stdout == "vendor\n", bundle.log.read_text()
    assert "WARN" not in bundle.log.read_text()


@pytest.mark.parametrize("tools", [{}, {name: "/nonexistent" for name in ("LDCONFIG_PATH", "LDD_PATH", "READELF_PATH")}])
def test_paths_of_tools_may_be_wrong_or_missing(bundle, hook, host, tools):
    install_mpi(bundle.root)
    assert bundle.run(["/bin/show"], [("createContainer", hook, variables(host, **tools))]).stdout == "host 12.2\n", bundle.log.read_text()


def test_missing_symbol_version_is_a_warning_where_the_site_wants_that(bundle, hook, host):
    install_mpi(bundle.root)
    settings = variables(host, ["demanding/libmpi.so.12.2.0"], MPI_VERSION_CHECK="warn")
    compile_library(bundle.root / "usr/lib/libver.so.1", "int ver1(void) { return 1; }\n", "libver.so.1", "VER_1 { ver1; };\n")
    bundle.run(["/bin/true"], [("createContainer", hook, settings)])
    assert (bundle.root / "usr/lib/libmpi.so").is_symlink()  # the hook has done its work
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert "may not work in this container, which lacks VER_2 of libver.so.1" in bundle.log.read_text()


def test_container_without_mpi_does_not_start(bundle, hook, host):
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])
    assert result.returncode != 0
    assert "No MPI libraries found in the container" in result.stderr + bundle.log.read_text()


def test_incompatible_mpi_does_not_start(bundle, hook, host):
    install_mpi(bundle.root, name="libmpi.so.40.1.0", soname="libmpi.so.40")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])
    assert result.returncode != 0
    assert "not ABI compatible with container's MPI library" in result.stderr + bundle.log.read_text()


@pytest.mark.parametrize("kind, starts", [("major", True), ("full", True), ("strict", False)])
def test_older_host_is_warned_about_or_refused(bundle, hook, host, kind, starts):
    install_mpi(bundle.root)
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host, ["libmpi.so.12.0.0"], MPI_COMPATIBILITY_TYPE=kind))])
    assert (result.stdout == "host 12.0\n") == starts
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert ("Partial ABI compatibility detected" in bundle.log.read_text()) == starts


@pytest.mark.parametrize("kind", ["major", "full", "strict"])
@pytest.mark.parametrize("names", [("libmpi.so.12", "libmpi.so.12.0.0"), ("libmpi.so.12.0.0", "libmpi.so.12")])
def test_missing_numbers_of_a_version_count_as_zero(bundle, hook, tmp_path, kind, names):
    ours = compile_library(tmp_path / "vendor" / names[0], mpi_source("vendor"), "libmpi.so.12")
    install_mpi(bundle.root, name=names[1])
    result = bundle.run(["/bin/show"], [("createContainer", hook, {"MPI_LIBS": ours, "MPI_COMPATIBILITY_TYPE": kind})])
    assert result.stdout == "vendor\n", result.stderr + bundle.log.read_text()
    assert "WARN" not in result.stderr + bundle.log.read_text()


@pytest.mark.parametrize("kind", ["major", "full"])
@pytest.mark.parametrize("rank, warnings", [(None, 1), ("SLURM_LOCALID=0", 1), ("SLURM_LOCALID=3", 0), ("OMPI_COMM_WORLD_LOCAL_RANK=1", 0)])
def test_older_host_is_one_warning_for_a_job_step_and_node(bundle, hook, host, kind, rank, warnings):
    """Each rank starts a hook for many libraries; the first rank of the node speaks for all."""
    install_mpi(bundle.root)
    compile_library(bundle.root / "usr/lib/libmpicxx.so.12.1.8", "int cxx(void) { return 1; }\n", "libmpicxx.so.12")
    older = compile_library(host / "cxx/libmpicxx.so.12.0.0", "int cxx(void) { return 2; }\n", "libmpicxx.so.12")
    settings = {"MPI_LIBS": f"{host / 'libmpi.so.12.0.0'}:{older}", "MPI_COMPATIBILITY_TYPE": kind}
    result = bundle.run(["/bin/show"], [("createContainer", hook, settings)], environment=[rank] if rank else [])
    assert result.stdout == "host 12.0\n", result.stderr
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        assert bundle.log.read_text().count("Partial ABI compatibility detected") == warnings


def test_failure_begins_with_the_message_of_the_reference(bundle, hook, host):
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])
    assert "[ERROR] Failed to activate MPI support.\n" in (result.stderr + bundle.log.read_text()).replace("\\n", "\n")


def test_missing_mpi_says_where_it_was_looked_for(bundle, hook, host):
    (bundle.root / "opt/mpi").mkdir(parents=True)
    compile_program(bundle.root / "usr/bin/show", "int main(void) { return 0; }\n")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))], environment=["LD_LIBRARY_PATH=/opt/mpi"])
    message = result.stderr + bundle.log.read_text()
    assert "No MPI libraries found in the container: looked in /opt/mpi, /lib" in message
    assert ", and what /usr/bin/show loads" in message


@pytest.mark.parametrize("has_it", [True, False])
def test_injected_library_wins_over_a_directory_of_bind_mounts(bundle, hook, host, has_it):
    directory = bundle.directory / "plugins"
    directory.mkdir()
    if has_it:
        compile_library(directory / "libmpi.so.12", mpi_source("bind mount"), "libmpi.so.12")
    install_mpi(bundle.root, str(directory)[1:], name="libmpi.so.12")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host, BIND_MOUNTS=directory))],
                        environment=[f"LD_LIBRARY_PATH={directory}"], annotations={"com.hooks.logging.level": "1"})
    assert result.stdout == ("host 12.2\n" if has_it else ""), result.stderr
    if bundle.runtime == "crun":  # runc keeps back what successful hooks say
        said = f"{directory}/libmpi.so.12 is in BIND_MOUNTS, too" if has_it else f"BIND_MOUNTS hides the container's {directory}/libmpi.so.12"
        assert said in bundle.log.read_text()


def test_dependencies_are_added_under_usr_lib(bundle, hook, host):
    install_mpi(bundle.root)
    bundle.run(["/bin/show"], [("createContainer", hook, variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3"))])
    assert (bundle.root / "usr/lib/libdep.so.1.3").exists()
    assert os.readlink(bundle.root / "usr/lib/libdep.so.1") == "/usr/lib/libdep.so.1.3"


def test_links_are_made_in_lib_where_it_is_a_directory_of_its_own(bundle, hook, host):
    (bundle.root / "lib").unlink()
    (bundle.root / "lib").mkdir()
    (bundle.root / "lib64").unlink()
    (bundle.root / "lib64").mkdir()
    for file in (bundle.root / "usr/lib64").iterdir():
        file.rename(bundle.root / "lib64" / file.name)
    install_mpi(bundle.root, "usr/lib")
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3"))])
    assert result.stdout == "host 12.2\n", result.stderr
    assert os.readlink(bundle.root / "lib/libdep.so.1") == "/usr/lib/libdep.so.1.3"


def test_linker_cache_is_written_without_ldconfig(bundle, hook, host):
    install_mpi(bundle.root)
    bundle.run(["/bin/show"], [("createContainer", hook, variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3"))])
    listed = subprocess.run(["/sbin/ldconfig", "-p", "-C", str(bundle.root / "etc/ld.so.cache")], capture_output=True, text=True).stdout
    assert "libdep.so.1 " in listed


def listed_libraries(root):
    output = subprocess.run(["/sbin/ldconfig", "-p", "-C", str(root / "etc/ld.so.cache")], capture_output=True, text=True, check=True).stdout
    return dict(line.strip().split(" ", 1) for line in output.splitlines() if " => " in line)


def test_cache_of_the_image_is_amended(bundle, hook, host):
    install_mpi(bundle.root, "opt/mpi", "libmpich.so.12.1.6", soname="libmpich.so.12")
    compile_library(bundle.root / "usr/lib/libother.so.1", "int other(void) { return 1; }\n", "libother.so.1")
    (bundle.root / "etc/ld.so.conf").write_text("/opt/mpi\n")
    subprocess.run(["/sbin/ldconfig", "-r", str(bundle.root)], check=True)
    settings = variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3")
    result = bundle.run(["/bin/show"], [("createContainer", hook, settings)])
    assert result.stdout == "host 12.2\n", result.stderr + bundle.log.read_text()
    libraries = listed_libraries(bundle.root)
    assert libraries["libdep.so.1"].endswith("=> /usr/lib/libdep.so.1.3")
    assert {"libmpi.so.12", "libmpich.so.12", "libother.so.1", "libc.so.6"} <= set(libraries)


def test_cache_that_is_right_already_is_not_written(bundle, hook, host):
    install_mpi(bundle.root)
    for name in ("libmpi.so", "libmpi.so.12.2", "libmpi.so.12.2.0"):
        (bundle.root / "usr/lib" / name).symlink_to("libmpi.so.12")
    run = lambda: bundle.run(["/bin/show"], [("createContainer", hook, variables(host))])  # noqa: E731
    subprocess.run(["/sbin/ldconfig", "-r", str(bundle.root)], check=True)
    assert run().stdout == "host 12.2\n"
    before = (bundle.root / "etc/ld.so.cache").stat()
    assert run().stdout == "host 12.2\n"
    assert (bundle.root / "etc/ld.so.cache").stat().st_ino == before.st_ino


def contents(root):
    """{path: what is there} of files and links, the linker's cache included; not what the OCI runtime makes for itself."""
    found = {}
    for path in root.rglob("*"):
        name = f"/{path.relative_to(root)}"
        if not name.startswith(("/proc/", "/dev/", "/sys/")):
            found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def test_missing_symbol_version_is_explained_before_anything_is_mounted(bundle, hook, host):
    install_mpi(bundle.root)
    compile_library(bundle.root / "usr/lib/libver.so.1", "int ver1(void) { return 1; }\n", "libver.so.1", "VER_1 { ver1; };\n")
    subprocess.run(["/sbin/ldconfig", "-r", str(bundle.root)], check=True)
    before = contents(bundle.root)
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host, ["demanding/libmpi.so.12.2.0"]))])
    assert result.returncode != 0
    assert "/usr/lib/libmpi.so" not in before and contents(bundle.root) == before
    assert "VER_2 of libver.so.1 (which goes up to VER_1), needed by libmpi.so.12.2.0" in result.stderr + bundle.log.read_text()


def test_symbol_version_of_an_injected_dependency_counts(bundle, hook, host):
    install_mpi(bundle.root)
    compile_library(bundle.root / "usr/lib/libver.so.1", "int ver1(void) { return 1; }\n", "libver.so.1", "VER_1 { ver1; };\n")
    settings = variables(host, ["demanding/libmpi.so.12.2.0"], MPI_DEPENDENCY_LIBS=host / "newer/libver.so.1")
    result = bundle.run(["/bin/show"], [("createContainer", hook, settings)])
    assert result.stdout == "demanding\n", result.stderr + bundle.log.read_text()


def test_bind_mounts_appear_at_the_same_path(bundle, hook, host):
    install_mpi(bundle.root)
    directory = bundle.directory / "files"
    directory.mkdir()
    compile_program(bundle.root / "usr/bin/cat", '#include <stdio.h>\nint main(int c, char** v) { FILE* f = fopen(v[c - 1], "r"); '
                    "for (int b; f && (b = getc(f)) != EOF;) putchar(b); return f == 0; }\n")
    (directory / "file").write_text("from the host\n")
    result = bundle.run(["/bin/cat", directory / "file"], [("createContainer", hook, variables(host, BIND_MOUNTS=directory))])
    assert result.stdout == "from the host\n", result.stderr


def test_device_of_bind_mounts_can_be_used(bundle, hook, host):
    install_mpi(bundle.root)
    compile_program(bundle.root / "usr/bin/open", '#include <fcntl.h>\n#include <stdio.h>\nint main(int c, char** v) '
                    '{ (void)c; int fd = open(v[1], O_RDWR); puts(fd < 0 ? "closed" : "open"); return 0; }\n')
    result = bundle.run(["/bin/open", "/dev/fuse"], [("createContainer", hook, variables(host, BIND_MOUNTS="/dev/fuse"))])
    assert result.stdout == "open\n", result.stderr + bundle.log.read_text()
    device = [{"type": "bind", "source": "/dev/fuse", "destination": "/dev/fuse", "options": ["bind"]}]
    assert bundle.run(["/bin/open", "/dev/fuse"], [], mounts=device).stdout == "closed\n"


@pytest.mark.parametrize("rootless", [False, True])
def test_devices_are_allowed_unless_the_hook_is_told_that_it_has_no_privileges(bundle, hook, host, rootless):
    """Looked at after the hook, in the container's own cgroup: HOOK_ROOTLESS=true leaves it as it is."""
    install_mpi(bundle.root)
    printer = bundle.directory / "printer"
    printer.write_text("""#!/bin/sh
pid=$(sed -n 's/.*"pid" *: *\\([0-9]*\\).*/\\1/p')
cat "/sys/fs/cgroup/devices$(sed -n 's/.*:devices://p' "/proc/$pid/cgroup")/devices.list" >"$RULES"
""")
    printer.chmod(0o755)
    rules = bundle.directory / "rules"
    settings = variables(host, BIND_MOUNTS="/dev/fuse", **({"HOOK_ROOTLESS": "true"} if rootless else {}))
    result = bundle.run(["/bin/show"], [("createRuntime", hook, settings), ("createRuntime", printer, {"RULES": rules, "PATH": "/usr/bin:/bin"})])
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr + bundle.log.read_text()
    lines = rules.read_text().splitlines()
    assert "c 1:3 rwm" in lines and ("c 10:229 rw" in lines) == (not rootless), lines


def test_hostile_images_do_not_lead_out_of_the_root(bundle, hook, host):
    outside = bundle.directory / "outside"
    outside.mkdir()
    root = bundle.root
    install_mpi(root)
    (root / "usr/lib/libmpi.so").symlink_to("libmpi.so")
    (root / "usr/lib/libmpi.so.12.9.9").write_bytes(b"\x7fELF\x02\x01\x01")
    (root / "usr/lib/libmpi.so.12\n.3 ;reboot").write_text("")
    (root / "usr/lib/libdep.so.1.3").symlink_to(f"../../../../../..{outside}/created")
    settings = variables(host, MPI_DEPENDENCY_LIBS=host / "libdep.so.1.3")
    result = bundle.run(["/bin/show"], [("createContainer", hook, settings)])
    assert list(outside.iterdir()) == []
    assert result.stdout == "host 12.2\n" or result.returncode != 0


def test_nothing_is_created_in_directories_mounted_from_the_host(bundle, hook, host):
    library = install_mpi(bundle.root, "opt/mpi")
    users = bundle.directory / "users"
    users.mkdir()
    (users / "libmpi.so.12").symlink_to(library.name)
    library.rename(users / library.name)
    (bundle.root / "usr/local/lib").mkdir(parents=True)
    (bundle.root / "lib").unlink()
    (bundle.root / "lib").symlink_to("/usr/local/lib")
    mounts = [{"type": "bind", "source": str(users), "destination": "/usr/local/lib", "options": ["rbind"]}]
    before = sorted(users.iterdir())
    result = bundle.run(["/bin/show"], [("createContainer", hook, variables(host))], mounts=mounts)
    assert (result.stdout, result.returncode) == ("host 12.2\n", 0), result.stderr
    assert sorted(users.iterdir()) == before
    if bundle.runtime == "crun":  # runc keeps to itself what a hook says that succeeds
        assert "/usr/local/lib is mounted from elsewhere, nothing may be created" in bundle.log.read_text()


def test_musl_image_without_any_tool_is_understood(tmp_path, hook, host):
    root = tmp_path / "rootfs"
    compile_library(root / f"lib/ld-musl-{platform.machine()}.so.1", "int musl(void) { return 1; }\n")
    compile_library(root / "usr/lib/libmpi.so.12.1.8", mpi_source("container"), "libmpi.so.12")
    result = subprocess.run([str(hook), "--explain", "--json", "--root", str(root)], env=variables(host), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["injections"][0]["container"] == ["/usr/lib/libmpi.so.12.1.8"]


def test_musl_is_named_as_musl(tmp_path, hook, host):
    root = tmp_path / "rootfs"
    compile_library(root / f"lib/ld-musl-{platform.machine()}.so.1", "int musl(void) { return 1; }\n")
    (root / "usr/lib").mkdir(parents=True)
    explain = lambda library: subprocess.run([str(hook), "--explain", "--root", str(root)], env=variables(host, [library]), capture_output=True, text=True)  # noqa: E731
    assert "No MPI libraries found in the container, whose C library is musl: looked in /lib, /usr/lib" in explain("libmpi.so.12.2.0").stderr
    compile_library(root / "usr/lib/libmpi.so.12.1.8", mpi_source("container"), "libmpi.so.12")
    assert "cannot work in this container, whose C library is musl: it lacks VER_2 of libver.so.1" in explain("demanding/libmpi.so.12.2.0").stderr


def test_image_without_any_library_hears_so(tmp_path, hook, host):
    """A single static program: there is no place to name."""
    (tmp_path / "rootfs/bin").mkdir(parents=True)
    result = subprocess.run([str(hook), "--explain", "--root", str(tmp_path / "rootfs")], env=variables(host), capture_output=True, text=True)
    assert "No MPI libraries found in the container, which has no directory of libraries\n" in result.stderr


def test_explain_shows_the_plan_and_changes_nothing(bundle, hook, host):
    if bundle.runtime == "runc":
        return  # no runtime has a part in this
    install_mpi(bundle.root)
    before = sorted(str(path) for path in bundle.root.rglob("*"))
    environment = variables(host, MPI_DEPENDENCY_LIBS=str(host / "libdep.so.1.3"))
    command = [str(hook), "--explain", "--root", str(bundle.root)]
    table = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert table.returncode == 0, table.stderr
    assert "/lib/libmpi.so.12.1.8" in table.stdout
    plan = json.loads(subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True).stdout)
    assert [(entry["kind"], entry["action"], entry["container"]) for entry in plan["injections"]] == [
        ("mpi", "replace", ["/lib/libmpi.so.12.1.8"]), ("dependency", "add", ["/usr/lib/libdep.so.1.3"])]
    assert sorted(str(path) for path in bundle.root.rglob("*")) == before


def test_explain_fails_where_the_hook_would(bundle, hook, host):
    if bundle.runtime == "runc":
        return  # no runtime has a part in this
    result = subprocess.run([str(hook), "--explain", "--root", str(bundle.root)], env=variables(host), capture_output=True, text=True)
    assert result.returncode == 1
    assert "No MPI libraries found in the container" in result.stderr


def explained(hook, root, environment, *arguments):
    result = subprocess.run([str(hook), "--explain", "--root", str(root), *arguments], env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def test_explain_follows_the_program_that_it_is_told(bundle, hook, host):
    if bundle.runtime == "runc":
        return  # no runtime has a part in this
    install_behind_rpath(bundle.root, "DT_RUNPATH", name="libmpi.so.40.1.0", soname="libmpi.so.40")
    assert explained(hook, bundle.root, variables(host))[0] == 0
    for arguments in (["show"], ["--env=PATH=/usr/bin", "show"], ["--json", "/usr/bin/show", "--json"]):
        status, text = explained(hook, bundle.root, variables(host), *arguments)
        assert status == 1 and "libmpi.so.40.1.0), which /usr/bin/show uses" in text
    compile_library(bundle.root / "opt/only/libmpi.so.12", mpi_source("only"), "libmpi.so.12")
    assert "/opt/only/libmpi.so.12" in explained(hook, bundle.root, variables(host), "--env=LD_LIBRARY_PATH=/opt/only")[1]


def test_explain_knows_that_the_glibc_hook_runs_before(bundle, hook, host):
    """Its libraries are those of the host, so what only they define is no problem."""
    if bundle.runtime == "runc":
        return  # no runtime has a part in this
    install_mpi(bundle.root)
    compile_library(bundle.root / f"usr{hook_bundle.MULTIARCH}/libc.so.6", "int only_old(void) { return 0; }\n", "libc.so.6", "GLIBC_2.5 { only_old; };\n")
    library = compile_library(host / "glibc/libmpi.so.12.2.0", '#include <stdio.h>\nvoid f(void) { puts(""); }\n', "libmpi.so.12", flags=())
    status, text = explained(hook, bundle.root, {"MPI_LIBS": str(library)})
    assert status == 1 and "of libc.so.6 (which goes up to GLIBC_2.5)" in text, text
    status, text = explained(hook, bundle.root, {"MPI_LIBS": str(library), "GLIBC_LIBS": str(hook_bundle.LIBC)})
    assert status == 0, text
