"""Images for other platforms than this machine's."""

import json
import subprocess

import pytest
from helpers.images import Image, Layer, architecture, digest
from helpers.system import PATH, program
from helpers.terminal import Terminal

FOREIGN = "arm64" if architecture() == "amd64" else "amd64"
# As ordinary images have it: arm64 with its only variant.
PLATFORMS = {"amd64": {"architecture": "amd64"}, "arm64": {"architecture": "arm64", "variant": "v8"}}


def image_of(platform):
    image = Image([Layer().file("platform", platform).bytes()], {"Labels": {"platform": platform}})
    image.configuration["architecture"] = platform
    return image


@pytest.fixture(scope="module")
def layout(workspace):
    """An OCI layout with one index for two platforms."""
    directory = workspace / "two-platforms"
    manifests = []
    for platform in (architecture(), FOREIGN):
        image = image_of(platform)
        image.write_oci_layout(directory)
        entry = json.loads((directory / "index.json").read_text())["manifests"][0]
        entry.pop("annotations")
        manifests.append({**entry, "platform": {"os": "linux", **PLATFORMS[platform]}})
    index = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}).encode()
    (directory / "blobs" / "sha256" / digest(index).removeprefix("sha256:")).write_bytes(index)
    entry = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest(index), "size": len(index),
             "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    subprocess.run(["chmod", "-R", "a+rX", str(directory)], check=True)
    return directory


@pytest.fixture(scope="module")
def reference(layout, registry):
    name = f"{registry.host}/two/platforms:1"
    subprocess.run([program("skopeo"), "copy", "--all", "--quiet", "--insecure-policy", "--dest-tls-verify=false", f"oci:{layout}:latest",
                    f"docker://{name}"], check=True, capture_output=True, env={"PATH": PATH, "HOME": str(layout), "XDG_RUNTIME_DIR": str(layout)})
    return name


def stored_platform(engine, name):
    return json.loads(engine.sarus("inspect", "--json", name).stdout)["labels"]["platform"]


def shown(platform):
    return "/".join(["linux", *PLATFORMS[platform].values()])


def test_pull_takes_the_image_of_the_platform(user_engine, reference):
    for options, expected in [([], architecture()), (["--platform", f"linux/{FOREIGN}"], FOREIGN), ([], architecture())]:
        result = user_engine.sarus("pull", *options, reference)
        assert result.returncode == 0, result.stdout + result.stderr
        assert stored_platform(user_engine, reference) == expected


def test_lists_show_for_which_platform_an_image_is(user_engine, reference):
    """As JSON always, in the table for people where it is not that of this machine."""

    def table():
        argv, identity = user_engine.command("images")
        terminal = Terminal(argv, identity, streams=["stdout"], size=(24, 120), env=user_engine.user.environment(), cwd=user_engine.user.home)
        assert terminal.wait() == 0
        terminal.close()
        return terminal.text

    result = user_engine.sarus("pull", "--platform", f"linux/{FOREIGN}", reference)
    assert f"# platform         : linux/{FOREIGN}\n" in result.stdout, result.stderr
    name = "linux/" + FOREIGN
    for listed in (json.loads(user_engine.sarus("images", "--json", reference).stdout)[0],
                   json.loads(user_engine.sarus("inspect", "--json", reference).stdout)):
        assert listed["platform"] == name
    assert f"Platform:       {name}\n" in user_engine.sarus("inspect", reference).stdout
    assert "PLATFORM" in table() and name in table()
    # The index is made again from the images' own files.
    (user_engine.user.home / ".sarus/metadata.json").write_text("")
    assert json.loads(user_engine.sarus("images", "--json", reference).stdout)[0]["platform"] == name
    result = user_engine.sarus("pull", reference)
    assert "# platform" not in result.stdout
    assert json.loads(user_engine.sarus("images", "--json", reference).stdout)[0]["platform"] == f"linux/{architecture()}"
    assert "PLATFORM" not in table()


def test_load_takes_the_image_of_the_platform(user_engine, layout):
    for options, expected in [(["--platform", f"linux/{FOREIGN}"], FOREIGN), ([], architecture())]:
        result = user_engine.sarus("load", *options, layout, "platforms")
        assert result.returncode == 0, result.stdout + result.stderr
        assert stored_platform(user_engine, "load/library/platforms") == expected


def test_a_platform_that_the_image_lacks_is_named(user_engine, reference):
    result = user_engine.sarus("pull", "--platform", "linux/s390x", reference)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"Failed to pull image '{reference}'",
        f"The image does not exist for the platform (linux/s390x), only for: {shown(architecture())}, {shown(FOREIGN)}"]


def test_an_image_of_another_platform_is_refused(user_engine, images):
    archive = images.archive(image_of(FOREIGN), "foreign")
    result = user_engine.sarus("load", "--platform", f"linux/{architecture()}", archive, "foreign")
    assert result.returncode == 1
    assert user_engine.sarus("inspect", "--type=image", "load/library/foreign").returncode == 1


@pytest.mark.parametrize("text", ["linux", "linux/", "Linux/amd64", "linux/arm/v7/x"])
def test_a_malformed_platform_is_refused_before_anything_is_done(user_engine, reference, text):
    result = user_engine.sarus("pull", "--platform", text, reference)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [f"Invalid platform '{text}'", "Write it like linux/arm64 or linux/arm/v7"]
