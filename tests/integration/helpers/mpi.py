"""Images with a program of the test's own and one of the host's MPI libraries, made from the host's files."""

import pathlib
import re
import subprocess

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


def needed_libraries(files):
    """{path: real path} of the shared libraries that ELF files need, the dynamic linker included."""
    found = {}
    listing = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True).stdout
    for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE):
        found[path] = pathlib.Path(path).resolve()
    return found


def image_with(images, kind, application):
    """An image with `application` as /app and everything that it loads."""
    components = [file for folder in COMPONENTS[kind] for file in sorted((LIBRARIES / folder).glob("*.so*"))]
    data = [file for folder in DATA[kind] for file in sorted(pathlib.Path(folder).rglob("*")) if file.is_file()]
    files = {str(file): file.resolve() for file in [*components, *data]}
    files.update(needed_libraries([application, *components]))

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
