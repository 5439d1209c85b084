"""A squash store that an interrupted or older program has left: what is broken is named and mended, and hides nothing else."""

import json
import os
import random
import shutil
import subprocess

import pytest
from helpers.images import Image, Layer, busybox_layer
from helpers.podman_hpc import RUN, podman_hpc  # noqa: F401: a fixture
from test_podman_hpc_store import Store

pytestmark = pytest.mark.asroot

BAD, GOOD = "localhost/bad:latest", "localhost/good:latest"


@pytest.fixture(scope="module")
def sound(podman_hpc, images):  # noqa: F811
    """A squash store with two images over one lowest layer."""
    store = Store(podman_hpc, podman_hpc.directory / "sound")
    for name in ("bad", "good"):
        store("load", "-i", images.archive(Image([busybox_layer(), Layer().file("name", name).bytes()], {"Env": ["PATH=/bin"]}), name))
        store("migrate", name)
    return store


class DamagedStore(Store):
    """A copy of it. Podman's own store of its containers is empty."""

    def file(self, kind):
        return self.directory / f"overlay-{kind}/{kind}.json"

    def record(self, name):
        return next(image for image in self.list("images") if name in image["names"])

    def documents(self, name):
        return self.directory / "overlay-images" / self.record(name)["id"]

    def layer(self, name):
        return self.directory / "overlay" / self.record(name)["layer"]

    def link(self, name):
        return self.directory / "overlay/l" / (self.layer(name) / "link").read_text()

    def squash(self, name):
        link = self.link(name)
        return link.with_name(f"{link.name}.squash")

    def change(self, kind, change):
        records = self.list(kind)
        change(records)
        self.file(kind).write_text(json.dumps(records))

    def elsewhere(self, *words):
        """A command on a node whose user has no images in Podman's own store: its output, and what it warns of."""
        result = subprocess.run(self.podman_hpc.argv(*words), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, cwd="/",
                                env=self.podman_hpc.environment(SQUASH_DIR=self.directory, PODMANHPC_GRAPH_ROOT=self.podman_hpc.directory / "empty"))
        assert result.returncode == 0, result.stderr
        return result.stdout, [line for line in result.stderr.splitlines() if line]

    def doctor(self):
        findings = json.loads(self("doctor", "--json", status=None))
        return [finding for finding in findings if finding["check"] in ("image names", "squashed images") and finding["status"] == "error"]

    def shown(self):
        output, warnings = self.elsewhere("images", "--format", "{{.Repository}}:{{.Tag}}")
        return set(output.split()), warnings


@pytest.fixture
def store(sound):
    directory = sound.directory.with_name(f"damaged-{random.randrange(10**9)}")
    shutil.copytree(sound.directory, directory, symlinks=True)
    for path in (directory, *directory.rglob("*")):
        os.chown(path, *[sound.podman_hpc.user.uid] * 2, follow_symlinks=False)
    yield DamagedStore(sound.podman_hpc, directory)
    shutil.rmtree(directory)


def cut(path, position):
    with open(path, "r+b") as file:
        file.truncate(position)


def of_bad(store):
    """Where the record of the good image ends and that of the bad one has begun, as the lists have the good one first."""
    store.change("images", lambda records: records.sort(key=lambda record: GOOD not in record["names"]))
    return store.file("images").read_text().index('"id"', 10) + 20


def first_of(store, kind, name):
    return next(number for number, record in enumerate(store.list(kind)) if record["id"] == (store.record(name)["id" if kind == "images" else "layer"]))


def with_record(kind, name, **members):
    def change(store):
        number = first_of(store, kind, name)
        store.change(kind, lambda records: records[number].update(members))
    return change


def replaced_by(kind, name, value):
    def change(store):
        number = first_of(store, kind, name)
        store.change(kind, lambda records: records.__setitem__(number, value))
    return change


# What is broken, how, the images that stay usable, and what is said about it. The bad image is never more than not usable.
STATES = [
    ("images cut", lambda store: cut(store.file("images"), of_bad(store)), {GOOD}, "images.json was cut off behind 1 record"),
    ("images cut at once", lambda store: cut(store.file("images"), 5), set(), "images.json was cut off behind 0 records"),
    ("images empty", lambda store: cut(store.file("images"), 0), set(), "images.json is empty"),
    ("images of zeros", lambda store: store.file("images").write_bytes(bytes(4096)), set(), "images.json is not a list"),
    ("images missing", lambda store: store.file("images").unlink(), set(), "images.json is missing"),
    ("image is a number", replaced_by("images", BAD, 7), {GOOD}, "expected an object, found 7"),
    ("image without id", with_record("images", BAD, id=7), {GOOD}, ".id: expected a string, found 7"),
    ("names is a word", with_record("images", BAD, names=BAD), {GOOD}, ".names: expected a list of strings"),
    ("image from never", with_record("images", BAD, created="never"), {GOOD}, ".created: expected a time"),
    ("documents missing", lambda store: shutil.rmtree(store.documents(BAD)), {GOOD}, "is missing"),
    ("manifest missing", lambda store: (store.documents(BAD) / "manifest").unlink(), {GOOD}, "manifest is missing or not complete"),
    ("manifest cut", lambda store: cut(store.documents(BAD) / "manifest", 9), {GOOD}, "manifest is missing or not complete"),
    ("layers cut", lambda store: cut(store.file("layers"), 300), {BAD, GOOD}, "layers.json was cut off behind 0 records (and "),
    ("layers empty", lambda store: cut(store.file("layers"), 0), {BAD, GOOD}, "layers.json is empty (and 2 more)"),
    ("layers missing", lambda store: store.file("layers").unlink(), {BAD, GOOD}, "layers.json is missing (and 2 more)"),
    ("layer is a number", replaced_by("layers", BAD, 7), {BAD, GOOD}, "expected an object, found 7"),
    ("layer of a wrong size", with_record("layers", BAD, **{"diff-size": "7"}), {BAD, GOOD}, "diff-size: expected a number"),
    ("layer record missing", lambda store: store.change("layers", lambda records: records.pop(first_of(store, "layers", BAD))), {BAD, GOOD},
     "layers.json lacks layers of the image"),
    ("layer directory missing", lambda store: shutil.rmtree(store.layer(BAD)), {GOOD}, "is not complete"),
    ("link name missing", lambda store: (store.layer(BAD) / "link").unlink(), {GOOD}, "is not complete"),
    ("link missing", lambda store: store.link(BAD).unlink(), {GOOD}, "is not complete"),
    ("squash missing", lambda store: store.squash(BAD).unlink(), {GOOD}, ".squash is missing or not complete"),
    ("squash empty", lambda store: cut(store.squash(BAD), 0), {GOOD}, ".squash is missing or not complete"),
    ("squash cut", lambda store: cut(store.squash(BAD), 100_000), {GOOD}, ".squash is missing or not complete"),
]


OFTEN = {"images cut", "layers empty", "squash cut"}  # tests/unit/podman_hpc/store has all


@pytest.mark.parametrize("damage, usable, said", [pytest.param(*state[1:], id=state[0], marks=[] if state[0] in OFTEN else [pytest.mark.thorough])
                                                  for state in STATES])
def test_state(store, damage, usable, said):
    damage(store)
    before = {kind: store.file(kind).read_bytes() for kind in ("images", "layers") if store.file(kind).exists()}

    shown, warnings = store.shown()
    assert shown == usable and len(warnings) == 1, warnings
    assert warnings[0].startswith("WARNING: ") and said in warnings[0] and "'podman-hpc migrate " in warnings[0], warnings
    for name in usable:
        output, warnings = store.elsewhere(*RUN, name, "cat", "/name")
        assert output == name.split("/")[1].split(":")[0]
        assert [said in warning for warning in warnings] == [True] * len(warnings) and len(warnings) <= 1, warnings
    findings = store.doctor()
    assert findings and any(said.split(" (and")[0] in finding["message"] for finding in findings), findings
    assert all("podman-hpc migrate " in finding["cure"] for finding in findings)
    assert before == {kind: store.file(kind).read_bytes() for kind in before}  # only `migrate` changes the store

    for name in ("bad", "good"):
        store("migrate", name)
    assert store.elsewhere(*RUN, BAD, "cat", "/name") == ("bad", [])
    assert store.shown() == ({BAD, GOOD}, []) and store.doctor() == []
    store.check()
    for kind, text in before.items():  # nothing is lost
        damaged = any("the squash store is damaged" in finding["message"] and f"{kind}.json" in finding["message"] for finding in findings)
        assert [path.read_bytes() for path in store.directory.glob(f"overlay-{kind}/{kind}.json.damaged-*")] == [text] * damaged


def test_a_command_about_a_broken_image_names_it(store):
    store.squash(BAD).unlink()
    error = store.podman_hpc(*RUN, BAD, "true", status=None, stream="err", SQUASH_DIR=store.directory,
                             PODMANHPC_GRAPH_ROOT=store.podman_hpc.directory / "empty")
    assert error.startswith(f"WARNING: The image {BAD} of the squash store cannot be used: {store.squash(BAD)} is missing or not complete. "
                            f"Mend it with 'podman-hpc migrate {BAD}', or remove it with 'podman-hpc rmsqi {BAD}'\n"), error
    store("rmsqi", "bad")
    assert store.shown() == ({GOOD}, []) and store.doctor() == []


def test_migration_from_a_registry_mends(store, registry):
    reference = registry.push(Image([busybox_layer(), Layer().file("own", os.urandom(9)).bytes()], {}), f"mended{store.podman_hpc.user.uid}:1")
    store("migrate", f"docker://{reference}")
    squash = store.squash(reference)
    before = squash.stat().st_ino
    shutil.rmtree(store.documents(reference))
    result = store("migrate", f"docker://{reference}")
    assert f"INFO: {reference} is mended in {store.directory}\n" in result
    assert squash.stat().st_ino == before  # only what was missing
    store.check()


def test_a_mended_list_keeps_what_the_other_images_need(store):
    """Any migration mends the lists."""
    cut(store.file("layers"), 0)
    error = store("migrate", "good", stream="err")
    assert "layers.json is empty (and 2 more). The list is mended; the old one is kept as " in error
    assert store.shown() == ({BAD, GOOD}, [])
    store.check()
