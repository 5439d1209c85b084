"""What registries, their token servers and others on the way answer when something is wrong, and what a pull says then."""

import json
import os

import pytest
from helpers.faulty_registry import FaultyRegistry
from helpers.images import Image, Layer, architecture, busybox_layer, digest
from helpers.registry import allow_plain_http

PAGE = "<html><head><title>Sign in</title></head><body>Please sign in</body></html>"
PLACES = ["ping", "token", "manifests", "blobs"]
PRIVATE = ["The image may be private or not present in the remote registry.", "Did you perform a login with the proper credentials?",
           "See 'sarus help pull' (--login option)"]
LOGIN_RAN_OUT = "The registry refused to send a layer, although it had sent the manifest: a login may have run out. Try again."
NO_REGISTRY = "The answer does not come from a container registry: a login portal, a proxy or another web server answers for '{host}'. " \
    "Check the server's name and the proxy settings (HTTPS_PROXY, NO_PROXY)."


def error(code, text):
    return json.dumps({"errors": [{"code": code, "message": text}]})


@pytest.fixture(scope="module")
def two_layers():
    return Image([busybox_layer(), Layer().file("variant", "answers").file("noise", os.urandom(2 << 20)).bytes()],
                 {"Env": ["PATH=/bin"]})


@pytest.fixture(scope="module")
def skopeo_path():
    """The keys of sarus.json that choose another skopeo."""
    return {}


@pytest.fixture(scope="module")
def hasty(make_any_prefix, any_engine, skopeo_path):
    """An engine that waits for registries for four seconds altogether."""
    return any_engine.variant(prefix=make_any_prefix("hasty", registryTimings={"warningMs": 4000, "timeoutMs": 4000}, **skopeo_path))


@pytest.fixture
def registry(two_layers, tmp_path, user, hasty):
    server = FaultyRegistry(two_layers, tmp_path / "layout")
    file = allow_plain_http(user, server)
    yield server
    server.stop()
    file.unlink()
    hasty.sarus("rmi", server.reference)
    hasty.sarus("prune")


def check_failure(engine, registry, *reasons):
    """Pulling fails with these lines, and nothing is stored."""
    result = engine.sarus("pull", registry.reference)
    assert result.returncode == 1
    headline, *lines = result.stderr.splitlines()
    assert headline == f"Failed to pull image '{registry.reference}'"
    assert [line for line in lines if line != "Error reading manifest from registry."] == list(reasons)
    assert registry.host not in engine.sarus("images").stdout


def check_success(engine, registry):
    result = engine.sarus("pull", registry.reference)
    assert (result.returncode, result.stderr) == (0, "")
    assert engine.output(registry.reference, "cat", "/variant") == "answers"


REFUSALS = {
    "ghcr.io": (403, error("DENIED", "denied")),
    "gitlab": (403, error("DENIED", "access forbidden")),
    "docker.io": (401, error("UNAUTHORIZED", "authentication required")),
    "other-words": (401, error("UNAUTHORIZED", "The access token is invalid or has expired")),
    "nothing": (403, ""),
}


# 401 in answer to "ping" is how a registry asks for a token.
@pytest.mark.parametrize("place,name", [(place, name) for place in PLACES for name in REFUSALS if (place, REFUSALS[name][0]) != ("ping", 401)])
def test_a_refusal_in_any_words_suggests_a_login(hasty, registry, place, name):
    status, text = REFUSALS[name]
    registry.answer(place, status, text, Content_Type="application/json")
    check_failure(hasty, registry, *([LOGIN_RAN_OUT] if place == "blobs" else PRIVATE))


def test_a_refusal_with_an_unknown_code_is_quoted(hasty, registry):
    registry.answer("manifests", 403, error("QUARANTINED", "this image has not been scanned"), Content_Type="application/json")
    check_failure(hasty, registry, *PRIVATE, "The registry says: this image has not been scanned")


def test_a_token_that_is_refused_after_the_manifest_is_a_login_that_ran_out(hasty, registry):
    registry.answer("blobs", 401, error("UNAUTHORIZED", "authentication required"), Content_Type="application/json",
                    WWW_Authenticate=f'Bearer realm="http://{registry.host}/token",service="x",scope="repository:library/faulty:pull"')
    registry.answer("token", 401, error("UNAUTHORIZED", "token expired"), Content_Type="application/json")
    registry.needs_token = lambda: False
    check_failure(hasty, registry, LOGIN_RAN_OUT)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_failure_that_passes_is_survived(hasty, registry, place, status):
    registry.answer(place, status, PAGE, times=2, Content_Type="text/html", Retry_After="1")
    check_success(hasty, registry)


STATUS_TEXTS = {500: "Internal Server Error", 502: "Bad Gateway", 504: "Gateway Timeout"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_failure_that_stays_is_one_line(hasty, registry, place, status):
    registry.answer(place, status, PAGE, Content_Type="text/html", Retry_After="0")
    sender = "The registry's token server" if place == "token" else "The registry"
    check_failure(hasty, registry,
                  "The registry refuses more requests for some time. A login may raise the limit (--login option)." if status == 429
                  else f"{sender} is overloaded or under maintenance (503 Service Unavailable). Try again later." if status == 503
                  else f"{sender} failed: {status} ({STATUS_TEXTS[status]}). Try again later.")


@pytest.mark.parametrize("place", ["ping", "manifests", "blobs"])
def test_a_long_pause_that_a_registry_asks_for_is_said_at_once(make_any_prefix, any_engine, skopeo_path, registry, place):
    registry.answer(place, 429, error("TOOMANYREQUESTS", "pull rate limit"), Content_Type="application/json", Retry_After="3600")
    patient = any_engine.variant(prefix=make_any_prefix("patient", **skopeo_path))
    check_failure(patient, registry,
                  f"The registry '{registry.host}' refuses more requests for the next 3600 s. A login may raise the limit.")


@pytest.mark.parametrize("place,status,page", [
    ("token", 200, PAGE), ("token", 200, ""), ("manifests", 200, PAGE), ("manifests", 200, ""), ("manifests", 200, "<!DOCTYPE html>\n" + PAGE),
    ("manifests", 404, PAGE), ("ping", 404, PAGE)])
def test_an_answer_that_is_no_registrys_says_so(hasty, registry, place, status, page):
    registry.answer(place, status, page, Content_Type="text/html")
    check_failure(hasty, registry, NO_REGISTRY.format(host=registry.host))


@pytest.mark.parametrize("enforced", [False, True], ids=["proxy", "copy"])
def test_a_connection_that_is_cut_once_is_tried_again(make_any_prefix, any_engine, skopeo_path, registry, workspace, enforced):
    policy = workspace / "answers-policy.json"
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}],
                                  "transports": {"docker": {"elsewhere.example": [{"type": "reject"}]}} if enforced else {}}))
    engine = any_engine.variant(prefix=make_any_prefix(f"cut-{enforced}", containersPolicy={"path": str(policy), "enforce": True}, **skopeo_path))
    registry.fault = "cut-once"
    check_success(engine, registry)


def test_the_file_of_the_signature_policy_that_refuses_is_named(make_any_prefix, any_engine, skopeo_path, registry, workspace):
    policy = workspace / "answers-reject.json"
    policy.write_text(json.dumps({"default": [{"type": "reject"}]}))
    engine = any_engine.variant(prefix=make_any_prefix("reject", containersPolicy={"path": str(policy), "enforce": True}, **skopeo_path))
    check_failure(engine, registry, f"The signature policy {policy} does not accept this image.")


def test_a_credential_helper_that_is_missing_is_named(hasty, registry, user):
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text(json.dumps({"credHelpers": {registry.host: "absent"}}))
        user.own(file)
        check_failure(hasty, registry, "The credential helper 'docker-credential-absent' is not installed, or not in PATH. Install it, or remove it from "
                      "credHelpers and credsStore in your credential files (~/.docker/config.json).")
    finally:
        file.unlink()
        file.parent.rmdir()


# What the registry has


IMAGE, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"


def serve(registry, manifest, media=IMAGE):
    """The registry's tag leads to this manifest, whatever its digest is."""
    content = json.dumps(manifest).encode()
    registry.manifest = registry.blobs[digest(content)[7:]] = content
    registry.answer("manifests", 200, content, Content_Type=media)
    return {"digest": digest(content), "size": len(content)}


def described(registry, content, media):
    registry.blobs[digest(content)[7:]] = content
    return {"mediaType": media, "digest": digest(content), "size": len(content)}


ARTIFACTS = {
    "application/x.model": {"artifactType": "application/x.model", "config": "application/vnd.oci.empty.v1+json"},
    "application/vnd.cncf.helm.config.v1+json": {"config": "application/vnd.cncf.helm.config.v1+json"},
    "application/vnd.sylabs.sif.layer.v1.sif": {"config": "application/vnd.oci.image.config.v1+json", "layer": "application/vnd.sylabs.sif.layer.v1.sif"},
}
NO_IMAGE = ["This is no container image but '{}'",
            "Sarus takes container images only. Get other artifacts with a program for their type, such as oras"]


@pytest.mark.parametrize("kind", ARTIFACTS)
def test_an_artifact_is_named_by_its_type(hasty, registry, kind):
    made = dict(ARTIFACTS[kind])
    config, layer = described(registry, b"{}", made.pop("config")), described(registry, b"data", made.pop("layer", "application/x.weights"))
    serve(registry, {"schemaVersion": 2, "mediaType": IMAGE, **made, "config": config, "layers": [layer]})
    check_failure(hasty, registry, NO_IMAGE[0].format(kind), NO_IMAGE[1])
    assert registry.blob_requests() == []


def test_a_manifest_of_another_type_is_named(hasty, registry):
    kind = "application/vnd.oci.artifact.manifest.v1+json"
    serve(registry, {"mediaType": kind, "artifactType": "application/x.model", "blobs": []}, kind)
    check_failure(hasty, registry, NO_IMAGE[0].format(kind), NO_IMAGE[1])


def bare_image(registry, **config):
    """The members of an image that the specification requires, and no other."""
    layer = busybox_layer(extra=lambda files: files.file("variant", "answers"))
    configuration = {"architecture": architecture(), "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}, **config}
    return {"schemaVersion": 2, "config": described(registry, json.dumps(configuration).encode(), "application/vnd.oci.image.config.v1+json"),
            "layers": [described(registry, layer, "application/vnd.oci.image.layer.v1.tar")]}


@pytest.mark.parametrize("fields", ["none", "null"])
def test_a_manifest_without_optional_members_is_read(hasty, registry, fields):
    more = {"config": None, "history": None, "created": None, "author": None} if fields == "null" else {}
    manifest = bare_image(registry, **more)
    serve(registry, {**manifest, **({"annotations": None} if fields == "null" else {})})
    check_runs(hasty, registry)


@pytest.mark.parametrize("kind", ["absent", "null"])
def test_an_index_without_optional_members_is_read(hasty, registry, kind):
    entry = serve(registry, {**bare_image(registry), "mediaType": IMAGE})
    registry.answer_as_usual()
    serve_index(registry, {"schemaVersion": 2, "manifests": [{"mediaType": IMAGE, **entry, **({"platform": None, "annotations": None} if kind == "null" else {})}]})
    check_runs(hasty, registry)


def serve_index(registry, index):
    registry.manifest = json.dumps(index).encode()
    registry.blobs[digest(registry.manifest)[7:]] = registry.manifest
    registry.manifest_type = INDEX


def check_runs(engine, registry):
    result = engine.sarus("pull", registry.reference)
    assert (result.returncode, result.stderr) == (0, "")
    assert engine.output(registry.reference, "/bin/busybox", "cat", "/variant") == "answers"


def test_an_image_for_another_architecture_is_named(hasty, registry):
    other = "arm64" if architecture() == "amd64" else "amd64"
    serve(registry, bare_image(registry, architecture=other))
    result = hasty.sarus("pull", registry.reference)
    assert result.returncode == 0
    assert f"The image {registry.reference} is for linux/{other}, and this machine is linux/{architecture()}" in result.stderr


def test_an_image_for_another_system_is_refused(hasty, registry):
    serve(registry, bare_image(registry, os="windows"))
    result = hasty.sarus("pull", registry.reference)
    assert result.returncode == 1
    assert f"The image is for the platform windows/{architecture()}, not for linux/{architecture()}" in result.stderr
    assert registry.host not in hasty.sarus("images").stdout
