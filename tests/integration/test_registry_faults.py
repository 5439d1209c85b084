"""Registries that misbehave: each fault is one clear line, nothing is left half done, and the next pull works."""

import json
import os
import re
import signal

import pytest
from helpers import system
from helpers.faulty_registry import FaultyRegistry
from helpers.images import Layer
from helpers.registry import allow_plain_http
from test_registry_answers import hasty, skopeo_path  # noqa: F401 (fixtures)

FAULTS = {
    "401": "The registry refused to send a layer, although it had sent the manifest: a login may have run out. Try again.",
    "429": "The registry refuses more requests for some time. A login may raise the limit (--login option).",
    "missing": "The registry does not have all of the image: a layer is missing there. The image has to be pushed again.",
    "short": "What the registry sent is not what the image's manifest says (other content, or not all of it). It was not stored. Try again.",
    "digest": "What the registry sent is not what the image's manifest says (other content, or not all of it). It was not stored. Try again.",
    "cut": "The registry closed the connection before everything was sent. Try again: layers that have arrived are not downloaded again.",
}


@pytest.fixture(scope="module")
def noisy(images):
    """An image with a layer of three megabytes that do not compress."""
    return images.busybox(extra=lambda layer: layer.file("variant", "faulty").file("noise", os.urandom(3 << 20)))


@pytest.fixture
def faulty(noisy, tmp_path, user, any_engine):
    server = FaultyRegistry(noisy, tmp_path / "layout")
    file = allow_plain_http(user, server)
    yield server
    server.stop()
    file.unlink()
    any_engine.sarus("rmi", server.reference)
    any_engine.sarus("prune")


@pytest.fixture
def related(images, tmp_path, user, any_engine):
    """Two registries, whose images have their lower layer in common."""
    noise = os.urandom(3 << 20)
    servers = [FaultyRegistry(images.busybox(extra=lambda layer: layer.file("noise", noise), layers=[Layer().file("variant", name).bytes()]), tmp_path / name)
               for name in ("one", "other")]
    files = [allow_plain_http(user, server) for server in servers]
    yield servers
    for server, file in zip(servers, files):
        server.stop()
        file.unlink()
        any_engine.sarus("rmi", server.reference)
    any_engine.sarus("prune")


@pytest.fixture(scope="module")
def impatient(make_any_prefix, any_engine):
    """An engine which warns after half a second without data, and gives up after three."""
    return any_engine.variant(prefix=make_any_prefix("impatient", registryTimings={"warningMs": 500, "timeoutMs": 3000}))


def leftovers(user, temp_dir):
    repository = user.home / ".sarus"
    return [path for path in repository.rglob("*") if re.search(r"-[a-z]{16}(\.json)?$", path.name) or "oci-put-blob" in path.name] \
        + list(temp_dir.glob("sarus-import-*"))


def check_that_nothing_was_stored(engine, server, user, temp_dir):
    assert leftovers(user, temp_dir) == []
    assert server.host not in engine.sarus("images").stdout
    assert not (user.home / ".sarus/cache/blobs/sha256" / server.blob).exists()


def check_that_the_next_pull_works(engine, server):
    server.answer_as_usual()
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 0, result.stderr
    assert engine.output(server.reference, "cat", "/variant") == "faulty"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_the_next_pull_works(hasty, any_engine, faulty, user, temp_dir, fault):
    faulty.fault = fault
    result = hasty.sarus("pull", faulty.reference)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"Failed to pull image '{faulty.reference}'", FAULTS[fault]]
    check_that_nothing_was_stored(any_engine, faulty, user, temp_dir)
    check_that_the_next_pull_works(any_engine, faulty)


def test_a_registry_that_is_overloaded_once_is_asked_again(any_engine, faulty):
    faulty.fault = "503"
    result = any_engine.sarus("pull", faulty.reference)
    assert result.returncode == 0, result.stderr
    assert any_engine.output(faulty.reference, "cat", "/variant") == "faulty"


def test_of_simultaneous_pulls_one_does_the_work_and_all_succeed(any_engine, faulty, user):
    processes = [any_engine.start("pull", faulty.reference) for _ in range(8)]
    results = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, [errors for _, errors in results]
    outputs = [output for output, _ in results]
    assert sum("> making squashfs image" in output for output in outputs) == 1
    assert sum("already available and up to date" in output for output in outputs) == 7
    assert sum(path.endswith(faulty.blob) for path in faulty.blob_requests()) == 1
    assert list((user.home / ".sarus/cache/pulls").iterdir()) == []


def test_images_with_a_layer_in_common_are_pulled_at_once(any_engine, related, user, temp_dir):
    """Each by several processes, through one cache."""
    one, other = related
    assert one.blob == other.blob
    processes = [any_engine.start("pull", server.reference) for server in related * 4]
    results = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, [errors for _, errors in results]
    assert sum("> making squashfs image" in output for output, _ in results) == 2
    assert [any_engine.output(server.reference, "cat", "/variant") for server in related] == ["one", "other"]
    assert leftovers(user, temp_dir) == []


def test_a_killed_pull_does_not_keep_others_from_pulling(any_engine, faulty):
    faulty.fault = "stall"
    first = any_engine.start("pull", faulty.reference)
    assert system.eventually(lambda: faulty.blob_requests())
    second = any_engine.start("pull", faulty.reference)
    assert any("waiting for another process" in line for line in iter(second.stdout.readline, ""))
    first.kill()
    faulty.fault = None
    _, errors = second.communicate(timeout=300)
    first.communicate()
    faulty.release()
    assert second.returncode == 0, errors


def test_a_credential_helper_that_hangs_is_named_and_ended(impatient, faulty, user):
    helper = user.home / "bin/docker-credential-hangs"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\nsleep 4242\n")
    helper.chmod(0o755)
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text(json.dumps({"credHelpers": {faulty.host: "hangs"}}))
        result = impatient.sarus("pull", faulty.reference, env={"PATH": f"{helper.parent}:{system.PATH}"})
    finally:
        file.unlink()
        file.parent.rmdir()
        helper.unlink()
        helper.parent.rmdir()
    *_, failure, reason = result.stderr.splitlines()
    assert failure == f"Failed to pull image '{faulty.reference}'"
    assert re.match(r"The credential helper 'docker-credential-hangs' has not answered for \d+ s\. Check ", reason), result.stderr
    assert system.remains(lambda: [command for _, uid, command in system.processes() if uid == user.uid and "sleep 4242" in command]) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_pull_whose_credential_helper_ignores_it(any_engine, faulty, user, temp_dir, number):
    helper = user.home / "bin/docker-credential-deaf"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\ntrap '' INT TERM HUP\nsleep 4243\n")
    helper.chmod(0o755)
    file = user.home / ".docker/config.json"
    file.parent.mkdir()

    def helpers():
        return [command for _, uid, command in system.processes() if uid == user.uid and "sleep 4243" in command]

    try:
        file.write_text(json.dumps({"credHelpers": {faulty.host: "deaf"}}))
        process = any_engine.start("pull", faulty.reference, env={"PATH": f"{helper.parent}:{system.PATH}"})
        assert system.eventually(helpers)
        process.send_signal(number)
        process.communicate(timeout=300)
        assert process.returncode == 128 + number
        assert system.eventually(lambda: not helpers())
    finally:
        file.unlink()
        file.parent.rmdir()
        helper.unlink()
        helper.parent.rmdir()
    assert leftovers(user, temp_dir) == []


@pytest.mark.parametrize("program", ["script", "helper"])
def test_a_killed_pull_leaves_no_process_and_no_file(make_any_prefix, any_engine, faulty, user, workspace, temp_dir, program):
    """The kernel ends skopeo with its parent, but not what skopeo, or a site's script around it, has started."""
    script = workspace / f"skopeo-{program}"
    script.write_text('#!/bin/sh\n/usr/bin/skopeo "$@"\nexit $?\n')
    script.chmod(0o755)
    engine = any_engine.variant(prefix=make_any_prefix(f"killed-{program}", skopeoPath=str(script) if program == "script" else "/usr/bin/skopeo"))
    helper, file = user.home / "bin/docker-credential-slow", user.home / ".docker/config.json"
    for path in (helper.parent, file.parent):
        path.mkdir()
    before = system.processes_of(user)
    try:
        if program == "helper":
            helper.write_text("#!/bin/sh\nsleep 4244\n")
            helper.chmod(0o755)
            file.write_text(json.dumps({"credHelpers": {faulty.host: "slow"}}))
        faulty.stall_manifest = True
        process = engine.start("pull", faulty.reference, env={"PATH": f"{helper.parent}:{system.PATH}"})
        sign = "sleep 4244" if program == "helper" else "/usr/bin/skopeo "
        assert system.eventually(lambda: [command for pid, _, command in system.processes() if pid in system.processes_of(user) - before and sign in command])
        if program == "script":
            assert system.eventually(lambda: any("/manifests/" in request for request in faulty.requests))
        process.kill()
        process.communicate(timeout=300)
        assert system.eventually(lambda: system.processes_of(user) <= before), system.processes()
    finally:
        for path in (helper, file):
            path.unlink(missing_ok=True)
            path.parent.rmdir()
        faulty.answer_as_usual()
        faulty.release()
    engine.sarus("images")  # removes what the killed pull has left
    assert leftovers(user, temp_dir) == []
    assert not list((user.home / ".sarus/cache/ociImages").glob("*"))


def test_credentials_that_others_can_change_are_warned_about(any_engine, faulty, user):
    """They can name a program there, which then runs as the user."""
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text(json.dumps({"credHelpers": {"registry.example": "none"}}))
        file.chmod(0o666)
        os.chown(file, user.uid, user.gid)
        result = any_engine.sarus("pull", faulty.reference)
    finally:
        file.unlink()
        file.parent.rmdir()
    assert f'Other users can change the credentials in "{file}". Look at them, and run: chmod 600 {file}' in result.stderr


def test_credentials_that_others_can_read_are_warned_about(any_engine, faulty, user):
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text(json.dumps({"auths": {"registry.example": {"auth": "dGVzdGVyOng="}}}))
        warnings = []
        for mode in (0o644, 0o600):
            file.chmod(mode)
            os.chown(file, user.uid, user.gid)
            warnings.append(any_engine.sarus("pull", faulty.reference).stderr)
    finally:
        file.unlink()
        file.parent.rmdir()
    assert f'Other users can read the credentials in "{file}". Run: chmod 600 {file}' in warnings[0]
    assert "credentials" not in warnings[1]


def test_debug_shows_what_skopeo_says(any_engine, faulty):
    faulty.fault = "missing"
    result = any_engine.sarus("--debug", "pull", faulty.reference)
    assert result.returncode == 1
    assert re.search(r'level=debug msg="', result.stderr) and re.search(r'level=fatal msg=".*404', result.stderr), result.stderr


def test_a_mirror_that_failed_is_named(any_engine, faulty, user):
    faulty.fault = "missing"
    faulty.token_status = 401
    file = user.home / ".config/containers/registries.conf.d/900-mirror.conf"
    file.write_text('[[registry]]\nlocation = "localhost:1/library"\ninsecure = true\n'
                    f'[[registry.mirror]]\nlocation = "{faulty.host}/library"\ninsecure = true\n')
    os.chown(file, user.uid, user.gid)
    try:
        result = any_engine.sarus("pull", "localhost:1/library/faulty:1")
    finally:
        file.unlink()
    assert result.returncode == 1
    assert f"The mirror '{faulty.host}/library/faulty:1' failed, too: " in result.stderr, result.stderr


def test_a_fault_leaves_the_old_image(any_engine, hasty, faulty, images):
    check_that_the_next_pull_works(any_engine, faulty)
    any_engine.sarus("prune")
    faulty.replace(images.busybox(extra=lambda layer: layer.file("variant", "newer").file("noise", os.urandom(3 << 20))))
    faulty.fault = "cut"
    assert hasty.sarus("pull", faulty.reference).returncode == 1
    assert any_engine.output(faulty.reference, "cat", "/variant") == "faulty"


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
    assert len(silences) >= 2 and all(found and found[1] == faulty.host for found in silences), warnings
    check_that_nothing_was_stored(impatient, faulty, user, temp_dir)
    faulty.release()
    check_that_the_next_pull_works(impatient, faulty)


def test_a_stall_that_ends_is_survived(impatient, faulty, user):
    faulty.fault = "stall"
    process = impatient.start("pull", faulty.reference)
    assert "has sent nothing for" in process.stderr.readline()
    faulty.release()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert impatient.output(faulty.reference, "cat", "/variant") == "faulty"


def test_a_long_download_tells_in_a_log_how_far_it_is(any_engine, faulty):
    faulty.fault = "stall"
    process = any_engine.start("pull", faulty.reference)
    assert re.fullmatch(r"Downloading layers: \d\.\d\dMB of \d\.\d\dMB, \d+\.\d\dKB/s, \d+ s left\n", process.stderr.readline())
    faulty.release()
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0 and "Downloading" not in output, errors


def test_refused_token_without_credentials_suggests_a_login(any_engine, faulty):
    faulty.token_status = 401
    lines = any_engine.sarus("pull", faulty.reference).stderr.splitlines()
    assert lines == [f"Failed to pull image '{faulty.reference}'", "The image may be private or not present in the remote registry.",
                     "Did you perform a login with the proper credentials?", "See 'sarus help pull' (--login option)"]


def test_refused_token_with_credentials_is_a_wrong_password(any_engine, faulty):
    faulty.token_status = 401
    result = any_engine.sarus("pull", "--login", faulty.reference, input="tester\nwrong\n")
    assert result.stderr.splitlines() == [f"Failed to pull image '{faulty.reference}'",
                                          "Unable to retrieve auth token: invalid username or password provided."]


def test_malformed_file_of_credentials_is_named(any_engine, faulty, user):
    file = user.home / ".docker/config.json"
    file.parent.mkdir()
    try:
        file.write_text('{\n\t"auths": nonsense}')
        result = any_engine.sarus("pull", faulty.reference)
    finally:
        file.unlink()
        file.parent.rmdir()
    failure, reason = result.stderr.splitlines()
    assert failure == f"Failed to pull image '{faulty.reference}'"
    assert re.match(rf'The stored credentials cannot be read: reading JSON file "{file}": .*invalid character', reason), reason


def test_a_manifest_with_controls_in_a_message_stays_one_line(any_engine, faulty):
    faulty.manifest = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": "\\u0007\\n\\t"}'
    result = any_engine.sarus("pull", faulty.reference)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 2, result.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]|\\[ntx]", result.stderr)
