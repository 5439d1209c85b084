"""scripts/release: the files of a release, and when it makes none."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest
from helpers import installation

ENVIRONMENT = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(clone, *arguments):
    subprocess.run(["git", "-c", "safe.directory=*", "-C", clone, *arguments], check=True, capture_output=True, env=ENVIRONMENT)


@pytest.fixture
def clone(tmp_path):
    """Of the last commit, with its program."""
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "--quiet", "--depth=1", f"file://{installation.SOURCE}", tmp_path / "clone"], check=True)
    shutil.copy(installation.SOURCE / "scripts/release", tmp_path / "clone/scripts/release")
    git(tmp_path / "clone", "add", "--all")
    git(tmp_path / "clone", "commit", "--allow-empty", "--message", "as it is")
    return tmp_path / "clone"


def release(clone, *arguments):
    return subprocess.run([clone / "scripts/release", *arguments], capture_output=True, text=True, env=ENVIRONMENT)


def refusal(clone, *arguments):
    result = release(clone, *arguments)
    assert result.returncode == 1 and result.stdout == ""
    return result.stderr.removeprefix("scripts/release: ").rstrip("\n")


def test_a_commit_without_the_tag_of_its_version_is_no_release(clone, tmp_path):
    assert refusal(clone, tmp_path / "files") == "the last commit has no tag 2.0.0: git tag --annotate 2.0.0"
    assert not (tmp_path / "files").exists()


def test_a_version_without_changes_is_no_release(clone, tmp_path):
    git(clone, "tag", "2.0.0")
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased (2.0.0)", "## Unreleased"))
    assert refusal(clone, tmp_path / "files") == "there are changes that are not committed: commit them or put them away (git stash)"
    git(clone, "commit", "--all", "--message", "forget the version")
    git(clone, "tag", "--force", "2.0.0")
    assert refusal(clone, tmp_path / "files") == "CHANGELOG.md has no section '## 2.0.0'"


def test_versions_that_differ_are_no_release(clone, tmp_path):
    lists = clone / "CMakeLists.txt"
    lists.write_text(lists.read_text().replace("VERSION 2.0.0", "VERSION 2.0.1"))
    git(clone, "commit", "--all", "--message", "half a new version")
    assert re.fullmatch(r"Version in packaging/rpm/\S+\.spec is not 2\.0\.1 as in CMakeLists\.txt", refusal(clone, "--untagged", tmp_path / "files"))


def test_files_of_another_release_stay(clone, tmp_path):
    (tmp_path / "older").write_text("a release\n")
    assert refusal(clone, "--untagged", tmp_path).endswith("is not empty")


def archive_of(directory, **licences):
    """A standalone archive that contains only its lists."""
    share = directory / "2.0.0-Release/share/sarus"
    (share / "licenses").mkdir(parents=True)
    (share / "components.tsv").write_text("".join(f"{name}\t1.0+b-1\n" for name in licences))
    for name, text in licences.items():
        (share / "licenses" / name).write_text(text)
    with tarfile.open(directory / "sarus-2.0.0-x86_64.tar.gz", "w:gz") as archive:
        archive.add(directory / "2.0.0-Release", "2.0.0-Release")
    return directory / "sarus-2.0.0-x86_64.tar.gz"


def bill(archive):
    command = ["python3", installation.SOURCE / "scripts/lib/spdx.py", archive]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})


def test_the_bill_of_materials_has_each_component_with_version_and_licence(tmp_path):
    archive = archive_of(tmp_path, crun="GPL", **{"libstdc++-12-dev": "GPL with exception"})
    document = json.loads(bill(archive).stdout)
    sarus, *others = document["packages"]
    assert sarus["checksums"][0]["checksumValue"] == hashlib.sha256(archive.read_bytes()).hexdigest() and sarus["versionInfo"] == "2.0.0"
    assert [(each["name"], each["versionInfo"]) for each in others] == [("crun", "1.0+b-1"), ("libstdc++-12-dev", "1.0+b-1")]
    texts = {each["licenseId"]: each["extractedText"] for each in document["hasExtractedLicensingInfos"]}
    assert [texts[each["licenseDeclared"]] for each in others] == ["GPL", "GPL with exception"]
    assert {each["relatedSpdxElement"] for each in document["relationships"]} == {each["SPDXID"] for each in document["packages"]}
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each["SPDXID"]) for each in document["packages"])
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"


def test_something_else_has_no_bill_of_materials(tmp_path):
    other = tmp_path / "sarus-2.0.0-x86_64.tar.gz"
    other.write_text("no archive\n")
    result = bill(other)
    assert result.returncode == 1 and result.stdout == "" and result.stderr.startswith(f"{other} is no standalone archive: ")


@pytest.mark.thorough
def test_files_of_a_release(clone, tmp_path):
    """The archive is made by test_archive.py; SARUS_ARCHIVE names one."""
    given = os.environ.get("SARUS_ARCHIVE")
    archive = pathlib.Path(given) if given else archive_of(tmp_path, crun="GPL")
    result = release(clone, "--untagged", "--archive", archive, tmp_path / "files")
    assert result.returncode == 0, result.stderr
    files = {file.name: file for file in (tmp_path / "files").iterdir()}
    for name in ("sarus", "sarus-hooks", "podman-hpc"):
        assert f"{name}_2.0.0_amd64.deb" in files
    assert {"sarus-standalone-2.0.0-1.x86_64.rpm", "sarus-2.0.0-1.src.rpm", "sarus-2.0.0-x86_64.spdx.json"} <= set(files)
    sums = dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].read_text().splitlines())
    assert sums == {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items() if name != "SHA256SUMS"}
    assert files[archive.name].read_bytes() == archive.read_bytes()
    with tarfile.open(files["sarus-2.0.0.tar.gz"]) as source:
        assert {"sarus-2.0.0/CMakeLists.txt", "sarus-2.0.0/src/cli/main.cpp"} <= set(source.getnames())
    notes = files["RELEASE_NOTES.md"].read_text()
    assert notes.startswith("## Unreleased (2.0.0)\n") and re.findall(r"(?m)^## .*", notes) == ["## Unreleased (2.0.0)"]
