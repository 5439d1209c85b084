"""A container registry on loopback: Debian's docker-registry."""

import pathlib
import subprocess

from .system import PATH, free_port, program, wait_for_port


class Registry:
    """A running registry; with `password`, only the user "tester" may use it. stop() ends it."""

    def __init__(self, directory, password=None, tls=None):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.password = password
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
        if self.password is not None:
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
                        f"oci:{layout}:latest", f"docker://{self.host}/{name}"], check=True, capture_output=True, env={"PATH": PATH, "HOME": "/root"})
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
    return path
