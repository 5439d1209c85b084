"""A container registry on loopback: Debian's docker-registry."""

import base64
import http.server
import json
import pathlib
import subprocess
import threading
import time
import urllib.parse

from .system import PATH, free_port, program, wait_for_port


class TokenService:
    """Gives tokens for a registry to the user "tester" with this password (JSON Web Tokens, signed with RS256). stop() ends it."""

    NAME = "sarus-test"

    def __init__(self, directory, password):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.certificate, self._key = self.directory / "certificate.pem", self.directory / "key.pem"
        subprocess.run([program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={self.NAME}", "-days", "2",
                        "-keyout", str(self._key), "-out", str(self.certificate)], check=True, capture_output=True)
        expected = "Basic " + base64.b64encode(f"tester:{password}".encode()).decode()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                allowed = self.headers.get("Authorization") == expected
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                body = {"token": service._token(query.get("scope", []))} if allowed else {"details": "incorrect username or password"}
                self.send_response(200 if allowed else 401)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _token(self, scopes):
        access = [dict(zip(("type", "name", "actions"), (kind, name, actions.split(","))))
                  for kind, name, actions in (scope.split(":") for text in scopes for scope in text.split())]
        now = int(time.time())
        certificate = "".join(self.certificate.read_text().splitlines()[1:-1])
        head = {"typ": "JWT", "alg": "RS256", "x5c": [certificate]}
        claims = {"iss": self.NAME, "aud": self.NAME, "sub": "tester", "iat": now, "nbf": now - 10, "exp": now + 600, "jti": "1", "access": access}

        def encoded(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        text = b".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = subprocess.run([program("openssl"), "dgst", "-sha256", "-sign", str(self._key)], input=text, check=True, capture_output=True).stdout
        return b".".join((text, encoded(signature))).decode()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


class Registry:
    """A running registry; with `password`, only the user "tester" may use it, who shows it to the registry or to the service `tokens`.
    stop() ends it."""

    def __init__(self, directory, password=None, tls=None, tokens=None):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.password = password
        self.tokens = tokens
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self._log = open(self.directory / "log", "wb")
        self._process = subprocess.Popen([program("docker-registry"), "serve", self._configuration(tls)], stdout=self._log, stderr=self._log,
                                         env={"PATH": PATH, "OTEL_TRACES_EXPORTER": "none"}, cwd=self.directory)
        wait_for_port(self.port, self._process)

    def _configuration(self, tls):
        lines = ["version: 0.1", "storage:", "  filesystem:", f"    rootdirectory: {self.directory}/data", "  delete:", "    enabled: true",
                 "http:", f"  addr: {self.host}"]
        if tls is not None:
            lines += ["  tls:", f"    certificate: {tls[0]}", f"    key: {tls[1]}"]
        if self.tokens is not None:
            lines += ["auth:", "  token:", f"    realm: {self.tokens.address}", f"    service: {self.tokens.NAME}", f"    issuer: {self.tokens.NAME}",
                      f"    rootcertbundle: {self.tokens.certificate}"]
        elif self.password is not None:
            entry = subprocess.run([program("htpasswd"), "-Bbn", "tester", self.password], check=True, capture_output=True, text=True).stdout
            (self.directory / "htpasswd").write_text(entry.strip() + "\n")
            lines += ["auth:", "  htpasswd:", "    realm: test", f"    path: {self.directory}/htpasswd"]
        path = self.directory / "config.yml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def push(self, image, name):
        """Pushes a helpers.images.Image as `name` ("repository:tag") and returns its reference, with server."""
        layout = image.write_oci_layout(self.directory / "layouts" / name.replace("/", "_").replace(":", "_"))
        credentials = ["--dest-creds", f"tester:{self.password}"] if self.password is not None else []
        subprocess.run([program("skopeo"), "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", *credentials,
                        f"oci:{layout}:latest", f"docker://{self.host}/{name}"], check=True, capture_output=True,
                       env={"PATH": PATH, "HOME": str(self.directory), "XDG_RUNTIME_DIR": str(self.directory)})  # /run/containers may be root's alone
        return f"{self.host}/{name}"

    def requests(self):
        """The lines of the registry's access log so far."""
        return (self.directory / "log").read_text(errors="replace").splitlines()

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def allow_plain_http(user, registry):
    """Lets one user's skopeo talk to a registry without TLS, as that user's own configuration can."""
    directory = user.home / ".config" / "containers" / "registries.conf.d"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{registry.port}.conf"
    path.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
    for made in (path, directory, *directory.parents[:2]):
        user.own(made)
    return path
