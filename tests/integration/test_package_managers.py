"""Package managers with packages of real distributions, which root inside of a container installs.

What they need of root is in test_remap_root.py; this finds what nobody has thought of.
"""

import io
import pathlib
import subprocess
import tarfile
import zipfile

import pytest
from helpers import system
from helpers.debian import mirror
from helpers.images import Image
from test_remap_root import engine, fine, name  # noqa: F401 (fixtures)

pytestmark = [pytest.mark.asroot, pytest.mark.thorough, pytest.mark.timeout(1800)]

MANAGERS = ["ca-certificates", "dnf", "zypper", "rpm", "python3-pip"]
SPECIFICATION = """
Name: tool
Version: 1.0
Release: 1
Summary: tool
License: none
BuildArch: noarch
AutoReq: no
Provides: /bin/sh
%description
tool
%install
mkdir -p %{buildroot}/usr/bin %{buildroot}/srv/tool
printf '#!/bin/sh\\necho the tool\\n' | tee %{buildroot}/usr/bin/tool > %{buildroot}/usr/bin/net-tool
%pre
grep -q ^tool: /etc/passwd || useradd --system --home-dir /srv/tool tool
%post
mknod /srv/tool/null c 1 3
setfattr -n user.made -v 1 /srv/tool || :
%files
%attr(2755,root,mail) /usr/bin/tool
%attr(4755,root,root) %caps(cap_net_raw=ep) /usr/bin/net-tool
%attr(750,tool,tool) %dir /srv/tool
"""


@pytest.fixture(scope="module")
def image_description(workspace):
    root = workspace / "managers"
    subprocess.run([system.program("debootstrap"), "--variant=minbase", f"--include={','.join(MANAGERS)}", "bookworm", root, mirror()],
                   check=True, capture_output=True, env={"PATH": system.PATH})
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(root, ".", filter=lambda entry: None if entry.name.startswith(("./dev/", "./proc/", "./var/cache/apt/archives/")) else entry)
    return Image([content.getvalue()], {"Env": [f"PATH={system.PATH}"], "Cmd": ["bash"]})


@pytest.fixture(scope="module")
def packages(workspace):
    folder = workspace / "packages-of-managers"
    folder.mkdir()
    (folder / "tool.spec").write_text(SPECIFICATION)
    subprocess.run(["rpmbuild", "-bb", "--define", f"_topdir {folder}", "--define", "_rpmdir %{_topdir}", "--define", "_rpmfilename tool.rpm",
                    folder / "tool.spec"], check=True, capture_output=True)
    with zipfile.ZipFile(folder / "tool-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tool/__init__.py", "def main():\n    print('the tool')\n")
        wheel.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        wheel.writestr("tool-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tool-1.0.dist-info/entry_points.txt", "[console_scripts]\ntool = tool:main\n")
        wheel.writestr("tool-1.0.dist-info/RECORD", "tool/__init__.py,,\ntool-1.0.dist-info/RECORD,,\n")
    return folder


@pytest.fixture
def installs(engine, name, load_image, image_description, packages):
    """installs(command) -> what `tool` prints in a later container; its packages are in /packages."""
    reference = load_image(engine, "managers", image_description)
    place = pathlib.Path(engine.user.home, "packages-of-managers")
    if not place.exists():
        place.mkdir()
        for file in (*packages.glob("*.rpm"), *packages.glob("*.whl")):
            (place / file.name).write_bytes(file.read_bytes())

    def install(command, shown):
        options = ["run", "--name", name, "--keep", "--remap-root", "--mount", f"type=bind,src={place},dst=/packages,ro", reference]
        result = engine.sarus(*options, "sh", "-ec", command, timeout=600)
        assert result.returncode == 0, result.stdout + result.stderr
        return fine(engine.sarus("run", "--name", name, reference, "sh", "-c", shown))

    return install


@pytest.mark.parametrize("install, remove", [("rpm -i", "rpm -e"), ("dnf --releasever=1 install -y", "dnf --releasever=1 remove -y")],
                         ids=["rpm", "dnf"])
def test_a_package_of_rpm(installs, install, remove):
    assert installs(f"{install} /packages/tool.rpm && {remove} tool && ! command -v tool && {install} /packages/tool.rpm", "tool") == "the tool\n"


def test_a_package_of_zypper(installs):
    """On Debian, it does not find again what it has installed."""
    assert installs("zypper --non-interactive install --allow-unsigned-rpm /packages/tool.rpm", "tool") == "the tool\n"


def test_a_package_of_pip(installs):
    assert installs("pip install --break-system-packages --no-index /packages/*.whl", "tool") == "the tool\n"


def test_packages_of_debian(installs):
    """Services with accounts of their own, capabilities and files that belong to groups."""
    command = "apt-get update && apt-get install -y --no-install-recommends openssh-server iputils-ping cron dbus man-db postfix sudo"
    shown = "dpkg --status openssh-server iputils-ping cron dbus man-db postfix sudo | grep -c '^Status: install ok installed'"
    assert installs(f"export DEBIAN_FRONTEND=noninteractive; {command}", shown) == "7\n"
