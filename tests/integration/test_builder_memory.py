"""The image builder's memory does not grow with the image: docs/measurements/conversion.md says how much it is."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import time

import pytest
from helpers.images import architecture

MIB = 1 << 20
LIMIT = 100 * MIB


class Blob:
    """A compressed layer that is written piece by piece; equal pieces are compressed once."""

    def __init__(self, directory):
        directory.mkdir(parents=True)
        self._directory = directory
        self._file = open(directory / "layer", "wb")
        self._compressed, self._plain = hashlib.sha256(), hashlib.sha256()
        self.size = 0

    def write(self, data):
        member = gzip.compress(data, 1)
        self._plain.update(data)
        self._compressed.update(member)
        self.size += self._file.write(member)

    def finish(self):
        """(digest, diff_id)"""
        self._file.close()
        digest = self._compressed.hexdigest()
        os.rename(self._directory / "layer", self._directory / digest)
        return f"sha256:{digest}", f"sha256:{self._plain.hexdigest()}"


def write_layout(path, fill):
    """An image with one layer, which `fill(blob)` writes."""
    blobs = path / "blobs" / "sha256"
    layer = Blob(blobs)
    fill(layer)
    layer.write(bytes(1024))
    layer_digest, diff_id = layer.finish()

    def blob(value):
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    config = blob({"architecture": architecture(), "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [diff_id]}})
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = blob({"schemaVersion": 2, "mediaType": manifest_type, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                     "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": layer_digest, "size": layer.size}]})
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [{"mediaType": manifest_type, **manifest}]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def header(name, size=0, kind=tarfile.REGTYPE):
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.mode = size, kind, 0o755
    return entry.tobuf(tarfile.USTAR_FORMAT)


def large_files(blob):
    """1 GiB of text in 16 files, no two blocks of which are equal."""
    for number in range(16):
        blob.write(header(f"file-{number}", 64 * MIB))
        for part in range(64):
            line = f"{number}.{part} " + "the quick brown fox " * 3 + "\n"
            blob.write(b"".join((f"{row} " + line).encode() for row in range(MIB // len(line) + 1))[:MIB])


def many_files(blob):
    """100,000 small files in 1,000 directories."""
    for folder in range(1000):
        piece = io.BytesIO()
        piece.write(header(f"directory-{folder}", kind=tarfile.DIRTYPE))
        for number in range(100):
            text = f"{folder} {number}\n".encode() * 20
            piece.write(header(f"directory-{folder}/a-file-with-a-usual-name-{number}.txt", len(text)) + text + bytes(-len(text) % 512))
        blob.write(piece.getvalue())


def peak_memory(command):
    """(exit status, bytes): the most that a program has had, by the kernel's mark for its address space (that of wait4(2) begins
    with what the forking Python had)."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]))
    peak = 0
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status") as status:
            peak = max([peak, *(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))])
        time.sleep(0.005)
    return process.returncode, peak


def is_sanitized(builder):
    content = builder.read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


@pytest.mark.parametrize("content, entries", [(large_files, 16), (many_files, 101_000)])
def test_memory_is_bounded_for(tmp_path, build_dir, content, entries):
    write_layout(tmp_path / "layout", content)
    builder = build_dir / "sarus-image-builder"
    status, peak = peak_memory([builder, "build", tmp_path / "layout", tmp_path / "image.squashfs", "--progress", "none"])
    assert status == 0
    listed = subprocess.run(["unsquashfs", "-lc", tmp_path / "image.squashfs"], check=True, capture_output=True, text=True).stdout
    assert len([line for line in listed.splitlines() if line.startswith("squashfs-root/")]) >= entries - 1000
    assert peak > 5 * MIB
    if not is_sanitized(builder):
        assert peak < LIMIT, f"{peak / MIB:.0f} MiB"


@pytest.mark.parametrize("mebibytes", [32, 90])  # too few for the stacks of threads, and for contents
def test_limits_that_are_too_low_are_named(tmp_path, build_dir, mebibytes):
    builder = build_dir / "sarus-image-builder"
    if is_sanitized(builder):
        pytest.skip("sanitizers reserve more memory than any limit")
    write_layout(tmp_path / "layout", many_files)
    result = subprocess.run(["prlimit", f"--as={mebibytes * MIB}", builder, "build", tmp_path / "layout", tmp_path / "image.squashfs", "--progress", "none"],
                            capture_output=True, text=True)
    cause, hint = result.stderr.splitlines()
    assert result.returncode == 1 and cause in ("Resource temporarily unavailable", "The image builder ran out of memory")
    assert hint == "Limits of memory or processes may be too low for it (ulimit -v, ulimit -u)"
    assert not (tmp_path / "image.squashfs").exists()
