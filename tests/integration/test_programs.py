"""What the static programs are made of: those that run with privileges in or beside a foreign root filesystem load nothing at run time."""

import re
import subprocess

import pytest
from helpers.installation import SOURCE

CMAKE = (SOURCE / "CMakeLists.txt").read_text()
HOOKS = re.search(r"^set\(SARUS_HOOKS ([^)]*)\)", (SOURCE / "cmake/Layers.cmake").read_text(), re.M)[1].split()


def each_hook(names):
    """The names, in which CMakeLists.txt says ${hook} for all hooks."""
    return [name.replace("${hook}", hook) for name in names for hook in (HOOKS if "${hook}" in name else [""])]


STATIC = each_hook(re.findall(r"^ *sarus_program\((\S+) [^)]*\bSTATIC\b", CMAKE, re.M))
ARCHIVES = [folder.replace("/", "_") for folder in each_hook(re.findall(r"^ *sarus_library\(([^\s)]+)", CMAKE, re.M))
            if folder in ("base", "oci", "node", "squashfs", "hook_contracts", "engine") or folder.startswith(("starter", "hooks/"))]

# NSS, iconv and dlopen load libraries of the image into a privileged program in a container; the rest starts a shell.
FORBIDDEN = re.compile(r"getpw\w+|getgr(nam|gid|ent)\w*|getgrouplist|initgroups|getaddrinfo|gethostby\w+|getnameinfo|getservby\w+|iconv_open|dlopen|"
                       r"dlmopen|system|popen|wordexp")


def read(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def test_the_lists_are_complete(build_dir):
    assert {"sarus-starter", "sarus-enter", "mpi_hook", "mount_hook"} <= set(STATIC)
    assert {path.name for path in build_dir.glob("*_hook")} <= set(STATIC)
    assert {"base", "oci", "engine", "starter", "hooks_kit", "hooks_mpi"} <= set(ARCHIVES)


@pytest.mark.parametrize("name", STATIC)
def test_program_is_static_and_has_a_random_address(build_dir, name):
    program = build_dir / name
    assert "(NEEDED)" not in read("readelf", "--dynamic", program)
    assert "INTERP" not in read("readelf", "--program-headers", "--wide", program)
    assert re.search(r"^  Type: +DYN ", read("readelf", "--file-header", program), re.M)


@pytest.mark.parametrize("name", [name for name in STATIC if name.endswith("_hook")])
def test_hook_is_small(build_dir, name):
    assert (build_dir / name).stat().st_size < 3 << 20


@pytest.mark.parametrize("name", ARCHIVES)
def test_nothing_that_loads_libraries_or_starts_a_shell_is_called(build_dir, name):
    archive = build_dir / f"libsarus_{name}.a"
    if not archive.exists():  # a folder with nothing but its main.cpp
        folder = name.replace("_", "/", 1)
        assert [path.name for path in (SOURCE / "src" / folder).glob("*.cpp")] == ["main.cpp"]
        objects = list(build_dir.glob(f"CMakeFiles/*.dir/src/{folder}/main.cpp.o"))
        assert len(objects) == 1
        archive = objects[0]
    called = {line.split()[-1] for line in read("nm", "--undefined-only", "--format=bsd", archive).splitlines() if line.startswith(" ")}
    assert called and [symbol for symbol in called if FORBIDDEN.fullmatch(symbol)] == []
