"""Conversion while layers arrive: skopeo's image proxy, what it must not be used for, and what happens without it."""

import json
import os
import re
import signal
import subprocess

import pytest
from helpers import system
from helpers.faulty_registry import FaultyRegistry
from helpers.images import Layer
from helpers.registry import allow_plain_http

MIB = 1 << 20


@pytest.fixture(scope="module")
def two_layers(images):
    """An image of two layers that do not compress: the lower one has 6 MiB, the upper one has 4 MiB."""
    return images.busybox(extra=lambda layer: layer.file("lower", os.urandom(6 * MIB)),
                          layers=[Layer().file("upper", os.urandom(4 * MIB)).file("variant", "overlap").bytes()])


@pytest.fixture
def registry_of(tmp_path, user, any_engine):
    """registry_of(image): a registry with a fault on request, for the lower layer."""
    servers = []

    def start(image):
        server = FaultyRegistry(image, tmp_path / f"layout-{len(servers)}")
        servers.append((server, allow_plain_http(user, server)))
        return server

    yield start
    for server, file in servers:
        server.stop()
        file.unlink()
        any_engine.sarus("rmi", server.reference)
    any_engine.sarus("prune")


@pytest.fixture
def recorded(make_any_prefix, any_engine, workspace, user):
    """recorded(name, condition, **site): an engine whose skopeo notes its calls, and a function that returns the commands among them.
    `condition` is shell text that runs in front of skopeo."""

    def make(name, condition="", **site):
        log = user.home / f"calls-{name}"
        log.write_text("")
        os.chown(log, user.uid, user.gid)
        program = workspace / f"skopeo-{name}"
        program.write_text(f"#!/bin/sh\necho \" $* \" >>{log}\n{condition}\nexec /usr/bin/skopeo \"$@\"\n")
        program.chmod(0o755)
        engine = any_engine.variant(prefix=make_any_prefix(f"overlap-{name}", skopeoPath=str(program), **site))
        return engine, lambda: re.findall(r" (inspect|copy|experimental-image-proxy) ", log.read_text())

    return make


def helpers(user, text):
    """The processes of this test's pulls with `text` in their command line."""
    own = system.processes_of(user)
    return [pid for pid, _, command in system.processes() if pid in own and text in command]


def drafts(user):
    """The sizes of unfinished squashfs files."""
    return [path.stat().st_size for path in (user.home / ".sarus/images").rglob("*.squashfs-*")]


def growing(user):
    return list((user.home / ".sarus/cache/ociImages").glob("*/growing-*"))


def blob(user, server):
    return user.home / ".sarus/cache/blobs/sha256" / server.blob


def check_that_nothing_remains(engine, user, temp_dir, server):
    assert system.eventually(lambda: not helpers(user, "sarus-image-builder build"))
    assert not drafts(user) and not growing(user) and not blob(user, server).exists()
    assert not list(temp_dir.glob("sarus-import-*")) and server.host not in engine.sarus("images").stdout


def start_until_half(engine, user, server):
    """A pull whose upper layer is being converted while the lower one hangs."""
    server.fault = "stall"
    process = engine.start("pull", server.reference)
    assert system.eventually(lambda: any(size > MIB for size in drafts(user))), process.poll()
    assert growing(user) and not blob(user, server).exists()
    return process


def test_the_upper_layer_is_converted_before_the_lower_one_is_complete(any_engine, user, registry_of, two_layers):
    server = registry_of(two_layers)
    process = start_until_half(any_engine, user, server)
    server.release()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert any_engine.output(server.reference, "cat", "/variant") == "overlap"
    assert any_engine.output(server.reference, "wc", "-c", "/lower").startswith(str(6 * MIB))
    assert len(server.blob_requests()) == 3 and blob(user, server).exists()


def test_the_file_is_that_of_a_load(any_engine, user, registry_of, two_layers, images):
    server = registry_of(two_layers)
    assert any_engine.sarus("pull", server.reference).returncode == 0
    pulled = json.loads(any_engine.sarus("images", "--json").stdout)
    any_engine.sarus("rmi", server.reference)
    assert any_engine.sarus("load", images.archive(two_layers, "overlap-two"), "overlap:1").returncode == 0
    loaded = json.loads(any_engine.sarus("images", "--json").stdout)
    any_engine.sarus("rmi", "load/library/overlap:1")
    assert [entry["size"] for entry in json_images(pulled)] == [entry["size"] for entry in json_images(loaded)]


def json_images(answer):
    return answer["images"] if isinstance(answer, dict) else answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_during_both_leaves_nothing(any_engine, user, registry_of, two_layers, temp_dir, number):
    server = registry_of(two_layers)
    before = system.processes_of(user)
    process = start_until_half(any_engine, user, server)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert system.eventually(lambda: system.processes_of(user) <= before)
    any_engine.sarus("images")  # removes what a killed pull has left
    check_that_nothing_remains(any_engine, user, temp_dir, server)
    server.fault = None
    server.release()
    assert any_engine.sarus("pull", server.reference).returncode == 0


@pytest.mark.parametrize("victim", ["sarus-image-builder build", "experimental-image-proxy"])
def test_a_helper_that_dies_does_not_leave_a_wrong_image(any_engine, user, registry_of, two_layers, temp_dir, victim):
    server = registry_of(two_layers)
    process = start_until_half(any_engine, user, server)
    server.fault = None
    for pid in helpers(user, victim):
        system.kill(pid)
    server.release()
    _, errors = process.communicate(timeout=300)
    if victim == "experimental-image-proxy":  # skopeo's copy gets the rest
        assert process.returncode == 0, errors
        assert any_engine.output(server.reference, "cat", "/variant") == "overlap"
    else:
        assert process.returncode == 1 and "the image builder was ended by signal 9" in errors
        assert blob(user, server).exists()  # the next pull need not download it again
        blob(user, server).unlink()
        check_that_nothing_remains(any_engine, user, temp_dir, server)


@pytest.mark.parametrize("fault", ["cut", "short", "digest"])
def test_wrong_or_missing_bytes_never_get_a_digest_as_their_name(any_engine, user, registry_of, two_layers, temp_dir, fault):
    server = registry_of(two_layers)
    server.fault = fault
    result = any_engine.sarus("pull", server.reference)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 2, result.stderr
    check_that_nothing_remains(any_engine, user, temp_dir, server)


def test_damage_is_blamed_on_the_registry_even_if_the_builder_finds_it_first(any_engine, user, registry_of, two_layers, temp_dir):
    server = registry_of(two_layers)
    server.fault = "damaged"
    result = any_engine.sarus("pull", server.reference)
    assert result.returncode == 1 and "What the registry sent is not what the image's manifest says" in result.stderr, result.stderr
    check_that_nothing_remains(any_engine, user, temp_dir, server)


def test_a_manifest_that_does_not_match_its_digest_is_refused(any_engine, user, registry_of, two_layers, temp_dir):
    server = registry_of(two_layers)
    server.blobs[two_layers.manifest_digest()[7:]] += b" "
    result = any_engine.sarus("pull", server.reference)
    assert result.returncode == 1 and "digest" in result.stderr, result.stderr
    check_that_nothing_remains(any_engine, user, temp_dir, server)


def test_layers_in_the_cache_are_not_downloaded(recorded, user, registry_of, two_layers):
    engine, calls = recorded("cache")
    server = registry_of(two_layers)
    assert engine.sarus("pull", server.reference).returncode == 0
    engine.sarus("rmi", server.reference)
    requests = len(server.blob_requests())
    assert engine.sarus("pull", server.reference).returncode == 0
    assert len(server.blob_requests()) == requests
    assert calls() == ["inspect", "experimental-image-proxy"] * 2


def test_a_cached_layer_that_was_truncated_is_downloaded_again(any_engine, user, registry_of, two_layers):
    server = registry_of(two_layers)
    assert any_engine.sarus("pull", server.reference).returncode == 0
    any_engine.sarus("rmi", server.reference)
    os.truncate(blob(user, server), MIB)
    result = any_engine.sarus("pull", server.reference)
    assert result.returncode == 0, result.stderr
    assert any_engine.output(server.reference, "cat", "/variant") == "overlap"


# What must not go through the proxy, because it ignores the signature policy


POLICIES = {
    "reject": {"default": [{"type": "reject"}]},
    "signed": {"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/dev/null"}]},
    "scope": {"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"127.0.0.1": [{"type": "reject"}]}}},
    "other-scope": {"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {"elsewhere.example": [{"type": "reject"}]}}},
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_may_demand_something_is_checked_by_skopeo_copy(recorded, workspace, registry_of, two_layers, name):
    policy = workspace / f"overlap-{name}.json"
    policy.write_text(json.dumps(POLICIES[name]))
    server = registry_of(two_layers)
    host = server.host
    if name == "scope":
        policy.write_text(policy.read_text().replace("127.0.0.1", host))
    engine, calls = recorded(f"policy-{name}", containersPolicy={"path": str(policy), "enforce": True})
    result = engine.sarus("pull", server.reference)
    assert calls() == ["inspect", "copy"]
    if name == "other-scope":
        assert result.returncode == 0, result.stderr
    else:
        assert result.returncode == 1 and "does not accept this image" in result.stderr
        assert server.blob_requests() == []
    engine.sarus("rmi", server.reference)


# Without the proxy


@pytest.mark.parametrize("condition", [
    'case " $* " in *" experimental-image-proxy "*) echo "unknown command" >&2; exit 1;; esac',
    'case " $* " in *" experimental-image-proxy "*) exec /bin/true;; esac',
    'case " $* " in *" experimental-image-proxy "*) exec python3 -c \'import socket; s = socket.socket(fileno=0); s.recv(99); '
    's.send(b"{\\"success\\": true, \\"value\\": \\"0.3.0\\", \\"pipeid\\": 0, \\"error\\": \\"\\"}"); s.recv(99)\';; esac',
], ids=["unknown", "silent", "version"])
def test_without_the_proxy_skopeo_copies(recorded, registry_of, two_layers, request, condition):
    engine, calls = recorded(f"without-{request.node.callspec.id.split('-')[-1]}", condition)
    server = registry_of(two_layers)
    result = engine.sarus("pull", server.reference)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert calls() == ["inspect", "experimental-image-proxy", "copy"]
    assert engine.output(server.reference, "cat", "/variant") == "overlap"


def test_an_image_in_dockers_format_is_that_of_skopeos_copy(recorded, registry, user, two_layers, tmp_path):
    """The proxy converts the manifest and the configuration as the copy does."""
    reference = registry.push(two_layers, "library/docker-format:1")
    docker = f"{registry.host}/library/docker-format:2"
    subprocess.run([system.program("skopeo"), "copy", "--quiet", "--insecure-policy", "--format", "v2s2", "--src-tls-verify=false",
                    "--dest-tls-verify=false", f"docker://{reference}", f"docker://{docker}"], check=True,
                   env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})  # /run/containers may be root's alone
    ways = {"proxy": "", "copy": 'case " $* " in *" experimental-image-proxy "*) exit 1;; esac'}
    ids = []
    for name, condition in ways.items():
        engine, calls = recorded(f"docker-{name}", condition)
        assert engine.sarus("pull", docker).returncode == 0
        assert calls()[-1] == {"proxy": "experimental-image-proxy", "copy": "copy"}[name]
        ids.append(engine.sarus("images", "--digests").stdout.splitlines()[1].split()[2:4])
        engine.sarus("rmi", docker)
        engine.sarus("prune")
    assert ids[0] == ids[1]
