"""`sarus tag`: further names for a stored image."""

import json
import os

import pytest


@pytest.fixture
def source(user_engine, load_image, plain_busybox):
    return load_image(user_engine, "tagged", plain_busybox)


def stored(engine):
    return {image["reference"]: image["path"] for image in json.loads(engine.sarus("images", "--json").stdout)}


def test_both_names_run_and_share_one_file(user_engine, source):
    result = user_engine.sarus("tag", source, "Example.org/tools/copy:2".lower())
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"tagged image {source}:latest as example.org/tools/copy:2\n"
    assert user_engine.output("example.org/tools/copy:2", "echo", "ran") == "ran"
    files = stored(user_engine)
    assert os.stat(files["example.org/tools/copy:2"]).st_ino == os.stat(files[f"{source}:latest"]).st_ino
    assert user_engine.sarus("rmi", "example.org/tools/copy:2").returncode == 0
    assert user_engine.output(source, "echo", "still") == "still"


def test_verification_knows_the_digest_of_the_new_name(user_engine, source):
    user_engine.sarus("tag", source, "copy:verified")
    assert "docker.io/library/copy:verified: intact" in user_engine.sarus("images", "--verify").stdout
    user_engine.sarus("rmi", "copy:verified")


@pytest.mark.parametrize("arguments, message", [
    (["nothing:1", "x:1"], "Image index.docker.io/library/nothing:1 is not available"),
    (["tagged", "X:1"], "Invalid image reference 'X:1'"),
    (["../../etc", "x:1"], "Invalid image reference '../../etc'"),
    (["tagged", "x@sha256:" + "0" * 64], "Cannot tag an image as 'docker.io/library/x@sha256:" + "0" * 64 + "': a digest is no name that can be given"),
])
def test_what_cannot_be_tagged_is_named_and_nothing_changes(user_engine, source, arguments, message):
    before = stored(user_engine)
    result = user_engine.sarus("tag", *[source if word == "tagged" else word for word in arguments])
    assert result.returncode == 1
    assert message in result.stderr.splitlines()
    assert stored(user_engine) == before
