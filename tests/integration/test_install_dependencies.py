"""scripts/install-dependencies, with package managers that install nothing and lack a package."""

import os
import subprocess

import pytest
from helpers import system

MANAGERS = {"debian": "apt-get", "debian11": "apt-get", "rhel": "dnf", "suse": "zypper"}


@pytest.fixture
def run(source_dir, tmp_path):
    """Runs the script. The managers write the packages that they install to the file `installed`, all or none of a call."""
    (tmp_path / "installed").touch()

    def fake(name, text):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    fake("sudo", 'exec "$@"')
    fake("dpkg-query", "exit 1")
    fake("rpm", "exit 1")
    for manager in ("apt-get", "dnf", "zypper"):
        fake(manager, f"""
[ "$1" != update ] || {{ echo "the lists have expired"; exit 100; }}
case " $* " in *" tini "*|*" crun "*) echo "E: Unable to locate package"; exit 100 ;; esac
for word; do case "$word" in -*|install) ;; *) echo "{manager} $word" >>"{tmp_path}/installed" ;; esac; done""")

    def call(*arguments):
        return subprocess.run([source_dir / "scripts/install-dependencies", *arguments], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PATH": f"{tmp_path}:{system.PATH}"})

    call.installed = lambda: (tmp_path / "installed").read_text().splitlines()
    return call


@pytest.mark.parametrize("name, manager", MANAGERS.items())
def test_packages_that_cannot_be_installed_are_named_and_the_others_are_installed(run, name, manager):
    wanted = run("--list", "--for", name).stdout.split()
    lacking = [package for package in wanted if package in ("crun", "tini")]
    result = run("--for", name)
    assert result.returncode == 1 and lacking
    assert f"These packages could not be installed: {' '.join(lacking)}\n" in result.stderr
    assert sorted(run.installed()) == sorted(f"{manager} {package}" for package in wanted if package not in lacking)


@pytest.mark.parametrize("name", MANAGERS)
def test_packages_of_other_systems_have_their_names(run, name):
    packages = run("--list", "--test", "--for", name).stdout.split()
    assert {"skopeo", "crun", "python3", "libre2-dev" if "debian" in name else "re2-devel"} <= set(packages)
    assert set(run("--list", "--for", name).stdout.split()) < set(packages)
    assert run.installed() == []


@pytest.mark.parametrize("name", MANAGERS)
def test_packages_for_the_site_are_only_for_those_who_ask(run, name):
    assert "mandoc" in run("--list", "--docs", "--for", name).stdout.split()
    options = ("--test", "--develop") if "debian" in name else ("--test",)
    assert "mkdocs" not in run("--list", *options, "--for", name).stdout


def test_packages_for_another_architecture_are_that_architectures(run):
    packages = set(run("--list", "--archive", "--aarch64", "--for", "debian").stdout.split()) - set(run("--list", "--archive", "--for", "debian").stdout.split())
    assert {"g++-aarch64-linux-gnu", "libre2-dev:arm64", "libseccomp-dev:arm64"} <= packages
    refused = run("--list", "--aarch64", "--for", "rhel")
    assert refused.returncode == 1 and "are for Debian and Ubuntu" in refused.stderr


def test_unknown_system_is_named(run):
    result = run("--list", "--for", "plan9")
    assert result.returncode == 1 and "--for debian, debian11, rhel or suse, not 'plan9'" in result.stderr
