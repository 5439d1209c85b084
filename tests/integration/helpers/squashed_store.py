"""A squashed store as podman-hpc 1.1 makes one, for tests of what reads it. It is written from the documented layout:

    overlay-images/images.json  images.lock  <image>/{manifest, =<base64 of a key>...}
    overlay-layers/layers.json  layers.lock  <layer>.tar-split.gz
    overlay/<layer>/{link,diff/,empty/,merged/,work/}
    overlay/l/<LINK> -> ../<layer>/diff
    overlay/l/<LINK>.squash     of the top layer alone: the files of all layers

All records are those of the local store. No layer has a file `lower`, so that containers/storage asks for the top layer alone.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from . import system

PROGRAMS = ("squashfuse", "squashfuse_ll", "sarus-squashfs", "fuse-overlayfs", "fuse-overlayfs-wrap")
DIRECTORIES = ("diff", "empty", "merged", "work")


def _read(file):
    return json.loads(file.read_text()) if file.exists() else []


def create(store):
    """An empty store."""
    store = pathlib.Path(store)
    for name in ("overlay-images", "overlay-layers", "overlay/l"):
        (store / name).mkdir(parents=True, exist_ok=True)
    for kind in ("images", "layers"):
        (store / f"overlay-{kind}/{kind}.lock").touch()
        (store / f"overlay-{kind}/{kind}.json").write_text("[]")
    return store


def top_link(store, name):
    """The link of an image's top layer: DIRECTORY/LINK."""
    image = find_image(store, name)
    return pathlib.Path(store) / "overlay/l" / (pathlib.Path(store) / "overlay" / image["layer"] / "link").read_text()


def find_image(store, name):
    return next(image for image in _read(pathlib.Path(store) / "overlay-images/images.json") if name in image.get("names", []))


def add(graph_root, store, name, make_squash):
    """Copies the image from a local store. make_squash(image, file) writes the files of the image. Returns the squash file."""
    graph_root, store = pathlib.Path(graph_root), pathlib.Path(store)
    if not (store / "overlay").exists():
        create(store)
    image = find_image(graph_root, name)
    shutil.copytree(graph_root / "overlay-images" / image["id"], store / "overlay-images" / image["id"])
    local = {layer["id"]: layer for layer in _read(graph_root / "overlay-layers/layers.json")}
    known = _read(store / "overlay-layers/layers.json")
    layer = image["layer"]
    while layer:
        if layer not in [record["id"] for record in known]:
            known.append(local[layer])
            _add_layer(graph_root, store, layer)
        layer = local[layer].get("parent", "")
    top = (store / "overlay" / image["layer"] / "link").read_text()
    squash = store / "overlay/l" / f"{top}.squash"
    make_squash(image["id"], squash)
    (store / "overlay-layers/layers.json").write_text(json.dumps(known))
    (store / "overlay-images/images.json").write_text(json.dumps([*_read(store / "overlay-images/images.json"), image]))
    return squash


def _add_layer(graph_root, store, layer):
    source, directory = graph_root / "overlay" / layer, store / "overlay" / layer
    directory.mkdir()
    for name in DIRECTORIES:
        if (source / name).is_dir():
            (directory / name).mkdir()
    link = (source / "link").read_text()
    (directory / "link").write_text(link)
    (store / "overlay/l" / link).symlink_to(f"../{layer}/diff")
    split = f"overlay-layers/{layer}.tar-split.gz"
    shutil.copyfile(graph_root / split, store / split)


def own(store, user):
    for directory, names, files in os.walk(store):
        for path in (directory, *(os.path.join(directory, name) for name in (*names, *files))):
            user.own(path)


def squash_archive(archive, file):
    """Makes the squash file of a docker-archive without whiteouts. Needs root: the files keep their owners."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory) / "root"
        root.mkdir(mode=0o755)
        with tarfile.open(archive) as outer:
            manifest = json.load(outer.extractfile("manifest.json"))
            for layer in manifest[0]["Layers"]:
                with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
                    inner.extractall(root, numeric_owner=True)
        subprocess.run(["mksquashfs", root, file, "-comp", "lz4", "-noappend", "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)


def servers(directory):
    """{pid: name} of the FUSE servers and mount programs that have a file or directory below this one open, or as an argument."""
    found = {}
    for pid, _, command in system.processes():
        program = os.path.basename(command.split(" ")[0]) if command else ""
        if program in PROGRAMS:
            with contextlib.suppress(OSError):  # it has ended
                links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
                if any(f"{directory}/" in text for text in [command, *links]):
                    found[pid] = program
    return found
