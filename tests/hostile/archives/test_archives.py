"""sarus-image-builder against the archives of archive_corpus.py: each file's name says what must happen."""

import os
import resource
import subprocess

import archive_corpus as corpus
import pytest
from helpers import installation

BUILDER = installation.BUILD / "sarus-image-builder"


def run(directory, *arguments):
    """Exit status and both outputs of the builder, which does not run for ever."""
    process = subprocess.Popen([BUILDER, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=directory,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
    out, errors = process.communicate(timeout=300)
    return process.returncode, out, errors


def tree(directory):
    return {str(path.relative_to(directory)): path.lstat().st_mtime_ns for path in directory.rglob("*")}


@pytest.mark.parametrize("case", list(corpus.MAKERS))
def test_archive(case, tmp_path):
    archive = corpus.write(case, tmp_path)
    before = tree(tmp_path)
    output = tmp_path / "image.squashfs"
    status, _, errors = run(tmp_path, "build", archive, output, *corpus.OPTIONS[case])
    after = tree(tmp_path)
    after.pop("image.squashfs", None)
    assert after == before, "something was written beside the output"
    if case.startswith("should-fail-"):
        assert (status, corpus.MESSAGES[case] in errors, output.exists()) == (1, True, False), f"status {status}: {errors}"
        return
    assert status == 0, errors
    content = subprocess.run(["unsquashfs", "-cat", output, "is"], check=True, capture_output=True).stdout
    assert content == b"it"


@pytest.mark.parametrize("case", ["should-load-docker-and-oci-at-once", "should-load-oci-blobs-that-are-linked-to-other-members"])
def test_archive_on_standard_input_is_read_in_place(case, tmp_path):
    archive = corpus.write(case, tmp_path)
    output = tmp_path / "image.squashfs"
    with open(archive, "rb") as file:
        subprocess.run([BUILDER, "build", "-", output], stdin=file, check=True, capture_output=True)
    assert subprocess.run(["unsquashfs", "-cat", output, "is"], check=True, capture_output=True).stdout == b"it"


@pytest.mark.parametrize("name", ["index.json", "blobs/sha256"])
def test_fifo_in_a_layout_is_not_waited_for(name, tmp_path):
    layout = corpus.image().write_oci_layout(tmp_path / "layout")
    for path in [layout / name] if name == "index.json" else list((layout / name).iterdir()):
        path.unlink()
        os.mkfifo(path)
    result = subprocess.run([BUILDER, "build", layout, tmp_path / "out"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and "is not a regular file" in result.stderr, result.stderr
