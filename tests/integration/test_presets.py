"""Each preset configures in a fresh clone with its flags, and every file that compilers and clang-tidy read exists before the build."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
from helpers.installation import SOURCE

pytestmark = pytest.mark.thorough

# Those for another architecture are built by tests/matrix/test_aarch64.py.
PRESETS = {preset["name"]: preset["cacheVariables"] for preset in json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
           if "toolchainFile" not in preset}
FLAGS = {"release": "-O3", "test": "-O1", "debug": "-g", "asan-ubsan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    if not (SOURCE / ".git").exists():
        pytest.skip(f"{SOURCE} is no git repository")
    directory = tmp_path_factory.mktemp("presets") / "clone"
    configuration = directory.parent / "gitconfig"
    configuration.write_text("[safe]\n\tdirectory = *\n")  # the repository may belong to another user
    subprocess.run(["git", "clone", "--quiet", SOURCE, directory], check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": str(configuration)})
    return directory


def look_up(entry, known):
    """Adds the files that a command of the compile database reads to `known`, which says whether they exist."""
    directory = pathlib.Path(entry["directory"])
    words = [word for word in shlex.split(entry["command"]) if word != "-Xclang"]
    pairs = list(zip(words, words[1:]))
    folders = [directory / word[2:] for word in words if word.startswith("-I")]
    folders += [directory / path for option, path in pairs if option in ("-I", "-isystem")] + [pathlib.Path("/usr/include")]
    waiting = [directory / entry["file"]] + [directory / path for option, path in pairs if option == "-include"]
    for path in waiting:
        if path in known:
            continue
        known[path] = path.exists()
        # Generated headers and those of libraries have no room: <name.hpp>
        for names in re.findall(r'^#include (?:"([^"]+)"|<([^>]+\.hpp)>)', path.read_text(), re.M) if known[path] else []:
            places = [place / "".join(names) for place in [path.parent, *folders]]
            waiting.append(next((place for place in places if place.exists()), places[1]))


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_its_flags_and_all_files_that_a_compiler_reads(clone, name):
    compiler = PRESETS[name].get("CMAKE_CXX_COMPILER", "c++")
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    build = clone / f"build-{name}"
    subprocess.run(["cmake", "--preset", name, "-B", build, "-G", "Ninja", "-DENABLE_UNIT_TESTS=ON"], check=True, capture_output=True, cwd=clone)
    entries = json.loads((build / "compile_commands.json").read_text())
    assert [entry["file"] for entry in entries if FLAGS[name] not in shlex.split(entry["command"])] == []
    strict = [entry["file"] for entry in entries if "-Werror" in shlex.split(entry["command"])]
    assert strict == ([] if name in ("release", "test") else [entry["file"] for entry in entries])
    known = {}
    for entry in entries:
        look_up(entry, known)
    assert [str(path) for path, exists in known.items() if not exists] == []
    expected = {build / "generated/build_ids.hpp", clone / "src/base/error.hpp", clone / "tests/unit/base/temporary_directory.hpp"}
    assert expected - set(known) == set()
