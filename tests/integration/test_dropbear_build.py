"""packaging/dropbear/build, with a small program in Dropbear's place that the patch fits: where the source comes from, and what is refused."""

import hashlib
import io
import os
import re
import subprocess
import tarfile

import pytest

CONFIGURE = """#!/bin/sh
cat > Makefile <<'TEXT'
dropbear dbclient dropbearkey: dropbearmulti
dropbearmulti: ; printf 'int main(void) { return 0; }' | musl-gcc -static -x c -o $@ -
TEXT
"""


def patched_files(patch):
    """The files as they must be for the patch: the old lines of each part, where they belong."""
    files = {}
    for line in patch.splitlines():
        if line.startswith("--- a/"):
            lines = files.setdefault(line[len("--- a/"):], [])
        elif part := re.match(r"@@ -(\d+)", line):
            lines += [f"/* {number} */" for number in range(len(lines) + 1, int(part[1]))]
        elif line[:1] in (" ", "-") and not line.startswith("---"):
            lines.append(line[1:])
        elif line == "":
            lines.append("")
    return {name: "\n".join(lines) + "\n" for name, lines in files.items()}


@pytest.fixture(params=["container.patch", "container-2024.patch"])
def sources(source_dir, tmp_path, request):
    """A directory with a Debian source package; the archive in it is like a release of Dropbear, before and since 2024.84."""
    folder = tmp_path / "sources"
    folder.mkdir()
    archive = folder / "dropbear_1.0.tar.gz"
    files = {**patched_files((source_dir / "packaging/dropbear" / request.param).read_text()), "configure": CONFIGURE, "LICENSE": "free\n",
             "debian/source/format": "3.0 (native)\n"}
    with tarfile.open(archive, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"dropbear-1.0/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    content = archive.read_bytes()
    sums = "".join(f"{field}:\n {hashlib.new(kind, content).hexdigest()} {len(content)} {archive.name}\n"
                   for field, kind in (("Checksums-Sha1", "sha1"), ("Checksums-Sha256", "sha256"), ("Files", "md5")))
    (folder / "dropbear_1.0.dsc").write_text("Format: 3.0 (native)\nSource: dropbear\nBinary: dropbear\nArchitecture: any\nVersion: 1.0\n"
                                             f"Maintainer: Nobody <nobody@example.org>\nStandards-Version: 4.6.2\n{sums}")
    return folder


def build(source_dir, source, target, *options):
    return subprocess.run([source_dir / "packaging/dropbear/build", *options, "--source", source, target], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CCACHE_DISABLE": "1"})


@pytest.mark.parametrize("name", [".", "dropbear_1.0.tar.gz"])
def test_software_is_built_from_a_source_package_or_a_release_archive(source_dir, sources, tmp_path, name):
    target = tmp_path / "result"
    result = build(source_dir, sources / name, target)
    assert result.returncode == 0, result.stderr
    assert {path.name: path.is_symlink() and os.readlink(path) for path in (target / "bin").iterdir()} == {
        "dropbearmulti": False, "dropbear": "dropbearmulti", "dbclient": "dropbearmulti", "dropbearkey": "dropbearmulti"}
    assert subprocess.run([target / "bin/dropbear"]).returncode == 0 and (target / "share/LICENSE").read_text() == "free\n"


def damage_the_archive(folder):
    archive = folder / "dropbear_1.0.tar.gz"
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)


def weaken_the_sums(folder):
    file = folder / "dropbear_1.0.dsc"
    file.write_text(re.sub(r"Checksums-Sha(1|256):\n .*\n", "", file.read_text()))


@pytest.mark.parametrize("damage", [damage_the_archive, weaken_the_sums])
def test_damaged_source_package_is_refused(source_dir, sources, tmp_path, damage):
    damage(sources)
    result = build(source_dir, sources / "dropbear_1.0.dsc", tmp_path / "result")
    assert result.returncode == 1 and f"cannot unpack {sources}/dropbear_1.0.dsc" in result.stderr, result.stderr
    assert "checksum" in result.stderr, result.stderr
    assert [*(tmp_path / "result").iterdir()] == []


@pytest.fixture(params=["container.patch", "container-2024.patch"])
def other_release(tmp_path, request):
    """(A release that the patch does not fit, the name of the patch.)"""
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("dropbear-2/configure"))
        if request.param == "container-2024.patch":
            tar.addfile(tarfile.TarInfo("dropbear-2/src/session.h"))
    return tmp_path / "other.tar.gz", request.param


def test_release_that_the_patch_does_not_fit_is_refused(source_dir, other_release, tmp_path):
    archive, patch = other_release
    result = build(source_dir, archive, tmp_path / "result")
    assert result.returncode == 1 and f"{patch} does not fit this version of Dropbear: give another source of Dropbear" in result.stderr
    assert "-DENABLE_SSH=OFF" in result.stderr
    assert [*(tmp_path / "result").iterdir()] == []


def test_release_that_cannot_be_built_does_not_stop_what_else_is_built(source_dir, other_release, tmp_path):
    archive, patch = other_release
    result = build(source_dir, archive, tmp_path / "result", "--optional")
    assert result.returncode == 0, result.stderr
    assert f"{patch} does not fit this version of Dropbear: building without SSH in containers\n" in result.stderr
    assert "packaging/dropbear/build --source" in result.stderr and "-DENABLE_SSH=OFF" in result.stderr
    assert [*(tmp_path / "result").iterdir()] == []
