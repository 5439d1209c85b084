"""Writes container images without any container tool: layers, OCI layouts and docker-archives.

The same calls give the same bytes. Used by make-demo-image, by the tests and by the benchmarks.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import tarfile

EPOCH = "1970-01-01T00:00:00Z"
BUSYBOX = "/bin/busybox"


def architecture():
    """The name that images use for this machine's processor."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layer:
    """An uncompressed layer: entries in the order in which they were added, no check of what they say."""

    def __init__(self):
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, type=tarfile.REGTYPE, data=b"", mode=0o644, target="", **attributes):
        """One entry; further attributes are those of tarfile.TarInfo (uid, gid, mtime, devmajor, pax_headers, ...)."""
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.linkname, info.size = type, mode, target, len(data)
        for key, value in attributes.items():
            setattr(info, key, value)
        self._tar.addfile(info, io.BytesIO(data) if data else None)
        return self

    def file(self, name, data="", mode=0o644, **attributes):
        return self.add(name, data=data.encode() if isinstance(data, str) else data, mode=mode, **attributes)

    def directory(self, name, mode=0o755, **attributes):
        return self.add(name, tarfile.DIRTYPE, mode=mode, **attributes)

    def symlink(self, name, target, **attributes):
        return self.add(name, tarfile.SYMTYPE, mode=0o777, target=target, **attributes)

    def hardlink(self, name, target, **attributes):
        return self.add(name, tarfile.LNKTYPE, target=target, **attributes)

    def bytes(self):
        self._tar.close()
        return self._buffer.getvalue()


def busybox_layer(busybox=BUSYBOX, extra=None):
    """A small system: Debian's static busybox with a link for each of its commands. `extra(layer)` may add to it."""
    layer = Layer()
    for name in ("bin", "etc", "home", "lib", "opt", "root", "sbin", "usr", "usr/bin", "usr/sbin", "usr/lib", "var"):
        layer.directory(name)
    for name in ("dev", "proc", "sys", "run"):
        layer.directory(name)
    for name in ("tmp", "var/tmp"):
        layer.directory(name, mode=0o1777)
    layer.file("bin/busybox", pathlib.Path(busybox).read_bytes(), mode=0o755)
    for applet in applets(busybox):
        if applet != "busybox":
            layer.symlink("bin/" + applet, "busybox")
    layer.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    layer.file("etc/group", "root:x:0:\n")
    layer.file("etc/os-release", 'NAME="Sarus demo image"\nID=sarus-demo\nPRETTY_NAME="Sarus demo image (busybox)"\n')
    if extra:
        extra(layer)
    return layer.bytes()


def applets(busybox=BUSYBOX):
    """The commands of a busybox binary, sorted."""
    import subprocess

    listing = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout
    return sorted(set(listing.split()))


class Image:
    """Layers (uncompressed tar bytes, lowest first) and the `config` object of the image configuration."""

    def __init__(self, layers, config=None, compress=True):
        self.layers = list(layers)
        self.compress = compress
        self.configuration = {
            "architecture": architecture(),
            "os": "linux",
            "created": EPOCH,
            "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in self.layers]},
            "history": [{"created": EPOCH} for _ in self.layers],
        }

    def _blobs(self):
        """(manifest bytes, {digest: bytes}) of the image in the OCI format."""
        blobs = {}

        def put(data):
            blobs[digest(data)] = data
            return {"digest": digest(data), "size": len(data)}

        suffix = "+gzip" if self.compress else ""
        layers = [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar" + suffix, **put(gzip.compress(layer, mtime=0) if self.compress else layer)}
            for layer in self.layers
        ]
        config = {"mediaType": "application/vnd.oci.image.config.v1+json", **put(_json(self.configuration))}
        manifest = _json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers})
        blobs[digest(manifest)] = manifest
        return manifest, blobs

    def manifest_digest(self):
        return digest(self._blobs()[0])

    def config_digest(self):
        return digest(_json(self.configuration))

    def write_oci_layout(self, directory, name="latest"):
        directory = pathlib.Path(directory)
        manifest, blobs = self._blobs()
        (directory / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        for blob_digest, data in blobs.items():
            (directory / "blobs" / "sha256" / blob_digest.removeprefix("sha256:")).write_bytes(data)
        entry = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(manifest),
            "size": len(manifest),
            "annotations": {"org.opencontainers.image.ref.name": name},
        }
        (directory / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
        (directory / "index.json").write_bytes(_json({"schemaVersion": 2, "manifests": [entry]}))
        return directory

    def write_docker_archive(self, path, name="demo:latest"):
        """What `docker save` writes. The file appears complete or not at all."""
        path = pathlib.Path(path)
        config = _json(self.configuration)
        archive = Layer()
        config_name = digest(config).removeprefix("sha256:") + ".json"
        archive.file(config_name, config)
        names = []
        for layer in self.layers:
            names.append(digest(layer).removeprefix("sha256:") + "/layer.tar")
            if names[-1] not in names[:-1]:
                archive.file(names[-1], layer)
        archive.file("manifest.json", _json([{"Config": config_name, "RepoTags": [name], "Layers": names}]))
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(archive.bytes())
        os.replace(temporary, path)
        return path


def _json(value):
    return json.dumps(value, separators=(",", ":")).encode()
