"""What hooks do below a container's root goes through one room, and the configuration step refuses anything else."""

import re
import subprocess

import pytest
from helpers.installation import SOURCE

RULES = SOURCE / "cmake/RootWrites.cmake"
ELSEWHERE = re.findall(r"^ +(hooks/\S+)", RULES.read_text(), re.M)


def check(source):
    return subprocess.run(["cmake", f"-DSRC={source}", "-P", RULES], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("line", [
    "::mount(nullptr, path, nullptr, 0, nullptr);", "::mkdirat(root, name, 0755);", "::symlink(text, path);", "if (::unlinkat(root, name, 0) != 0) {",
    "::renameat(one, a, two, b);", "::mknodat(dev, name, mode, number);", "openFileAt(root, name, O_RDONLY | O_CREAT);", "::open(path, O_WRONLY);",
    "createInRoot(root, path, kind);", "bindMount(source, target, {});", "replaceFile(path, text, 0644);", "::umount2(path, 0);", "::fchmod(file, 0);",
])
def test_hook_that_writes_by_itself_is_refused_and_named(tmp_path, line):
    for folder, file in (("own", "main.cpp"), ("kit/room", "part.hpp")):
        place = tmp_path / folder / "hooks" / folder
        place.mkdir(parents=True)
        (place / file).write_text(f"void work() {{\n    {line}\n}}\n")
        result = check(tmp_path / folder)
        assert result.returncode != 0 and f"hooks/{folder}/{file} writes by itself" in " ".join(result.stderr.split()), result.stderr


def test_hook_may_read_and_may_use_the_editor(tmp_path):
    place = tmp_path / "hooks/own"
    place.mkdir(parents=True)
    (place / "main.cpp").write_text('openFile(path, O_RDONLY);\neditor.replaceFile("/etc/x", text, 0644);\neditor.link("/lib", {}, target);\nopenFile(path, O_PATH);\n')
    result = check(tmp_path)
    assert result.returncode == 0, result.stderr


def test_every_exception_exists_and_is_one(tmp_path):
    """An exception that is needed no longer would hide what is added later."""
    assert ELSEWHERE
    for file in ELSEWHERE:
        copy = tmp_path / file.replace("/", "-") / "hooks/other/main.cpp"
        copy.parent.mkdir(parents=True)
        copy.write_text((SOURCE / "src" / file).read_text())
        assert check(copy.parents[2]).returncode != 0, f"{file} needs no exception"
