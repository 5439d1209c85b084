"""sarus df, the limits of sarus prune, and the key pruneAfterPull. Each test has a repository of its own."""

import json
import os
import re
import shutil
import time

import pytest
from helpers import system
from helpers.installation import set_configuration

DAY = 86400


class Place:
    """A repository of the user in a place of its own."""

    def __init__(self, engine, directory, images):
        self.engine, self.directory, self.images = engine, directory, images
        self.environment = {"SARUS_REPOSITORY_DIR": directory}

    def sarus(self, *arguments, status=0, env=None, **keywords):
        result = self.engine.sarus(*arguments, env={**self.environment, **(env or {})}, **keywords)
        assert result.returncode == status, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
        return result

    def json(self, *arguments):
        return json.loads(self.sarus(*arguments, "--json").stdout)

    def load(self, name, age=0):
        """Loads an image of its own, which was last used so many days ago."""
        image = self.images.busybox(extra=lambda layer: layer.file("name", name).file("random", os.urandom(100000)))
        self.sarus("load", self.images.archive(image, f"disk-{name}"), name, timeout=120)
        self.age(name, age)
        return f"load/library/{name}:latest"

    def metadata(self, name):
        return next(self.directory.rglob(f"{name}/latest.meta"))

    def age(self, name, days):
        moment = time.time() - days * DAY
        for file in (self.metadata(name), self.mark(name)):
            if file.exists():
                os.utime(file, (moment, moment))

    def mark(self, name):
        """Its time is that of the last use."""
        return self.metadata(name).with_suffix(".used")

    def file(self, name):
        return next(self.directory.rglob(f"{name}/latest.squashfs"))

    def names(self):
        return {path.parent.name for path in self.directory.rglob("*.squashfs")}

    def start(self, name):
        """A container that runs until its standard input ends."""
        process = self.engine.start("run", "--name", f"{self.directory.name}-{name}", f"load/library/{name}", "sh", "-c", "echo started; read x",
                                    env=self.environment)
        assert process.stdout.readline() == "started\n", process.stderr.read()
        assert system.eventually(lambda: f"{self.directory.name}-{name}" in self.sarus("ps").stdout)
        return process


@pytest.fixture
def place(any_engine, user, images, request):
    directory = user.home / f"disk-{request.node.name.split('[')[0][5:30]}"
    yield Place(any_engine, directory, images)
    shutil.rmtree(directory, ignore_errors=True)


def space(path):
    return path.stat().st_blocks * 512


# sarus df


def test_df_counts_shared_files_once(place):
    place.load("one")
    place.load("two")
    place.sarus("tag", "load/library/two", "three:latest")
    found = place.json("df")
    assert found["repository"] == str(place.directory)
    one, two = space(place.file("one")), space(place.file("two"))
    images = found["images"]
    assert (images["total"], images["bytes"], images["shared"], images["reclaimable"]) == (3, one + two, two, one + two)
    facts = {image["reference"].split("/")[-1]: (image["bytes"], image["names"], image["reclaimable"]) for image in images["list"]}
    assert facts == {"one:latest": (one, 1, one), "two:latest": (two, 2, 0), "three:latest": (two, 2, 0)}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", image["lastUse"]) for image in images["list"])


def test_df_prints_a_table(place):
    place.load("table")
    lines = [re.split("   +", line.strip()) for line in place.sarus("df").stdout.splitlines()]
    assert lines[0] == ["TYPE", "TOTAL", "SIZE", "SHARED", "RECLAIMABLE"]
    assert [line[0] for line in lines[1:4]] == ["Images", "Download cache", "Unpacked images"]
    assert lines[1][1] == "1" and lines[1][3] == "0.00B" and lines[1][2] == lines[1][4]
    assert place.sarus("system", "df").stdout.splitlines()[1] == place.sarus("df").stdout.splitlines()[1]


def test_df_knows_what_a_container_uses(place):
    place.load("busy")
    process = place.start("busy")
    assert place.json("df")["images"]["reclaimable"] == 0
    process.communicate("\n", timeout=300)
    assert system.eventually(lambda: place.json("df")["images"]["reclaimable"] > 0)


def test_df_counts_the_cache_that_prune_empties(place, registry, images):
    reference = registry.push(images.busybox(extra=lambda layer: layer.file("cached", "x")), "library/counted:1")
    place.sarus("pull", reference, timeout=120)
    cache = place.json("df")["cache"]
    plan = place.json("prune", "--dry-run")
    assert (cache["total"], cache["bytes"], cache["reclaimable"]) == (plan["files"], plan["bytes"], plan["bytes"]) and plan["files"] > 0
    place.sarus("prune")
    assert place.json("df")["cache"]["bytes"] == 0


@pytest.mark.asroot
def test_df_shows_the_central_repository(place, root_engine, images, plain_busybox):
    root_engine.sarus("load", "--centralized-repository", images.archive(plain_busybox, "central-df"), "central-df", timeout=120)
    directory = place.engine.prefix / "var/centralized"
    found = place.json("df")["centralRepository"]
    assert found["path"] == str(directory) and found["total"] >= 1 and found["reclaimable"] == 0
    mode = directory.stat().st_mode
    directory.chmod(0o700)
    assert "centralRepository" not in place.json("df")
    directory.chmod(mode)
    root_engine.sarus("rmi", "--centralized-repository", "load/library/central-df")


# The last use


def test_run_records_the_use_and_other_commands_do_not(place):
    name = place.load("used", age=10)
    mark, stored = place.mark("used"), place.metadata("used").stat()
    for command in (["images"], ["inspect", name], ["run", "--dry-run", name, "true"], ["df"]):
        place.sarus(*command)
    place.sarus("run", name, "true", env={"SLURM_JOB_ID": "1", "SLURM_PROCID": "1"})  # the first task of the step does it
    assert not mark.exists()
    place.sarus("run", name, "true")
    assert mark.stat().st_mtime > time.time() - 600 and mark.stat().st_uid == place.engine.user.uid
    moment = time.time() - 1800
    os.utime(mark, (moment, moment))
    place.sarus("run", name, "true")
    assert abs(mark.stat().st_mtime - moment) < 1  # known well enough
    place.age("used", 1)
    place.sarus("run", name, "true")
    assert mark.stat().st_mtime > time.time() - 600
    assert place.metadata("used").stat().st_ino == stored.st_ino
    place.sarus("rmi", name)
    assert not mark.parent.exists()


def test_an_image_that_cannot_be_changed_runs(place):
    name = place.load("unchangeable", age=10)
    place.metadata("unchangeable").parent.chmod(0o555)
    assert place.sarus("run", name, "echo", "runs").stderr == ""
    place.metadata("unchangeable").parent.chmod(0o755)


# Limits of prune


def test_prune_removes_what_is_older(place):
    place.load("old", age=31)
    place.load("young", age=29)
    assert place.json("prune", "--older-than", "30d", "--dry-run")["images"][0]["reference"] == "load/library/old:latest"
    assert place.names() == {"old", "young"}
    size = space(place.file("old"))
    lines = place.sarus("prune", "--older-than", "30d").stdout.splitlines()
    assert re.fullmatch(r"removed image load/library/old:latest \(\S+B, last used 31 d ago\)", lines[0])
    assert lines[1].startswith("removed 1 image and 0 files (") and lines[1].endswith(f'of "{place.directory}"')
    assert place.names() == {"young"} and size > 0
    assert "removed 0 images" in place.sarus("prune", "--filter", "until=30d").stdout
    assert "removed 1 image " in place.sarus("prune", "--filter=until=4w").stdout
    assert place.names() == set()


def test_prune_keeps_the_most_recently_used_images(place, registry, images):
    for name, age in (("third", 1), ("first", 9), ("second", 5)):
        place.load(name, age)
    reference = registry.push(images.busybox(extra=lambda layer: layer.file("kept", "x")), "library/kept:1")
    place.sarus("pull", reference, timeout=120)
    total = place.json("df")["images"]["bytes"]
    removed = place.json("prune", f"--keep-bytes={total}")  # downloads go first
    assert removed["files"] > 0 and removed["images"] == []
    removed = place.json("prune", f"--keep-bytes={total - 1}")
    assert [image["reference"] for image in removed["images"]] == ["load/library/first:latest"]
    place.sarus("run", "load/library/second", "true")
    place.sarus("prune", f"--keep-bytes={place.json('df')['images']['bytes'] - 1}")
    assert place.names() == {"second", "kept"}
    place.sarus("prune", "--keep-bytes", "0")
    assert place.names() == set() and place.json("df")["images"]["bytes"] == 0


def test_prune_leaves_images_of_running_containers(place):
    place.load("running", age=90)
    place.load("idle", age=1)
    process = place.start("running")
    place.age("running", 90)
    place.sarus("prune", "--older-than=2w", "--keep-bytes=0")
    assert place.names() == {"running"}
    process.communicate("\n", timeout=300)


def test_prune_without_limits_keeps_images(place):
    place.load("kept", age=1000)
    assert place.sarus("prune").stdout.startswith("removed ")
    assert place.names() == {"kept"} and "images" not in place.json("prune")


@pytest.mark.parametrize("option, values", [
    ("--older-than", ["30", "d", "30x", "-1d", "1.5d", "30d ", "1d12h", "99999999999999999999d", "30D\n"]),
    ("--keep-bytes", ["G", "20X", "-1", "1.5G", "20 G", "99999999999999999999", "99999999999T", "1BB", "10GiBs"]),
    ("--filter", ["30d", "label=x", "until="]),
])
def test_limits_that_are_none(place, option, values):
    for value in values:
        result = place.sarus("prune", f"{option}={value}", status=1)
        message = result.stderr.splitlines()
        assert message[0].startswith("Invalid value '") and message[0].split(": expected ")[1] and message[1:] == ["See 'sarus help prune'"], value
    assert not place.directory.exists()  # before anything is done


def test_sizes_have_units(place):
    for value in ("0", "1", "20K", "20k", "20KB", "20KiB", "20M", "3g", "1T", "512B"):
        place.sarus("prune", "--dry-run", "--keep-bytes", value)


def test_the_central_repository_has_no_limits(place):
    result = place.sarus("prune", "--centralized-repository", "--older-than=1d", status=1)
    assert "does not know when users last used its images" in result.stderr


# pruneAfterPull


@pytest.fixture(scope="module")
def limited_prefix(make_any_prefix):
    return make_any_prefix("prune-after-pull")


@pytest.fixture
def limited(place, limited_prefix):
    """limited(**limits): the place, with an installation that has them."""

    def make(**limits):
        set_configuration(limited_prefix, pruneAfterPull=limits)
        place.engine = place.engine.variant(prefix=limited_prefix)
        return place

    return make


@pytest.fixture
def pull(place, registry, images):
    def run(name, *options):
        image = images.busybox(extra=lambda layer: layer.file("pulled", name))
        return place.sarus("pull", *options, registry.push(image, f"library/{name}:latest"), timeout=120)

    return run


def test_a_pull_removes_what_the_site_does_not_keep(limited, pull):
    place = limited(olderThanDays=30)
    place.load("old", age=40)
    place.load("young", age=20)
    lines = pull("after-age").stdout.splitlines()
    assert re.fullmatch(r"> removed load/library/old:latest \(\S+B, last used 40 d ago\): the site limits repositories", lines[-1])
    assert place.names() == {"young", "after-age"}


def test_a_pull_keeps_its_image_and_recent_ones(limited, pull):
    place = limited(keepBytes=1)
    place.load("recent", age=0)
    place.load("unused", age=2)
    assert json.loads(pull("after-size", "--json").stdout)["reference"].endswith("/library/after-size:latest")
    assert place.names() == {"recent", "after-size"}
    assert place.json("df")["cache"]["total"] == 0
    place.age("after-size", 60)
    place.age("recent", 60)
    pull("after-size")  # is already there
    assert place.names() == {"after-size"}


def test_a_pull_succeeds_if_it_cannot_remove(limited, pull):
    place = limited(olderThanDays=30)
    place.load("stuck", age=40)
    locked = place.file("stuck").parent
    locked.chmod(0o555)
    result = pull("after-failure")
    assert "Failed to remove what exceeds pruneAfterPull: " in result.stderr and "stuck" in result.stderr
    assert "after-failure" in place.names()
    locked.chmod(0o755)


def test_load_removes_nothing(limited):
    place = limited(olderThanDays=1, keepBytes=1)
    place.load("before", age=40)
    place.load("after")
    assert place.names() == {"before", "after"}
