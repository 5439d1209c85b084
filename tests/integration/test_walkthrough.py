"""The walk-through "Add a key" of CONTRIBUTING.md, followed to the letter on a copy of the files that it names."""

import json
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.thorough

SOURCES = ["engine/site_config.cpp", "engine/site_config_reference.cpp", "engine/old_configuration.cpp", "oci/json/json_depth.cpp",
           "oci/json/json_lines.cpp", "oci/runtime/device_request.cpp", "oci/runtime/mount_request.cpp", "base/boolean.cpp", "base/error.cpp", "base/text.cpp"]
PROGRAM = r"""
#include <iostream>
#include "base/error.hpp"
#include "engine/site_config.hpp"
#include "engine/site_config_reference.hpp"

int main(int argc, char** argv) try {
    if (argc == 1) {
        std::cout << sarus::engine::siteConfigSchema() << '\0' << sarus::engine::siteConfigManual();
    } else {
        sarus::engine::parseSiteConfig(argv[1], "sarus.json");
    }
} catch (const sarus::Error& error) {
    std::cout << error.what() << '\n' << error.hint();
    return 1;
}
"""


def steps(text):
    """(file, what to append to, code) for each step that shows code."""
    section = text.split("**Add a key of `sarus.json`.**")[1].split("**Add")[0]
    found = re.findall(r"^\d\. `([^`]+)`, at the end of (?:`(\w+)`|the list)[^`]*:\s+`(.+)`$", section, re.MULTILINE)
    assert [file for file, _, _ in found] == ["src/engine/site_config.hpp", "src/engine/site_config.cpp", "tests/data/sarus_json/cases.json"]
    return found


def append(path, place, code):
    """Puts the code behind the last line of the list or of the definition of `place`."""
    text = path.read_text()
    end = text.rindex("\n]") if not place else text.index("\n};", re.search(rf"(struct {place}|array {place}) ?{{", text).start())
    path.write_text(text[:end] + ("," if not place else "") + f"\n    {code}" + text[end:])


@pytest.fixture(scope="module")
def copy(source_dir, build_dir, tmp_path_factory):
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(source_dir / "src", tree / "src")
    shutil.copytree(source_dir / "tests/data/sarus_json", tree / "tests/data/sarus_json")
    for file, place, code in steps((source_dir / "CONTRIBUTING.md").read_text()):
        append(tree / file, place, code)
    (tree / "main.cpp").write_text(PROGRAM)
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", (build_dir / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
    subprocess.run([compiler, "-std=c++20", "-D_GNU_SOURCE", "-Isrc", "-o", "program", "main.cpp", *(f"src/{file}" for file in SOURCES)],
                   cwd=tree, check=True)
    return tree


def test_schema_and_manual_follow_from_the_steps_for_a_key(copy):
    schema, manual = subprocess.run([copy / "program"], capture_output=True, text=True, check=True).stdout.split("\0")
    assert json.loads(schema)["properties"]["quietStart"] == {"description": "Whether to start quietly.", "type": "boolean", "default": False}
    assert '.BR quietStart " (boolean, default false)"\nWhether to start quietly.\nSarus 1.7 did not know this key.\n' in manual


def test_errors_follow_from_the_steps_for_a_key(copy):
    minimal = json.loads((copy / "tests/data/sarus_json/minimal.json").read_text())

    def parse(values):
        result = subprocess.run([copy / "program", json.dumps({**minimal, **values})], capture_output=True, text=True)
        return result.returncode, result.stdout.splitlines()

    case = json.loads((copy / "tests/data/sarus_json/cases.json").read_text())[-1]
    assert parse(case["set"]) == (0, []) and case["valid"]
    assert parse({"quietStart": 1}) == (1, ["sarus.json: quietStart: expected true or false, found 1"])
    assert parse({"quitStart": True}) == (1, ["sarus.json: unknown key 'quitStart'", "Did you mean 'quietStart'?"])
