"""What the build asks pkg-config and CMake for, as packages for other systems must name it."""

import re

from helpers.installation import SOURCE

FOR_TESTS = {"libarchive", "GTest"}
OF_THE_SYSTEM = {"PkgConfig", "Threads"}  # parts of CMake


def sources():
    files = [SOURCE / "CMakeLists.txt", *sorted((SOURCE / "cmake").glob("*.cmake"))]
    return "\n".join(re.sub(r"(?m)^\s*#.*$|\s# .*$", "", file.read_text()) for file in files)


def pkg_config_names():
    """(required, optional) names."""
    text = sources()
    required = set(re.findall(r"sarus_archive\(([\w.-]+)\)", text))
    for keyword, names in re.findall(r"\b(PACKAGES|OPTIONAL_PACKAGES) ((?:lib\w+|zlib|lzo2| )+)", text):
        if keyword == "PACKAGES":
            required |= set(names.split())
    optional = {name for names in re.findall(r"\bOPTIONAL_PACKAGES ((?:lib\w+|zlib|lzo2| )+)", text) for name in names.split()}
    return required, optional


def cmake_names():
    return set(re.findall(r"find_package\((\w+)", sources())) - OF_THE_SYSTEM - FOR_TESTS
