"""Several versions beside each other, as the administrator's guide sets them up: prefixes, a link `default`, and environment modules."""

import re
import shutil
import subprocess

import pytest
from helpers.installation import configure, copy_tree

pytestmark = pytest.mark.asroot


@pytest.fixture(scope="module")
def versions(installed, opt, home_base, temp_dir):
    """A directory with the prefixes 1.0 and 2.0 and a link to the first."""
    directory = opt / "versions"
    directory.mkdir()
    for version in ("1.0", "2.0"):
        configure(copy_tree(installed, directory / version), local_base=home_base, tempDir=str(temp_dir))
    (directory / "default").symlink_to("1.0")
    return directory


def switch(versions, version):
    subprocess.run(["ln", "-s", version, versions / "default.new"], check=True)
    subprocess.run(["mv", "-T", versions / "default.new", versions / "default"], check=True)


def test_containers_survive_the_switch_to_another_version(versions, setuid_engine, load_image, plain_busybox):
    engine = setuid_engine.variant(prefix=versions / "default")
    image = load_image(engine, "busybox", plain_busybox)
    old = engine.start("run", "--name", "before-the-switch", image, "sh", "-c", "echo started; read line; echo $line")
    assert old.stdout.readline() == "started\n"
    switch(versions, "2.0")
    assert f'"prefixDir": "{versions}/2.0"' in (versions / "default/etc/sarus.json").read_text()
    assert engine.output(image, "echo", "new") == "new"
    assert "before-the-switch" in engine.sarus("ps").stdout
    assert engine.sarus("exec", "before-the-switch", "echo", "reached").stdout == "reached\n"
    out, _ = old.communicate("goodbye\n", timeout=300)
    assert (out, old.returncode) == ("goodbye\n", 0)


@pytest.fixture
def modules(versions, tmp_path):
    """modules(command...) -> what Environment Modules tell a shell to do, for a tree with both versions."""
    for version in ("1.0", "2.0"):
        (tmp_path / "sarus").mkdir(exist_ok=True)
        (tmp_path / "sarus" / version).symlink_to(versions / version / "etc/modulefile")
    command = shutil.which("modulecmd")
    if command is None:
        pytest.skip("modulecmd is missing (Debian package environment-modules)")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "MODULEPATH": str(tmp_path)}

    def run(*arguments, **variables):
        return subprocess.run([command, "sh", *arguments], capture_output=True, text=True, env={**environment, **variables})

    return run


@pytest.mark.parametrize("name, version", [("sarus/1.0", "1.0"), ("sarus", "2.0")])
def test_a_module_puts_one_version_into_the_path(modules, versions, name, version):
    result = modules("load", name, MANPATH="/site/man")
    assert f"PATH={versions}/{version}/bin:/usr/bin:/bin;" in result.stdout, result.stderr
    assert f"MANPATH={versions}/{version}/share/man:/site/man:;" in result.stdout


def test_only_one_version_is_loaded_at_a_time(modules):
    loaded = re.findall(r"(\w+)=(.*?); export", modules("load", "sarus/1.0").stdout)
    result = modules("load", "sarus/2.0", **{name: value.replace("\\", "") for name, value in loaded})
    assert "conflict" in result.stderr.lower()


def test_the_module_names_the_version(modules, versions):
    version = subprocess.run([versions / "1.0/bin/sarus", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert f"Sarus {version}" in modules("whatis", "sarus/1.0").stderr
