"""Registries that misbehave: each fault is one clear line, nothing is left half done, and the next pull works."""

import os
import re
import signal
import subprocess

import pytest
from helpers import system
from helpers.faulty_registry import FaultyRegistry
from helpers.registry import allow_plain_http

pytestmark = pytest.mark.asroot

FAULTS = {
    "401": "The registry refused to send a layer, although it had sent the manifest: a login may have run out. Try again.",
    "429": "The registry refuses more requests for some time. A login may raise the limit (--login option).",
    "missing": "The registry does not have all of the image: a layer is missing there. The image has to be pushed again.",
    "short": "What the registry sent is not what the image's manifest says (other content, or not all of it). It was not stored. Try again.",
    "digest": "What the registry sent is not what the image's manifest says (other content, or not all of it). It was not stored. Try again.",
    "cut": "The registry closed the connection before everything was sent. Try again: layers which have arrived are not downloaded again.",
}


@pytest.fixture(scope="module")
def noisy(images):
    """An image with a layer of three megabytes that do not compress."""
    return images.busybox(extra=lambda layer: layer.file("variant", "faulty").file("noise", os.urandom(3 << 20)))


@pytest.fixture
def faulty(noisy, tmp_path, user, root, setuid_engine):
    server = FaultyRegistry(noisy, tmp_path / "layout")
    file = allow_plain_http(user, server)
    subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", str(user.home / ".config")], check=True)
    yield server
    server.stop()
    file.unlink()
    setuid_engine.sarus("rmi", server.reference)
    setuid_engine.sarus("prune")


@pytest.fixture(scope="module")
def impatient(make_setuid_prefix, engines):
    """An engine which warns after half a second without data, and gives up after three."""
    return engines("setuid", "crun").variant(prefix=make_setuid_prefix("impatient", registryTimings={"warningMs": 500, "timeoutMs": 3000}))


def leftovers(user, temp_dir):
    repository = user.home / ".sarus"
    return [path for path in repository.rglob("*") if re.search(r"-[a-z]{16}(\.json)?$", path.name) or "oci-put-blob" in path.name] \
        + list(temp_dir.glob("sarus-import-*"))


def check_that_nothing_was_stored(engine, server, user, temp_dir):
    assert leftovers(user, temp_dir) == []
    assert server.host not in engine.sarus("images").stdout
    assert not (user.home / ".sarus/cache/blobs/sha256" / server.blob).exists()


def check_that_the_next_pull_works(engine, server):
    server.fault, server.stall_manifest, server.token_status = None, False, None
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 0, result.stderr
    assert engine.output(server.reference, "cat", "/variant") == "faulty"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_the_next_pull_works(setuid_engine, faulty, user, temp_dir, fault):
    faulty.fault = fault
    result = setuid_engine.sarus("pull", faulty.reference)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"Failed to pull image '{faulty.reference}'", FAULTS[fault]]
    check_that_nothing_was_stored(setuid_engine, faulty, user, temp_dir)
    check_that_the_next_pull_works(setuid_engine, faulty)


def test_a_fault_leaves_the_old_image(setuid_engine, faulty, images):
    check_that_the_next_pull_works(setuid_engine, faulty)
    setuid_engine.sarus("prune")
    faulty.replace(images.busybox(extra=lambda layer: layer.file("variant", "newer").file("noise", os.urandom(3 << 20))))
    faulty.fault = "cut"
    assert setuid_engine.sarus("pull", faulty.reference).returncode == 1
    assert setuid_engine.output(faulty.reference, "cat", "/variant") == "faulty"


@pytest.mark.parametrize("where", ["blob", "manifest"])
def test_a_stall_is_said_and_ends_the_pull(impatient, faulty, user, temp_dir, where):
    faulty.fault = "stall" if where == "blob" else None
    faulty.stall_manifest = where == "manifest"
    result = impatient.sarus("pull", faulty.reference)
    assert result.returncode == 1
    *warnings, failure, reason = result.stderr.splitlines()
    assert failure == f"Failed to pull image '{faulty.reference}'"
    assert re.fullmatch(rf"The registry '{faulty.host}' has sent nothing for \d+ s\. Try again later: .*", reason)
    silences = [re.search(r"\[WARN\] The registry '(.*)' has sent nothing for (.*) \(will give up after 3 s\)", line) for line in warnings]
    assert len(silences) in (2, 3) and all(found and found[1] == faulty.host for found in silences), warnings
    check_that_nothing_was_stored(impatient, faulty, user, temp_dir)
    faulty.release()
    check_that_the_next_pull_works(impatient, faulty)


def test_a_stall_that_ends_is_survived(impatient, faulty, user):
    faulty.fault = "stall"
    process = impatient.start("pull", faulty.reference)
    assert "has sent nothing for" in process.stderr.readline()
    faulty.release()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert impatient.output(faulty.reference, "cat", "/variant") == "faulty"


def test_a_stopped_pull_does_not_count_the_time(impatient, faulty):
    """The time in which the user has stopped it (Ctrl-Z) is not the registry's."""
    faulty.fault = "stall"
    process = impatient.start("pull", faulty.reference)
    assert "has sent nothing for" in process.stderr.readline()
    process.send_signal(signal.SIGSTOP)
    assert not system.eventually(lambda: process.poll() is not None, 3)
    process.send_signal(signal.SIGCONT)
    faulty.release()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_a_long_download_tells_in_a_log_how_far_it_is(setuid_engine, faulty):
    faulty.fault = "stall"
    process = setuid_engine.start("pull", faulty.reference)
    assert re.fullmatch(r"Downloading layers: \d\.\d\dMB of \d\.\d\dMB, \d+\.\d\dKB/s, \d+ s left\n", process.stderr.readline())
    faulty.release()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0 and "Downloading" not in output, errors


def test_refused_token_without_credentials_suggests_a_login(setuid_engine, faulty):
    faulty.token_status = 401
    lines = setuid_engine.sarus("pull", faulty.reference).stderr.splitlines()
    assert lines == [f"Failed to pull image '{faulty.reference}'", "The image may be private or not present in the remote registry.",
                     "Did you perform a login with the proper credentials?", "See 'sarus help pull' (--login option)"]


def test_refused_token_with_credentials_is_a_wrong_password(setuid_engine, faulty):
    faulty.token_status = 401
    result = setuid_engine.sarus("pull", "--login", faulty.reference, input="tester\nwrong\n")
    assert result.stderr.splitlines() == [f"Failed to pull image '{faulty.reference}'",
                                          "Unable to retrieve auth token: invalid username or password provided."]


def test_malformed_file_of_credentials_is_named(setuid_engine, faulty, user):
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text('{\n\t"auths": nonsense}')
        result = setuid_engine.sarus("pull", faulty.reference)
    finally:
        file.unlink()
        file.parent.rmdir()
    failure, reason = result.stderr.splitlines()
    assert failure == f"Failed to pull image '{faulty.reference}'"
    assert re.match(rf'The stored credentials cannot be read: reading JSON file "{file}": .*invalid character', reason), reason


def test_a_manifest_with_controls_in_a_message_stays_one_line(setuid_engine, faulty):
    faulty.manifest = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": "\\u0007\\n\\t"}'
    result = setuid_engine.sarus("pull", faulty.reference)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 2, result.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]|\\[ntx]", result.stderr)
