"""Images that no well-meaning tool makes. Each is a file named by what must happen to it:

should-fail-<case>   the conversion refuses it, with the message that MESSAGES names
should-give-<case>   the conversion gives exactly the tree that TREES names

`python3 corpus.py DIRECTORY` writes them, as OCI layouts, to look at them or to feed them to other programs.
"""

import gzip
import hashlib
import json
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/lib"))
from oci_image import Image, Layer, digest  # noqa: E402

MESSAGES, TREES, MAKERS, OPTIONS = {}, {}, {}, {}


def fails(name, message, *options):
    def register(maker):
        MAKERS["should-fail-" + name], MESSAGES["should-fail-" + name], OPTIONS["should-fail-" + name] = maker, message, options
        return maker
    return register


def gives(name, tree, *options):
    """`tree`: {path: content, "-> target", "/" for a directory, None for anything else}; None: any tree."""
    def register(maker):
        MAKERS["should-give-" + name], TREES["should-give-" + name], OPTIONS["should-give-" + name] = maker, tree, options
        return maker
    return register


def layers(*build):
    """An image of layers, each made by a function that adds to it."""
    made = []
    for fill in build:
        layer = Layer()
        fill(layer)
        made.append(layer.bytes())
    return Image(made)


def headers(*members):
    """An archive of raw headers: (name, fields by offset, data)."""
    archive = b""
    for name, fields, data in members:
        block = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
        block[124:136] = b"%011o\0" % len(data)
        for offset, value in fields.items():
            block[offset:offset + len(value)] = value
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        archive += bytes(block) + data + b"\0" * (-len(data) % 512)
    return archive + b"\0" * 1024


def pax(records):
    text = b""
    for key, value in records:
        length = len(key) + len(value) + 3
        while len(str(length)) + len(key) + len(value) + 3 != length:
            length += 1
        text += b"%d %s=%s\n" % (length, key, value)
    return text


# Names

@gives("parents-that-stop-at-the-root", {"etc": "/", "etc/passwd": "x", "up": "y"})
def _():
    return layers(lambda layer: layer.file("../../etc/passwd", "x").file("a/../../../up", "y"))


@gives("absolute-names-below-the-root", {"etc": "/", "etc/shadow": "x"})
def _():
    return layers(lambda layer: layer.file("/etc/shadow", "x"))


@fails("root-is-a-symlink", "replaces the root directory")
def _():
    return layers(lambda layer: layer.symlink(".", "/etc"))


@fails("root-with-dot-is-a-symlink", "replaces the root directory")
def _():
    return layers(lambda layer: layer.symlink("/.", "/etc").file("passwd", "x"))


@gives("a-file-through-a-symlink-inside", {"link": "-> /etc", "etc": "/", "etc/passwd": "x"})
def _():
    return layers(lambda layer: layer.symlink("link", "/etc").file("link/passwd", "x"))


@gives("a-file-through-a-symlink-with-parents-inside", {"link": "-> ../../../tmp", "tmp": "/", "tmp/x": "x"})
def _():
    return layers(lambda layer: layer.symlink("link", "../../../tmp").file("link/x", "x"))


@fails("symlinks-in-a-circle", "Too many symbolic links")
def _():
    return layers(lambda layer: layer.symlink("a", "b").symlink("b", "a").file("a/x", "x"))


@fails("a-component-of-256-bytes", "too long")
def _():
    return layers(lambda layer: layer.file("n" * 256))


@gives("a-component-of-255-bytes", {"n" * 255: ""})
def _():
    return layers(lambda layer: layer.file("n" * 255))


@fails("a-path-of-4096-bytes", "too long")
def _():
    return layers(lambda layer: layer.file("/".join(["d" * 99] * 41)[:4096]))


@gives("a-path-of-4000-bytes", None)
def _():
    return layers(lambda layer: layer.file("/".join(["d" * 99] * 40)))


@fails("a-tree-of-10000-levels", "too long")
def _():
    return layers(lambda layer: layer.directory("d/" * 10000))


@fails("a-tree-of-10000-levels-through-symlinks", "4096 levels")
def _():
    def fill(layer):
        deep = "d/" * 1500
        layer.directory(deep)
        for step in range(6):
            layer.symlink(f"s{step}", deep if step == 0 else f"s{step - 1}/{deep}").directory(f"s{step}/{deep}")
    return layers(fill)


@gives("names-that-are-not-utf-8", None)
def _():
    return Image([headers(("x", {0: b"\xff\xfe\x01\x1b[2J\n"}, b"data"))])


@fails("a-name-with-nul", "NUL")
def _():
    return Image([headers(("PaxHeaders", {156: b"x"}, pax([(b"path", b"a\0b")])), ("x", {}, b""))])


@fails("no-name-of-a-whiteout", "impossible name")
def _():
    return layers(lambda layer: layer.file(".wh."))


@fails("a-whiteout-of-the-parent", "impossible name")
def _():
    return layers(lambda layer: layer.file("a/.wh..."))


# Hard links

@fails("a-hard-link-outside", "does not exist")
def _():
    return layers(lambda layer: layer.hardlink("x", "../../../../etc/passwd"))


@fails("a-hard-link-to-itself", "does not exist")
def _():
    return layers(lambda layer: layer.hardlink("x", "x"))


@fails("a-hard-link-to-a-directory", "to the directory")
def _():
    return layers(lambda layer: layer.directory("d").hardlink("x", "d"))


@fails("a-hard-link-to-a-later-entry", "does not exist")
def _():
    return layers(lambda layer: layer.hardlink("x", "y").file("y", "1"))


@gives("a-hard-link-to-a-symlink", {"s": "-> /etc/passwd", "x": "-> /etc/passwd"})
def _():
    return layers(lambda layer: layer.symlink("s", "/etc/passwd").hardlink("x", "s"))


@gives("a-hard-link-to-what-an-upper-layer-hides", {"b": "content"})
def _():
    return layers(lambda layer: layer.file("a", "content").hardlink("b", "a"), lambda layer: layer.file(".wh.a"))


# Several entries for one name

@gives("whiteouts-before-and-after-siblings", {"d": "/", "d/new": "1"})
def _():
    return layers(lambda layer: layer.directory("d").file("d/old", "0").file("d/older", "0"),
                  lambda layer: layer.file("d/.wh.old").file("d/new", "1").file("d/.wh.older"))


@gives("an-opaque-mark-behind-the-children", {"d": "/", "d/new": "1"})
def _():
    return layers(lambda layer: layer.directory("d").file("d/old", "0"), lambda layer: layer.file("d/new", "1").file("d/.wh..wh..opq"))


@gives("a-whiteout-of-nothing", {"a": "1"})
def _():
    return layers(lambda layer: layer.file("a", "1").file("b/.wh.nothing").file(".wh.a/b/c", "x"))


@gives("a-directory-where-a-file-was", {"a": "/", "a/b": "1"})
def _():
    return layers(lambda layer: layer.file("a", "file").file("a/b", "1"))


@gives("changes-of-type-across-layers", {"a": "file", "b": "/", "b/x": "1", "c": "-> a"})
def _():
    return layers(lambda layer: layer.directory("a").file("a/x", "0").file("b", "0").file("c", "0"),
                  lambda layer: layer.file("a", "file").directory("b").file("b/x", "1").symlink("c", "a"))


@gives("the-last-of-several-entries", {"a": "3"})
def _():
    return layers(lambda layer: layer.file("a", "1").file("a", "2").file("a", "3"))


# Kinds and attributes

@gives("devices-and-set-id-bits-that-are-only-recorded", {"null": None, "sda": None, "su": "x"})
def _():
    return layers(lambda layer: layer.add("null", tarfile.CHRTYPE, devmajor=1, devminor=3).add("sda", tarfile.BLKTYPE, devmajor=8)
                  .file("su", "x", mode=0o6755))


@fails("a-device-number-out-of-range", "out of range")
def _():
    return Image([headers(("x", {156: b"3", 329: b"7777777\0"}, b""))])


@fails("a-member-of-unknown-type", "unsupported type")
def _():
    return Image([headers(("x", {156: b"Z"}, b""))])


@gives("binary-attributes", {"x": ""})
def _():
    return layers(lambda layer: layer.file("x", pax_headers={"SCHILY.xattr.user.a": "\x01\x02\n"}))


@fails("an-attribute-of-65-kib", "no filesystem can hold")
def _():
    return layers(lambda layer: layer.file("x", pax_headers={"SCHILY.xattr.user.a": "v" * 66000}))


@fails("attributes-that-fill-the-memory", "take more than")
def _():
    return layers(lambda layer: [layer.file(f"x{i}", pax_headers={"SCHILY.xattr.user.a": f"{i:065000d}"}) for i in range(2100)])


@gives("negative-and-huge-times-and-ids", {"old": "", "new": "", "id": ""})
def _():
    return layers(lambda layer: layer.file("old", mtime=-5e9).file("new", mtime=1e15).file("id", uid=2**60, gid=2**60))


@fails("an-extended-header-of-3-mib", "extended header")
def _():
    return Image([headers(("PaxHeaders", {156: b"x"}, pax([(b"comment", b"c" * (3 << 20))])), ("x", {}, b""))])


@gives("global-headers-that-mean-nothing", {"x": "1"})
def _():
    return Image([headers(("g", {156: b"g"}, pax([(b"path", b"/etc/passwd"), (b"size", b"999")])), ("x", {}, b"1"))])


@fails("a-malformed-extended-header", "pax record")
def _():
    return Image([headers(("PaxHeaders", {156: b"x"}, b"99999999999999999999 path=x\n"), ("x", {}, b""))])


# Sizes

def sparse(size):
    records = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"x"), (b"GNU.sparse.realsize", b"%d" % size)]
    return Image([headers(("PaxHeaders", {156: b"x"}, pax(records)), ("x", {}, b"1\n0\n0\n".ljust(512, b"\0")))])


@fails("a-hole-of-an-exbibyte", "unpack to more than")
def _():
    return sparse(1 << 60)


@gives("a-hole-of-a-gibibyte", None)
def _():
    return sparse(1 << 30)


@fails("a-sparse-map-that-goes-back", "inconsistent")
def _():
    records = [(b"GNU.sparse.size", b"4096"), (b"GNU.sparse.map", b"512,512,0,512")]
    return Image([headers(("PaxHeaders", {156: b"x"}, pax(records)), ("x", {}, b"a" * 1024))])


def zeros(size):
    """A file of `size` zeros in a thousandth of it: gzip members of equal content, one behind the other."""
    piece = 1 << 26
    tar_digest = hashlib.sha256()
    head = tarfile.TarInfo("zeros")
    head.size = size
    parts = [head.tobuf(tarfile.GNU_FORMAT)] + [bytes(piece)] * (size // piece) + [bytes(1024)]
    packed = gzip.compress(bytes(piece), 9, mtime=0)
    blob = b""
    for part in parts:
        tar_digest.update(part)
        blob += packed if len(part) == piece else gzip.compress(part, mtime=0)
    image = Image([b""])
    image.configuration["rootfs"]["diff_ids"] = ["sha256:" + tar_digest.hexdigest()]
    image.packed = blob
    return image


@fails("10-gb-of-zeros-in-10-mb-beyond-the-limit", "unpack to more than", "--max-size", "1000000000")
def _():
    return zeros(10 << 30)


@gives("10-gb-of-zeros-in-10-mb", None)
def _():
    return zeros(10 << 30)


@fails("more-entries-than-allowed", "more than 1000 entries", "--max-entries", "1000")
def _():
    return layers(lambda layer: [layer.file(f"f{i}") for i in range(1001)])


# Archives and compression

@gives("no-layers", {})
def _():
    return Image([])


@gives("500-layers", {f"f{i}": str(i) for i in range(500)})
def _():
    return layers(*[lambda layer, i=i: layer.file(f"f{i}", str(i)) for i in range(500)])


@gives("an-empty-layer", {})
def _():
    return Image([b""])


def plain_file():
    return Layer().file("x", b"content" * 1000).bytes()


def packed(blob, content=None):
    image = Image([content if content is not None else plain_file()])
    image.packed = blob
    return image


@fails("a-truncated-archive", "ends too early")
def _():
    return Image([plain_file()[:3000]])


@fails("a-damaged-header", "checksum")
def _():
    return Image([plain_file().replace(b"x\0\0", b"y\0\0", 1)])


@fails("truncated-compression", "end too early")
def _():
    return packed(gzip.compress(plain_file(), mtime=0)[:-20])


@fails("garbage-behind-the-compressed-data", "damaged")
def _():
    return packed(gzip.compress(plain_file(), mtime=0) + b"garbage behind the end")


@fails("another-content-than-the-configuration-says", "does not match diff_id")
def _():
    return packed(gzip.compress(Layer().file("x", "other").bytes(), mtime=0))


@gives("several-gzip-members", {"x": None})
def _():
    content = plain_file()
    return packed(gzip.compress(content[:1000], mtime=0) + gzip.compress(content[1000:], mtime=0))


@gives("a-plain-archive-that-is-declared-as-gzip", {"x": None})
def _():
    return packed(plain_file())


def write(name, directory):
    """Writes one image as an OCI layout. `packed` of an image is what its only layer's blob contains, right or wrong."""
    image = MAKERS[name]()
    if not hasattr(image, "packed"):
        return image.write_oci_layout(directory)
    directory = pathlib.Path(directory)
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data, kind):
        (blobs / digest(data).removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}

    layer = put(image.packed, "layer.v1.tar+gzip")
    config = put(json.dumps(image.configuration).encode(), "config.v1+json")
    manifest = put(json.dumps({"schemaVersion": 2, "config": config, "layers": [layer]}).encode(), "manifest.v1+json")
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return directory


if __name__ == "__main__":
    for case in MAKERS:
        write(case, pathlib.Path(sys.argv[1]) / case)
