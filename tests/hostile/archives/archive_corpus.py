"""Image archives that no well-meaning tool makes, or that few do. Each is a file named by what must happen to it:

should-fail-<case>   the conversion refuses it, with the message that MESSAGES names
should-load-<case>   the conversion gives an image with the file /is that the maker put there

`python3 archive_corpus.py DIRECTORY` writes them, to look at them or to feed them to other programs.
"""

import gzip
import io
import json
import os
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/lib"))
from oci_image import Image, Layer, digest  # noqa: E402

MESSAGES, MAKERS, OPTIONS = {}, {}, {}


def fails(name, message, *options):
    def register(maker):
        MAKERS["should-fail-" + name], MESSAGES["should-fail-" + name], OPTIONS["should-fail-" + name] = maker, message, options
        return maker
    return register


def loads(name, *options):
    def register(maker):
        MAKERS["should-load-" + name], OPTIONS["should-load-" + name] = maker, options
        return maker
    return register


def image(content="it", compress=True):
    return Image([Layer().file("is", content).bytes()], compress=compress)


def dump(value):
    return json.dumps(value).encode()


def docker_members(*images, names=None):
    """{name: content} of an archive of docker save."""
    members, items = {}, []
    for number, one in enumerate(images):
        config = dump(one.configuration)
        members[digest(config)[7:] + ".json"] = config
        layers = []
        for layer in one.layers:
            layers.append(digest(layer)[7:] + "/layer.tar")
            members[layers[-1]] = layer
        items.append({"Config": digest(config)[7:] + ".json", "RepoTags": (names or ["tool:1"])[number:number + 1] or None, "Layers": layers})
    members["manifest.json"] = dump(items)
    return members


def oci_members(one, name="tool:1"):
    manifest, blobs = one._blobs()
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
             "annotations": {"org.opencontainers.image.ref.name": name}}
    members = {"blobs/sha256/" + name[7:]: data for name, data in blobs.items()}
    return {**members, "oci-layout": dump({"imageLayoutVersion": "1.0.0"}), "index.json": dump({"schemaVersion": 2, "manifests": [entry]})}


class Tar:
    """An archive of anything, without entries for directories."""

    def __init__(self, members=None, format=tarfile.PAX_FORMAT):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.buffer, mode="w", format=format)
        for name, data in (members or {}).items():
            self.add(name, data)

    def add(self, name, data=b"", type=tarfile.REGTYPE, **attributes):
        info = tarfile.TarInfo(name)
        info.type, info.size = type, len(data)
        for key, value in attributes.items():
            setattr(info, key, value)
        self.tar.addfile(info, io.BytesIO(data))
        return self

    def link(self, name, target, type=tarfile.SYMTYPE):
        return self.add(name, type=type, linkname=target)

    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()


KINDS = {"docker": lambda: docker_members(image()), "oci": lambda: oci_members(image())}


# What leads out of the archive is not followed, and nothing is written beside the output

for kind, members in KINDS.items():
    @loads(f"{kind}-with-members-below-a-link-to-elsewhere")
    def _(outside, members=members):
        return Tar(members()).link("x", str(outside)).add("x/.profile", b"evil").link("blobs/x", str(outside)).add("blobs/x/y", b"evil").bytes()

    @loads(f"{kind}-behind-a-link-to-elsewhere")
    def _(outside, members=members):
        tar = Tar().link("x", str(outside)).add("x/.profile", b"evil", mode=0o4755)
        for name, data in members().items():
            tar.add(name, data)
        return tar.bytes()

    @loads(f"{kind}-with-names-that-climb-and-are-absolute")
    def _(outside, members=members):
        return Tar(members()).add("../" * 40 + str(outside) + "/climbed", b"evil").add(f"{outside}/absolute", b"evil").bytes()

    @loads(f"{kind}-with-devices-and-fifos")
    def _(outside, members=members):
        tar = Tar(members()).add("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3).add("fifo", type=tarfile.FIFOTYPE)
        return tar.add("directory", type=tarfile.DIRTYPE).bytes()

    @loads(f"{kind}-with-names-that-begin-with-a-dot")
    def _(outside, members=members):
        return Tar({"./" + name: data for name, data in members().items()}).bytes()

    @loads(f"{kind}-with-times-that-no-filesystem-has")
    def _(outside, members=members):
        tar = Tar()
        for name, data in members().items():
            tar.add(name, data, mtime=1e11, pax_headers={"mtime": "1" + "0" * 30})
        return tar.bytes()

    @loads(f"{kind}-with-other-members-twice")
    def _(outside, members=members):
        return Tar(members()).add("x", b"1").add("x", b"2").bytes()

    @fails(f"{kind}-that-is-cut-off", "ends too early")
    def _(outside, members=members):
        return Tar(members()).add("last", bytes(9000)).bytes()[:-20000]

    @fails(f"{kind}-with-too-many-members", "more than 100000 members")
    def _(outside, members=members):
        header = tarfile.TarInfo("x" * 20).tobuf(tarfile.USTAR_FORMAT)
        archive = bytearray()
        for number in range(100001):
            block = bytearray(header)
            block[0:6] = b"%06d" % number
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
            archive += block
        return bytes(archive) + Tar(members()).bytes()


def replaced(members, name, data):
    return Tar({**members, name: data}).bytes()


# Archives of docker save

@loads("docker-layers-that-are-links-to-other-members")
def _(outside):
    one = Image([Layer().file("is", "it").bytes(), Layer().file("other", "").bytes(), Layer().file("is", "it").bytes()])
    members = docker_members(one)
    item = json.loads(members["manifest.json"])[0]
    first, item["Layers"][2] = item["Layers"][0], "again/layer.tar"
    item["Layers"][0] = "hard.tar"
    tar = Tar({**members, "manifest.json": dump([item])})
    return tar.link("again/layer.tar", "../" + first).link("hard.tar", first, tarfile.LNKTYPE).bytes()


@fails("docker-layer-that-is-a-link-to-elsewhere", "leads out of the archive")
def _(outside):
    one = image()
    (outside / "layer.tar").write_bytes(one.layers[0])
    members = docker_members(one)
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    del members[layer]
    return Tar(members).link(layer, f"{outside}/layer.tar").bytes()


@fails("docker-layer-that-is-a-relative-link-to-elsewhere", "leads out of the archive")
def _(outside):
    one = image()
    (outside / "layer.tar").write_bytes(one.layers[0])
    members = docker_members(one)
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    del members[layer]
    return Tar(members).link(layer, "../" * 40 + f"{outside}/layer.tar").bytes()


@fails("docker-layer-that-is-a-link-to-itself", "have no end")
def _(outside):
    members = docker_members(image())
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    del members[layer]
    return Tar(members).link(layer, "layer.tar").bytes()


@fails("docker-layer-that-is-missing", "has no member")
def _(outside):
    members = docker_members(image())
    del members[json.loads(members["manifest.json"])[0]["Layers"][0]]
    return Tar(members).bytes()


@fails("docker-layer-that-is-a-directory", "has no member")
def _(outside):
    members = docker_members(image())
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    del members[layer]
    return Tar(members).add(layer, type=tarfile.DIRTYPE).bytes()


@fails("docker-layer-twice", "twice")
def _(outside):
    members = docker_members(image())
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    return Tar(members).add(layer, members[layer]).bytes()


@fails("docker-manifest-twice", "member 'manifest.json' twice")
def _(outside):
    return Tar(docker_members(image())).add("manifest.json", docker_members(image("other"))["manifest.json"]).bytes()


@fails("docker-layer-of-another-content", "does not match diff_id")
def _(outside):
    members = docker_members(image())
    return replaced(members, json.loads(members["manifest.json"])[0]["Layers"][0], Layer().file("is", "evil").bytes())


@fails("docker-configuration-of-another-content", "does not match its digest")
def _(outside):
    members = docker_members(image())
    return replaced(members, json.loads(members["manifest.json"])[0]["Config"], dump(image("other").configuration))


@fails("docker-configuration-elsewhere", "has no member")
def _(outside):
    (outside / "config.json").write_bytes(dump(image().configuration))
    members = docker_members(image())
    item = json.loads(members["manifest.json"])[0]
    return replaced(members, "manifest.json", dump([{**item, "Config": f"{outside}/config.json"}]))


@fails("docker-with-fewer-layers-than-its-configuration", "has 0 layers, but its configuration names 1")
def _(outside):
    members = docker_members(image())
    item = json.loads(members["manifest.json"])[0]
    return replaced(members, "manifest.json", dump([{**item, "Layers": []}]))


for number, text in enumerate([b"", b"{}", b"[]", b"[7]", b"[{}]", b'[{"Config":"x","Layers":7}]', b'[{"Config":"x","Layers":[7]}]', b"[" * 2_000_000]):
    @fails(f"docker-manifest-that-is-none-{number}", "manifest.json" if number != 5 and number != 6 else "Layers")
    def _(outside, text=text):
        return replaced(docker_members(image()), "manifest.json", text)


@loads("docker-layers-that-are-compressed")
def _(outside):
    members = docker_members(image())
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    return replaced(members, layer, gzip.compress(members[layer]))


@loads("docker-and-oci-at-once")
def _(outside):
    return Tar({**oci_members(image("other")), **docker_members(image())}).bytes()


@fails("docker-of-several-images", "several images: one:1, two:1")
def _(outside):
    return Tar(docker_members(image("1"), image("2"), names=["one:1", "two:1"])).bytes()


@loads("docker-of-several-images-by-name", "--name", "load/library/one:1")
def _(outside):
    return Tar(docker_members(image("2"), image(), names=["docker.io/library/two:1", "docker.io/library/one:1"])).bytes()


@loads("docker-of-several-images-by-platform", "--platform", "linux/s390x")
def _(outside):
    other = image()
    other.configuration["architecture"] = "s390x"
    return Tar(docker_members(image("2"), other, names=["one:1", "one:1"])).bytes()


@loads("docker-of-one-image-with-two-names")
def _(outside):
    return Tar(docker_members(image(), image(), names=["one:1", "two:1"])).bytes()


# OCI archives

def oci_with_manifest(change):
    """An archive whose manifest was changed before its digest was taken."""
    one = image()
    manifest, blobs = one._blobs()
    del blobs[digest(manifest)]
    altered = json.loads(manifest)
    change(altered)
    altered = dump(altered)
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest(altered), "size": len(altered)}
    return {**{"blobs/sha256/" + name[7:]: data for name, data in blobs.items()}, "blobs/sha256/" + digest(altered)[7:]: altered,
            "oci-layout": b"{}", "index.json": dump({"schemaVersion": 2, "manifests": [entry]})}


def add_to_size(descriptor):
    descriptor["size"] += 1


@fails("oci-layer-of-another-size", "but its manifest says")
def _(outside):
    return Tar(oci_with_manifest(lambda manifest: add_to_size(manifest["layers"][0]))).bytes()


@fails("oci-configuration-of-another-size", "does not match its digest and size")
def _(outside):
    return Tar(oci_with_manifest(lambda manifest: add_to_size(manifest["config"]))).bytes()


@fails("oci-manifest-of-another-size", "does not match its digest and size")
def _(outside):
    members = oci_members(image())
    index = json.loads(members["index.json"])
    add_to_size(index["manifests"][0])
    return replaced(members, "index.json", dump(index))


@fails("oci-layer-of-another-content", "does not match its digest")
def _(outside):
    one = image(compress=False)
    return replaced(oci_members(one), "blobs/sha256/" + digest(one.layers[0])[7:], Layer().file("is", "no").bytes())


@fails("oci-digest-that-climbs", "Invalid digest")
def _(outside):
    members = oci_members(image())
    index = json.loads(members["index.json"])
    index["manifests"][0]["digest"] = "sha256:../../" + "0" * 58
    return replaced(members, "index.json", dump(index))


@fails("oci-of-several-images", "several images: one:1, two:1")
def _(outside):
    first, second = oci_members(image("1"), "one:1"), oci_members(image("2"), "two:1")
    entries = [json.loads(members["index.json"])["manifests"][0] for members in (first, second)]
    return Tar({**first, **second, "index.json": dump({"schemaVersion": 2, "manifests": entries})}).bytes()


@loads("oci-of-several-images-by-name", "--name", "load/library/tool:two")
def _(outside):
    first, second = oci_members(image("1"), "one"), oci_members(image(), "two")
    entries = [json.loads(members["index.json"])["manifests"][0] for members in (first, second)]
    return Tar({**first, **second, "index.json": dump({"schemaVersion": 2, "manifests": entries})}).bytes()


@loads("oci-blobs-that-are-linked-to-other-members")
def _(outside):
    members = oci_members(image())
    tar = Tar()
    for number, (name, data) in enumerate(members.items()):
        if name.startswith("blobs/"):
            tar.add(f"other/{number}", data).link(name, f"../../other/{number}")
        else:
            tar.add(name, data)
    return tar.bytes()


# A layer in zstd whose first frame is one to be skipped, as seekable layers have it

@loads("docker-layer-that-begins-with-a-skippable-frame")
def _(outside):
    members = docker_members(image())
    layer = json.loads(members["manifest.json"])[0]["Layers"][0]
    data = members[layer]
    frame = b"\x5e\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip"
    # One frame of raw blocks, of at most 128 KiB each: no compressor is needed to write it.
    blocks = b"".join(((len(part) << 3) | (place + len(part) == len(data))).to_bytes(3, "little") + part
                      for place in range(0, len(data), 65536) for part in [data[place:place + 65536]])
    packed = frame + b"\x28\xb5\x2f\xfd" + b"\xa0" + len(data).to_bytes(4, "little") + blocks
    return replaced(members, layer, packed)


# What is large

@fails("oci-index-of-300-megabytes", '"index.json" has 300.00MB; the limit is 4.00MB')
def _(outside):
    return large("index.json", oci_members(image()))


@fails("docker-manifest-of-300-megabytes", '"manifest.json" has 300.00MB; the limit is 4.00MB')
def _(outside):
    return large("manifest.json", docker_members(image()))


def large(name, members):
    """An archive whose member has 300 MB of zeros, which the file does not store: (bytes in front, zeros, bytes behind)."""
    del members[name]
    size = 300 << 20
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT), size, Tar(members).bytes()


@fails("empty", "is empty")
def _(outside):
    return b""


@fails("text", "no image archive")
def _(outside):
    return b"x" * 5000


@fails("tar-of-something-else", "neither manifest.json nor index.json")
def _(outside):
    return Tar({"a": b"b"}).bytes()


@fails("archive-of-a-sparse-index", "as a sparse file")
def _(outside):
    members = oci_members(image())
    index = members.pop("index.json")
    return Tar(members).add("index.json", index, pax_headers={"GNU.sparse.map": f"0,{len(index)}", "GNU.sparse.size": "4096"}).bytes()


def write(case, directory):
    """Writes the archive and returns its path; `directory`/outside is what it tries to reach."""
    outside = directory / "outside"
    outside.mkdir(parents=True)
    made = MAKERS[case](outside)
    path = directory / (case + ".tar")
    with open(path, "wb") as file:
        if isinstance(made, tuple):
            front, zeros, behind = made
            file.write(front)
            file.seek(zeros, os.SEEK_CUR)
            file.write(behind)
        else:
            file.write(made)
    return path


if __name__ == "__main__":
    for name in MAKERS:
        write(name, pathlib.Path(sys.argv[1]) / name)
