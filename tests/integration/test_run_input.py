"""What `sarus run` takes from files of the user: images by path, and variables."""

import json
import os

import pytest


@pytest.fixture
def squashfs(engine, busybox):
    """The path of a squashfs file."""
    return next(image["path"] for image in json.loads(engine.sarus("images", "--json").stdout)
                if image["reference"] == f"{busybox}:latest")


# Squashfs files


def test_a_squashfs_file_runs_by_its_path(engine, squashfs):
    assert engine.output(squashfs, "echo", "ran") == "ran"
    folder, name = os.path.split(squashfs)
    assert engine.output(f"./{name}", "echo", "ran", cwd=folder) == "ran"
    assert engine.output(f"../{os.path.basename(folder)}/{name}", "pwd", cwd=folder) == "/"


def test_a_squashfs_file_has_no_default_command(user_engine, load_image, plain_busybox):
    load_image(user_engine, "busybox", plain_busybox)
    path = next(image["path"] for image in json.loads(user_engine.sarus("images", "--json").stdout))
    result = user_engine.sarus("run", path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"No command to run in a container of image {path}")


def test_what_is_no_squashfs_file_is_refused(user_engine, workspace):
    directory = workspace / "no-images"
    directory.mkdir(exist_ok=True)
    (directory / "text").write_text("hello")
    (directory / "empty").write_text("")
    if not (directory / "fifo").exists():
        os.mkfifo(directory / "fifo", 0o644)
    for name, reason in [("text", "it is not a squashfs file"), ("empty", "it is not a squashfs file"), ("fifo", "it is not a regular file"),
                         (".", "it is not a regular file")]:
        result = user_engine.sarus("run", f"{directory}/{name}", "true")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.splitlines()[0] == f"Cannot run {directory}/{name}: {reason}"
    result = user_engine.sarus("run", f"{directory}/missing", "true")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"Failed to open {directory}/missing: No such file or directory")


def test_the_file_is_opened_with_the_users_rights(user_engine, squashfs_of_root):
    result = user_engine.sarus("run", squashfs_of_root, "true")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, f"Failed to open {squashfs_of_root}: Permission denied")


@pytest.fixture
def squashfs_of_root(workspace):
    path = workspace / "secret.squashfs"
    path.unlink(missing_ok=True)
    path.write_bytes(b"hsqs")
    path.chmod(0)
    return path


def test_a_crafted_file_is_refused_and_nothing_remains(user_engine, workspace):
    path = workspace / "crafted.squashfs"
    path.write_bytes(b"hsqs" + b"\xff" * 4092)
    result = user_engine.sarus("run", path, "true")
    assert result.returncode == 1 and str(path) in result.stderr


def test_a_file_is_in_no_repository(user_engine, squashfs_of_root):
    result = user_engine.sarus("run", "--centralized-repository", squashfs_of_root, "true")
    assert result.stderr.splitlines()[0] == f"The option '--centralized-repository' cannot be used with the file {squashfs_of_root}"


# Variables


def test_variables_out_of_a_file(engine, busybox, workspace):
    file = workspace / "job.env"
    file.write_text("# a comment\n\nA=from file\nB='quoted'\nFROM_HOST\nMISSING\nC=file\n")
    output = engine.output(busybox, "sh", "-c", 'echo "$A|$B|$FROM_HOST|${MISSING-unset}|$C"',
                           options=["--env-file", file, "-e", "C=option"], env={"FROM_HOST": "host"})
    assert output == "from file|'quoted'|host|unset|option"


def test_later_files_win_and_options_win_over_all_files(user_engine, load_image, plain_busybox, workspace):
    image = load_image(user_engine, "busybox", plain_busybox)
    for name in ("one", "two"):
        (workspace / name).write_text(f"X={name}\nY={name}\n")
    output = user_engine.output(image, "sh", "-c", "echo $X $Y",
                                options=["-e", "Y=option", "--env-file", workspace / "one", "--env-file", workspace / "two"])
    assert output == "two option"


@pytest.mark.parametrize("text, message", [
    ("A=1\n=2\n", "line 2: '=2' has no name before the '='"),
    ("export A=1\n", "line 1: the name 'export A' contains white space"),
    ("A=\0\n", "line 1: it holds a NUL character"),
])
def test_errors_in_a_file_name_the_file_and_the_line(setuid_engine, load_image, plain_busybox, workspace, text, message):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    file = workspace / "bad.env"
    file.write_text(text)
    result = setuid_engine.sarus("run", "--env-file", file, image, "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == f"Invalid environment file {file}, {message}"


def test_a_file_is_bounded_and_has_to_exist(setuid_engine, load_image, plain_busybox):
    image = load_image(setuid_engine, "busybox", plain_busybox)
    result = setuid_engine.sarus("run", "--env-file", "/dev/zero", image, "true")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, "/dev/zero is larger than the limit of 1024.00KB")
    result = setuid_engine.sarus("run", "--env-file", "/nowhere", image, "true")
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, "Failed to open /nowhere: No such file or directory")


@pytest.mark.parametrize("option, traced", [("--debug", True), ("--verbose", True), (None, False)])
def test_errors_of_the_starter_have_a_trace_too(user_engine, load_image, plain_busybox, option, traced):
    image = load_image(user_engine, "busybox", plain_busybox)
    result = user_engine.sarus(*filter(None, [option]), "run", "--mount=type=bind,source=/no/such,destination=/dst", image, "true")
    lines = result.stderr.splitlines()
    assert result.returncode == 1 and any(line.startswith("Failed to bind mount /no/such on container's /dst: ") for line in lines)
    assert ("Error trace (most nested error last):" in lines) == traced
    assert any(line.startswith("#0  ") for line in lines) == traced
