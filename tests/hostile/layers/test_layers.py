"""sarus-image-builder against the images of corpus.py: each file's name says what must happen."""

import os
import resource
import subprocess
import tempfile

import corpus
import pytest
from helpers import installation

BUILDER = installation.BUILD / "sarus-image-builder"
SECONDS = 300  # of CPU time; a conversion without end is stopped
SANITIZED = b"__asan_init" in BUILDER.read_bytes()
MEMORY = 500 << 20  # bytes, whatever the image is; sanitizers need their own


def convert(layout, output, *options):
    """Exit status, messages and the largest memory (bytes) of a conversion."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([BUILDER, "build", layout, output, *options], stdout=subprocess.DEVNULL, stderr=errors,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return process.returncode, errors.read().decode(errors="replace"), usage.ru_maxrss * 1024


def contents(image, directory):
    """{path: content, "-> target", "/" or None} of a squashfs, as corpus.TREES has it."""
    tree = {}
    if os.getuid() != 0:  # only root can unpack devices
        listing = subprocess.run(["unsquashfs", "-quiet", "-lls", image], check=True, capture_output=True, text=True).stdout
        tree = {line.rpartition("squashfs-root/")[2]: None for line in listing.splitlines() if line.startswith(("b", "c"))}
    result = subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-ignore-errors", "-d", directory, image], capture_output=True)
    assert result.returncode == 0 or (tree and result.returncode == 2), result.stderr
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            tree[name] = "-> " + os.readlink(path)
        elif path.is_dir():
            tree[name] = "/"
        else:
            tree[name] = path.read_text() if path.is_file() else None
    return tree


@pytest.mark.parametrize("case", list(corpus.MAKERS))
def test_image(case, tmp_path):
    layout = corpus.write(case, tmp_path / "layout")
    output = tmp_path / "image.squashfs"
    status, errors, memory = convert(layout, output, *corpus.OPTIONS[case])
    assert memory < MEMORY or SANITIZED
    if case.startswith("should-fail-"):
        assert (status, corpus.MESSAGES[case] in errors) == (1, True), f"status {status}: {errors}"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["layout"]
        return
    assert status == 0, errors
    expected = corpus.TREES[case]
    if expected is None:
        subprocess.run(["unsquashfs", "-quiet", "-lls", output], check=True, capture_output=True)
        return
    found = contents(output, tmp_path / "tree")
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert content is None or found[name] == content, name
