"""A registry on loopback that misbehaves on request: one image, over plain http, without any server program."""

import http.server
import json
import pathlib
import threading
import time

from .images import digest


class FaultyRegistry:
    """Serves one image as `reference`. `fault` says what happens to the requests for `blob`, the largest one of its blobs:

    None        nothing
    "401"       unauthorized: a token has run out in the middle
    "429"       too many requests, as often as it is asked
    "missing"   the blob is not there
    "short"     the content and the length that is announced are shorter than the manifest says
    "digest"    other content of the right size
    "damaged"   content that is wrong from its beginning; the second half comes a second later
    "cut"       the connection is closed in the middle; "cut-once": of the next request alone
    "503"       service unavailable, once
    "stall"     half of the content, then nothing until release() is called

    `stall_manifest`: nothing is sent in answer to a request for the manifest. `token_status`: the status with which the server of
    tokens answers, to which every request is sent first; None: no token is needed. answer() replaces single answers.
    """

    def __init__(self, image, directory):
        self._directory = pathlib.Path(directory)
        self.replace(image)
        self.fault = None
        self.stall_manifest = False
        self.token_status = None
        self.requests = []
        self.manifest_type = "application/vnd.oci.image.manifest.v1+json"  # of manifests that do not say it
        self._answers = {}
        self._released = threading.Event()
        registry = self

        class Handler(_Handler):
            owner = registry

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.reference = f"{self.host}/library/faulty:1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def replace(self, image):
        """Another image gets the same reference."""
        layout = image.write_oci_layout(self._directory / image.manifest_digest()[7:])
        self.blobs = {path.name: path.read_bytes() for path in (layout / "blobs" / "sha256").iterdir()}
        self.manifest = self.blobs[image.manifest_digest()[7:]]
        self.blob = max(self.blobs, key=lambda name: len(self.blobs[name]))

    def make_multi_platform(self, platform):
        """The tag leads to an index with the image as its entry for `platform`."""
        mediatype = json.loads(self.manifest)["mediaType"]
        entry = {"mediaType": mediatype, "digest": digest(self.manifest), "size": len(self.manifest), "platform": platform}
        other = {**entry, "digest": "sha256:" + 64 * "0", "platform": {"os": "linux", "architecture": "s390x"}}
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [other, entry]}).encode()

    def answer(self, place, status, content=b"", times=None, **headers):
        """How requests for `place` ("ping", "token", "manifests", or "blobs": the largest one) are answered from now on, `times` times
        (None: for ever). "token": tokens are then needed, and given where nothing else is said. Other names are those of headers."""
        content = content if isinstance(content, bytes) else content.encode()
        self._answers[place] = [status, content, {name.replace("_", "-"): value for name, value in headers.items()}, times]

    def next_answer(self, place):
        """(status, content, headers), or None: the ordinary one."""
        answer = self._answers.get(place)
        if answer is None or answer[3] == 0:
            return None
        if answer[3] is not None:
            answer[3] -= 1
        return answer[:3]

    def needs_token(self):
        return self.token_status is not None or "token" in self._answers

    def answer_as_usual(self):
        self.fault, self.stall_manifest, self.token_status, self._answers = None, False, None, {}

    def blob_requests(self):
        return [line for line in self.requests if "/blobs/" in line]

    def wait_for_release(self):
        self._released.wait(600)

    def release(self):
        self._released.set()

    def stop(self):
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Handler(http.server.BaseHTTPRequestHandler):
    owner = None
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.owner.requests.append(self.path)
        parts = self.path.split("?")[0].split("/")
        place = "ping" if self.path == "/v2/" else parts[1] if parts[1] == "token" else parts[-2]
        answer = self.owner.next_answer(place) if place != "blobs" or parts[-1].endswith(self.owner.blob) else None
        if answer is not None and (place in ("ping", "token") or not self._lacks_token()):
            self._send(*answer)
        elif parts[1] == "token":
            if self.owner.token_status is None:
                self._send(200, b'{"token": "given"}', {"Content-Type": "application/json"})
            else:
                self._error(self.owner.token_status, "UNAUTHORIZED", "authentication required")
        elif self._lacks_token():
            self._error(401, "UNAUTHORIZED", "authentication required",
                        {"WWW-Authenticate": f'Bearer realm="http://{self.owner.host}/token",service="test",scope="repository:library/faulty:pull"'})
        elif self.path == "/v2/":
            self._send(200, b"{}")
        elif parts[-2] == "manifests":
            if self.owner.stall_manifest:
                self.owner.wait_for_release()
            content = self.owner.blobs[parts[-1][7:]] if parts[-1].startswith("sha256:") else self.owner.manifest
            self._send(200, content, {"Content-Type": json.loads(content).get("mediaType", self.owner.manifest_type)})
        elif parts[-2] == "blobs":
            self._blob(parts[-1][7:])
        else:
            self._error(404, "NOT_FOUND", "no such thing")

    do_HEAD = do_GET

    def _lacks_token(self):
        return self.owner.needs_token() and self.headers.get("Authorization") != "Bearer given"

    def _blob(self, name):
        content = self.owner.blobs[name]
        fault = self.owner.fault if name == self.owner.blob else None
        if fault == "401":
            self._error(401, "UNAUTHORIZED", "authentication required")
        elif fault == "503":
            self.owner.fault = None
            self._error(503, "UNAVAILABLE", "try later")
        elif fault == "429":
            self._error(429, "TOOMANYREQUESTS", "You have reached your rate limit", {"Retry-After": "0"})
        elif fault == "missing":
            self._error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        elif fault == "short":
            self._send(200, content[:len(content) // 2])
        elif fault == "digest":
            self._send(200, content[:-9] + bytes(byte ^ 1 for byte in content[-9:]))
        elif fault == "damaged":
            content = bytes(byte ^ 1 for byte in content)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:len(content) // 2])
            self.wfile.flush()
            time.sleep(1)
            self.wfile.write(content[len(content) // 2:])
        elif fault in ("cut", "cut-once", "stall"):
            if fault == "cut-once":
                self.owner.fault = None
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:len(content) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.owner.wait_for_release()
                self.wfile.write(content[len(content) // 2:])
            self.close_connection = True
        else:
            self._send(200, content)

    def _error(self, status, code, message, headers=None):
        self._send(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _send(self, status, content, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # whoever asked has gone

    def log_message(self, *_):
        pass
