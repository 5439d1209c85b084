"""Images with a program of the test's own and one of the host's MPI libraries, made from the host's files."""

import functools
import pathlib
import re
import subprocess

from .hook_bundle import LINKER
from .system import program

DIRECTORY = pathlib.Path(subprocess.run(["gcc", "-print-file-name=libc.so.6"], check=True, capture_output=True, text=True).stdout.strip()).resolve().parent
LIBRARIES = pathlib.Path("/usr" + str(DIRECTORY).removeprefix("/usr"))
# Loaded at run time, so that no linker knows of them.
COMPONENTS = {"mpich": ["ucx"], "openmpi": ["ucx", "openmpi/lib/openmpi3", "pmix2/lib/pmix"]}
DATA = {"mpich": [], "openmpi": ["/usr/share/openmpi", "/usr/share/pmix", LIBRARIES / "openmpi/share", LIBRARIES / "pmix2/share"]}


def compile_program(kind, source, path):
    """Compiles a C source with the MPI named "mpich" or "openmpi"."""
    subprocess.run([program(f"mpicc.{kind}"), "-O1", "-o", str(path), str(source)], check=True)
    return path


@functools.cache
def needed_libraries(*files):
    """{path: real path} of the shared libraries that ELF files need, the dynamic linker included. ldd(1) starts half a dozen processes for each
    of the hundred components of Open MPI; the linker by itself is one."""
    found = {}
    listing = subprocess.run(["sh", "-c", 'linker=$1; shift; for file; do "$linker" --list "$file"; done', "sh", str(LINKER), *map(str, files)],
                             capture_output=True, text=True).stdout
    for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE):
        found[path] = pathlib.Path(path).resolve()
    return found


# What programs that were linked with a glibc before 2.34 need, and every image of a distribution has.
FORMER_PARTS_OF_GLIBC = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")


@functools.cache
def image_with(images, kind, application, *replaced):
    """An image with `application` as /app and everything that it loads. `replaced`: (name of a library, file in its place)."""
    components = [file for folder in COMPONENTS[kind] for file in sorted((LIBRARIES / folder).glob("*.so*"))]
    data = [file for folder in DATA[kind] for file in sorted(pathlib.Path(folder).rglob("*")) if file.is_file()]
    files = {str(file): file.resolve() for file in [*components, *data]}
    files.update(needed_libraries(*components))
    files.update(needed_libraries(application))
    files.update({f"{DIRECTORY}/{name}": DIRECTORY / name for name in FORMER_PARTS_OF_GLIBC})
    files.update({path: dict(replaced).get(pathlib.Path(path).name, source) for path, source in files.items()})

    def add(layer):
        made = {"/lib", "/usr", "/usr/lib"}
        for path, source in files.items():
            for parent in reversed(pathlib.Path(path).parents[:-1]):
                if str(parent) not in made:
                    layer.directory(str(parent)[1:])
                    made.add(str(parent))
            layer.file(path[1:], source.read_bytes(), mode=0o755)
        layer.file("app", pathlib.Path(application).read_bytes(), mode=0o755)

    return images.busybox(extra=add)


def hook_for_mpich(prefix):
    """The MPI hook's configuration for the host's MPICH, which loads UCX with its components."""
    library = LIBRARIES / "libmpich.so.12"
    components = sorted((LIBRARIES / "ucx").glob("*.so"))
    dependencies = [path for path in needed_libraries(library, *components) if not re.search(r"/(ld-linux|lib(c|m|pthread|dl|rt|resolv)\.so)", path)]
    return {"version": "1.0.0",
            "hook": {"path": f"{prefix}/bin/mpi_hook",
                     "env": ["LDCONFIG_PATH=/sbin/ldconfig", f"MPI_LIBS={library.resolve()}", f"MPI_DEPENDENCY_LIBS={':'.join(dependencies)}",
                             f"BIND_MOUNTS={LIBRARIES}/ucx"]},
            "when": {"annotations": {"^com.hooks.mpi.enabled$": "^true$"}}, "stages": ["createContainer"]}
