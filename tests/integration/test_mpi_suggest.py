"""`mpi_hook --suggest`: the hook file for an MPI of this node, for the layouts of several vendors, and jobs that run with it."""

import json
import os
import shutil
import stat
import subprocess

import pytest
from helpers import hook_bundle, mpi
from helpers.compiler import compile_library
from test_hooks import hooks, hooks_engine  # noqa: F401 (fixtures)
from test_mpi import RANKS, SOURCE, expected_lines, launch

NOTHING = "int nothing{}(void) {{ return 0; }}\n"


def suggest(program, library, *prefix, **environment):
    return subprocess.run([*prefix, str(program), "--suggest", str(library)], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, check=False)


def lists(text):
    """{variable: [path, ...]} of a hook file."""
    variables = dict(entry.split("=", 1) for entry in json.loads(text)["hook"]["env"])
    return {name: value.split(":") for name, value in variables.items()}


@pytest.fixture
def hook(build_dir):
    return build_dir / "mpi_hook"


class Layout:
    """A vendor's directories, filled with empty libraries."""

    def __init__(self, root):
        self.root = root
        self.count = 0

    def library(self, path, *needs, soname=None, rpath=()):
        """Makes a library at a path, linked by its SONAME, that needs others and finds them by RPATH."""
        self.count += 1
        flags = [f"-Wl,-rpath,{':'.join(str(self.root / directory) for directory in rpath)}"] if rpath else []
        file = self.root / path
        soname = soname or file.name
        made = compile_library(file, NOTHING.format(self.count), soname, links=["-Wl,--no-as-needed", *needs, *flags])
        if soname != file.name:
            file.with_name(soname).symlink_to(file.name)
        return made.with_name(soname)


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path)


def make_mpich(layout):
    """MPICH with UCX of its own: UCX loads its transports, which need further libraries."""
    verbs = layout.library("opt/mpich/lib/libibverbs.so.1.14", soname="libibverbs.so.1")
    layout.library("opt/mpich/lib/libibverbs/libmlx5-rdmav34.so", rpath=["opt/mpich/lib"])
    ucs = layout.library("opt/mpich/lib/libucs.so.0")
    layout.library("opt/mpich/lib/ucx/libuct_ib.so.0", verbs, rpath=["opt/mpich/lib"])
    main = layout.library("opt/mpich/lib/libmpi.so.12.1.8", ucs, soname="libmpi.so.12", rpath=["opt/mpich/lib"])
    layout.library("opt/mpich/lib/libmpifort.so.12.1.8", main, soname="libmpifort.so.12", rpath=["opt/mpich/lib"])
    layout.library("opt/mpich/lib/libmpiother.so.1")
    return main, {"MPI_LIBS": ["opt/mpich/lib/libmpi.so.12", "opt/mpich/lib/libmpifort.so.12"],
                  "MPI_DEPENDENCY_LIBS": ["opt/mpich/lib/libucs.so.0", "opt/mpich/lib/libibverbs.so.1"],
                  "BIND_MOUNTS": ["opt/mpich/lib/ucx", "opt/mpich/lib/libibverbs"]}, "MPICH (ABI 12.1)"


def make_intel(layout):
    """Intel MPI loads its own libfabric, and that its providers from `prov`; neither is asked for by name."""
    psm = layout.library("opt/intel/oneapi/mpi/2021.10/libfabric/lib/libpsm2.so.2")
    layout.library("opt/intel/oneapi/mpi/2021.10/libfabric/lib/libfabric.so.1")
    layout.library("opt/intel/oneapi/mpi/2021.10/libfabric/lib/prov/libpsmx2-fi.so", psm, rpath=["opt/intel/oneapi/mpi/2021.10/libfabric/lib"])
    main = layout.library("opt/intel/oneapi/mpi/2021.10/lib/release/libmpi.so.12.0.0", soname="libmpi.so.12")
    fabric = "opt/intel/oneapi/mpi/2021.10/libfabric/lib"
    return main, {"MPI_LIBS": ["opt/intel/oneapi/mpi/2021.10/lib/release/libmpi.so.12"],
                  "MPI_DEPENDENCY_LIBS": [f"{fabric}/libfabric.so.1", f"{fabric}/libpsm2.so.2"], "BIND_MOUNTS": [f"{fabric}/prov"]}, "Intel MPI (ABI 12.0)"


def make_openmpi(layout):
    """Open MPI and PMIx load components from directories named after themselves."""
    lib = "opt/openmpi/lib"
    pal = layout.library(f"{lib}/libopen-pal.so.40.30.2", soname="libopen-pal.so.40", rpath=[lib])
    pmix = layout.library("opt/pmix/lib/libpmix.so.2")
    layout.library("opt/pmix/lib/pmix/mca_gds_ds21.so")
    layout.library(f"{lib}/openmpi/mca_pmix_ext3x.so", pmix, rpath=["opt/pmix/lib"])
    (layout.root / "opt/openmpi/share/openmpi").mkdir(parents=True)
    main = layout.library(f"{lib}/libmpi.so.40.30.4", pal, soname="libmpi.so.40", rpath=[lib])
    layout.library(f"{lib}/libmpi_mpifh.so.40.30.0", main, soname="libmpi_mpifh.so.40", rpath=[lib])
    return main, {"MPI_LIBS": [f"{lib}/libmpi.so.40", f"{lib}/libmpi_mpifh.so.40"],
                  "MPI_DEPENDENCY_LIBS": [f"{lib}/libopen-pal.so.40", "opt/pmix/lib/libpmix.so.2"],
                  "BIND_MOUNTS": [f"{lib}/openmpi", "opt/openmpi/share/openmpi", "opt/pmix/lib/pmix"]}, "Open MPI (ABI 40.30)"


def make_cray(layout):
    """Cray MPICH: one library for each compiler, and libraries of the system in directories of their own."""
    pmi = layout.library("opt/cray/pe/pmi/6.1/lib/libpmi.so.0")
    cxi = layout.library("opt/cray/cxi/lib64/libcxi.so.1")
    fabric = layout.library("opt/cray/libfabric/1.15/lib64/libfabric.so.1", cxi, rpath=["opt/cray/cxi/lib64"])
    lib = "opt/cray/pe/mpich/8.1.25/ofi/gnu/9.1/lib"
    main = layout.library(f"{lib}/libmpi_gnu_91.so.12.0.0", pmi, fabric, soname="libmpi_gnu_91.so.12",
                          rpath=["opt/cray/pe/pmi/6.1/lib", "opt/cray/libfabric/1.15/lib64"])
    layout.library(f"{lib}/libmpifort_gnu_91.so.12.0.0", main, soname="libmpifort_gnu_91.so.12", rpath=[lib])
    return main, {"MPI_LIBS": [f"{lib}/libmpi_gnu_91.so.12", f"{lib}/libmpifort_gnu_91.so.12"],
                  "MPI_DEPENDENCY_LIBS": ["opt/cray/pe/pmi/6.1/lib/libpmi.so.0", "opt/cray/libfabric/1.15/lib64/libfabric.so.1",
                                          "opt/cray/cxi/lib64/libcxi.so.1"]}, "Cray MPICH (ABI 12.0)"


def make_mvapich(layout):
    """MVAPICH uses the verbs of InfiniBand itself."""
    umad = layout.library("opt/mvapich2/lib64/libibumad.so.3")
    verbs = layout.library("opt/mvapich2/lib64/libibverbs.so.1")
    layout.library("opt/mvapich2/lib64/libibverbs/libmlx5-rdmav34.so")
    main = layout.library("opt/mvapich2/lib/libmpi.so.12.1.1", umad, verbs, soname="libmpi.so.12", rpath=["opt/mvapich2/lib64"])
    layout.library("opt/mvapich2/lib/libmpicxx.so.12.1.1", main, soname="libmpicxx.so.12", rpath=["opt/mvapich2/lib"])
    return main, {"MPI_LIBS": ["opt/mvapich2/lib/libmpi.so.12", "opt/mvapich2/lib/libmpicxx.so.12"],
                  "MPI_DEPENDENCY_LIBS": ["opt/mvapich2/lib64/libibumad.so.3", "opt/mvapich2/lib64/libibverbs.so.1"],
                  "BIND_MOUNTS": ["opt/mvapich2/lib64/libibverbs"]}, "MVAPICH (ABI 12.1)"


def without_devices(found):
    kept = {name: [path for path in paths if not path.startswith("/dev/")] for name, paths in found.items()}
    return {name: paths for name, paths in kept.items() if paths}


@pytest.mark.parametrize("make", [make_mpich, make_intel, make_openmpi, make_cray, make_mvapich])
def test_libraries_and_plugins_of_a_vendors_layout_are_found(layout, hook, make):
    library, expected, name = make(layout)
    result = suggest(hook, library)
    assert result.returncode == 0, result.stderr
    found = without_devices(lists(result.stdout))
    assert found == {variable: [str(layout.root / path) for path in paths] for variable, paths in expected.items()}
    variables = dict(entry.split("=", 1) for entry in json.loads(result.stdout)["hook"]["env"])
    checked = subprocess.run([hook, "--check"], env=variables, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, f"note: MPI_LIBS is {name}\nno problem found\n")


def test_development_link_leads_to_the_name_that_programs_ask_for(layout, hook):
    library, _, _ = make_mpich(layout)
    link = library.with_name("libmpi.so")
    link.symlink_to("libmpi.so.12.1.8")
    assert lists(suggest(hook, link).stdout)["MPI_LIBS"][0] == str(library)


def test_libraries_of_the_callers_library_path_are_found(layout, hook):
    dependency = layout.library("elsewhere/libvendor.so.1")
    library = layout.library("opt/mpich/lib/libmpi.so.12", dependency)
    alone = suggest(hook, library)
    assert alone.stderr == f"note: not found on this node: libvendor.so.1, needed by {library}\n"
    result = suggest(hook, library, LD_LIBRARY_PATH=str(dependency.parent))
    assert (lists(result.stdout)["MPI_DEPENDENCY_LIBS"], result.stderr) == ([str(dependency)], "")


def test_providers_of_intels_libfabric_need_a_variable(layout, hook):
    library, expected, _ = make_intel(layout)
    assert suggest(hook, library).stderr == (f"note: set FI_PROVIDER_PATH={layout.root / expected['BIND_MOUNTS'][0]} in the key `environment` of sarus.json: "
                                             "libfabric looks there for its providers\n")


def test_plugin_that_is_a_link_comes_with_its_file(layout, hook):
    library, _, _ = make_mpich(layout)
    target = layout.library("opt/mpich/lib/libefa.so.1.2")
    (library.parent / "libibverbs/libefa-rdmav34.so").symlink_to("../libefa.so.1.2")
    assert str(target) in lists(suggest(hook, library).stdout)["BIND_MOUNTS"]


def test_file_that_is_no_library_is_an_error(tmp_path, hook):
    (tmp_path / "libmpi.so.12").write_text("INPUT(-lmpich)\n")
    result = suggest(hook, tmp_path / "libmpi.so.12")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"The host library {tmp_path}/libmpi.so.12 is not a shared library" in result.stderr
    assert "--suggest needs one MPI library" in subprocess.run([hook, "--suggest"], capture_output=True, text=True, check=False).stderr


def test_check_names_the_libraries_that_the_container_must_have(layout, hook):
    library, _, _ = make_mpich(layout)
    result = subprocess.run([hook, "--check"], env={"MPI_LIBS": str(library)}, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert f"note: the container's own libucs.so.0 is used with it: mpi_hook --suggest {library} prints a complete hook file\n" in result.stdout


@pytest.mark.asroot
def test_devices_of_networks_are_named_one_by_one(layout, hook):
    """Only those that exist. The hook can allow a device in a control group, and not a directory."""
    library, _, _ = make_mvapich(layout)
    root = layout.root
    shutil.copy(hook, root / "mpi_hook")
    (root / "dev/infiniband").mkdir(parents=True)
    (root / "dev/hugepages").mkdir()
    (root / "proc").mkdir()
    for number, name in enumerate(("infiniband/uverbs0", "infiniband/rdma_cm", "cxi0", "xpmem", "null", "sda")):
        os.mknod(root / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3 if number else 5))
    script = 'mount -t proc proc "$1/proc" && exec chroot "$1" /mpi_hook --suggest "$2"'
    result = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", str(root), f"/{library.relative_to(root)}"], capture_output=True, text=True,
                            check=False)
    assert result.returncode == 0, result.stderr
    devices = [path for path in lists(result.stdout)["BIND_MOUNTS"] if path.startswith("/dev/")]
    assert devices == ["/dev/cxi0", "/dev/xpmem", "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/hugepages"]


@pytest.fixture(scope="module")
def application(workspace):
    return mpi.compile_program("mpich", SOURCE, workspace / "suggest-mpich")


@pytest.mark.asroot
@pytest.mark.parametrize("hooks_engine", ["setuid-crun", "rootless-crun"], indirect=True)
def test_suggested_file_mends_a_job_whose_image_has_another_ucx(hooks, load_image, images, workspace, application):  # noqa: F811
    """With MPI_LIBS alone, the host's MPICH runs on the UCX of the image, which lacks what it needs."""
    engine = hooks.engine
    other = compile_library(workspace / "other-ucx/libucp.so.0", NOTHING.format("ucp"), "libucp.so.0")
    image = load_image(engine, "suggest-mpich", mpi.image_with(images, "mpich", application, ("libucp.so.0", other)))
    library = mpi.LIBRARIES / "libmpich.so.12"
    program = engine.prefix / "bin" / "mpi_hook"
    hooks.add("10-mpi", program, ["createContainer"], when={"annotations": {"^com.hooks.mpi.enabled$": "^true$"}}, env=[f"MPI_LIBS={library}"])
    assert "10-mpi.json: note: the container's own " in engine.sarus("hooks", "--check").stdout
    alone = launch(engine, "mpich", "run", "--mpi", image, "/app", ranks=1)
    assert alone.returncode != 0 and "undefined symbol: ucp_" in alone.stderr
    file = engine.prefix / "etc" / "hooks.d" / "10-mpi.json"
    file.write_text(suggest(program, library).stdout)
    checked = engine.sarus("hooks", "--check")
    assert (checked.returncode, "10-mpi.json: note: MPI_LIBS is MPICH (ABI 12.2)\n" in checked.stdout) == (0, True), checked.stdout
    result = launch(engine, "mpich", "--verbose", "run", "--mpi", image, "/app")
    ranks = [line for line in result.stdout.splitlines() if line.startswith("rank ")]
    assert (sorted(ranks), result.returncode) == (expected_lines(), 0), result.stderr
    said = [line for line in result.stdout.splitlines() if "MPI in use: " in line]
    assert len(said) == RANKS and said[0].endswith(f"MPI in use: the host's MPICH (ABI 12.2), {library}, in place of the container's "
                                                   f"{hook_bundle.MULTIARCH}/libmpich.so.12"), said
