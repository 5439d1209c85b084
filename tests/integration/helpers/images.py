"""Images for tests, made without any container tool (see scripts/lib/oci_image.py)."""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/lib"))
from oci_image import Image, Layer, architecture, busybox_layer, digest  # noqa: E402,F401

PATH_VARIABLE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageFactory:
    """Makes docker-archives below one directory, readable for everybody."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def busybox(self, config=None, extra=None, layers=()):
        """Busybox with further layers on top; `extra(layer)` adds to the lowest one."""
        return Image([busybox_layer(extra=extra), *layers], {"Env": [PATH_VARIABLE], **(config or {})})

    def archive(self, image, name):
        """Writes a docker-archive and returns its path."""
        path = image.write_docker_archive(self.directory / f"{name}.tar", f"{name}:latest")
        path.chmod(0o644)
        return path
