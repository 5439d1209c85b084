"""`sarus run --name NAME --keep`, `ps --all` and `rm`: what a container writes outlives it on its node."""

import itertools
import json
import os
import shutil
import subprocess
import time

import pytest
from helpers import system

NUMBERS = itertools.count()


@pytest.fixture
def make_variant(engine, request):
    """make_variant(**sarus.json keys) -> the engine with another configuration."""

    def make(**settings):
        maker = request.getfixturevalue("make_rootless_prefix" if engine.rootless else "make_setuid_prefix")
        return engine.variant(prefix=maker(f"kept-{next(NUMBERS)}", engine.runtime, **settings))

    return make


@pytest.fixture
def name(engine):
    """A name that no other test has. What is called like it, or begins so, is removed in the end."""
    chosen = f"kept-{os.getpid()}-{next(NUMBERS)}"
    yield chosen
    for container in json.loads(engine.sarus("ps", "--all", "--json").stdout):
        if container["name"].startswith(chosen):
            engine.sarus("rm", "--force", container["name"], env={"SLURM_JOB_ID": container["job"]})


@pytest.fixture
def keep(engine, busybox, name):
    """keep(script, options) -> the result of a shell in the container `name`, which is kept."""

    def run(script, options=(), **keywords):
        return engine.sarus("run", "--name", name, "--keep", *options, busybox, "sh", "-c", script, **keywords)

    return run


def fine(result):
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def rows(engine, **keywords):
    """{name: status} of `ps --all`. Root's warns of what other tests do to their users' containers."""
    result = engine.sarus("ps", "--all", "--json", **keywords)
    assert result.returncode == 0 and (engine.user.uid == 0 or result.stderr == ""), result
    return {container["name"]: container["status"] for container in json.loads(result.stdout)}


def test_what_a_container_writes_is_there_for_the_next_one(engine, keep, busybox, name):
    fine(keep("mkdir -p /srv/deep; echo first > /srv/deep/file; ln /srv/deep/file /srv/link; rm /bin/cal; rmdir /var/empty 2>/dev/null; true"))
    assert rows(engine)[name] == "stopped"
    found = fine(engine.sarus("run", "--name", name, busybox, "sh", "-c", "cat /srv/deep/file /srv/link; ls /bin/cal 2>&1; echo second >> /srv/link"))
    assert found.splitlines()[:2] == ["first", "first"] and "No such file" in found
    assert fine(keep("cat /srv/deep/file")) == "first\nsecond\n"
    assert fine(engine.sarus("rm", name)) == f"{name}\n"
    assert name not in rows(engine)
    assert fine(keep("ls /srv 2>/dev/null; ls /bin/cal")) == "/bin/cal\n"


def test_without_the_option_nothing_is_kept(engine, busybox, name):
    fine(engine.sarus("run", "--name", name, busybox, "touch", "/file"))
    assert name not in rows(engine)
    result = engine.sarus("run", "--keep", busybox, "true")
    assert result.returncode != 0 and "needs a name" in result.stderr


def test_it_is_entered_by_exec_while_it_runs(engine, keep, busybox, name):
    with engine.standing(busybox, "--name", name, "--keep"):
        assert fine(engine.sarus("exec", name, "sh", "-c", "echo by exec > /file; cat /file")) == "by exec\n"
        assert rows(engine)[name] == "running"
        again = keep("true")
        assert again.returncode != 0 and "exists already" in again.stderr
        removed = engine.sarus("rm", name)
        assert removed.returncode == 1 and f"The container '{name}' is running" in removed.stderr
    assert fine(keep("cat /file")) == "by exec\n"
    late = engine.sarus("exec", name, "true")
    assert late.returncode != 0 and f"It was kept, but does not run: sarus run --name {name} " in late.stderr
    assert f"Container:      {name}\n" in fine(engine.sarus("inspect", name))


def test_rm_ends_a_running_container_only_by_force(engine, busybox, name):
    with engine.standing(busybox, "--name", name, "--keep") as process:
        assert fine(engine.sarus("rm", "--force", name)) == f"{name}\n"
        assert process.wait(timeout=300) == 128 + 9
    assert name not in rows(engine)


def test_rm_by_force_of_one_that_is_ending(engine, busybox, name):
    for _ in range(5):
        with engine.standing(busybox, "--name", name, "--keep") as process:
            fine(engine.sarus("kill", "--signal=KILL", name))
            assert fine(engine.sarus("rm", "--force", name)) == f"{name}\n"
            process.wait(timeout=300)


def test_rm_of_all_ends_those_that_run_only_by_force(make_variant, load_image, plain_busybox, name, open_directory):
    """In a storage of its own: other tests have containers, too."""
    storage = open_directory / "storage"
    storage.mkdir()
    engine = make_variant(containerStorage={"directory": str(storage)})
    if engine.rootless:
        engine.user.own(storage)
    image = load_image(engine, "busybox", plain_busybox)
    fine(engine.sarus("run", "--name", f"{name}-idle", "--keep", image, "true"))
    with engine.standing(image, "--name", name, "--keep") as process, engine.standing(image, "--name", f"{name}-other"):
        assert fine(engine.sarus("rm", "--all")) == f"{name}-idle\n"
        assert fine(engine.sarus("rm", "--all", "--force")) == f"{name}\n"
        assert process.wait(timeout=300) == 128 + 9
        assert f"{name}-other" in fine(engine.sarus("ps", "--quiet"))  # nothing of it is kept


def test_rm_names_what_is_not_there(engine, keep, name):
    fine(keep("true"))
    result = engine.sarus("rm", "nosuch", name, "../escape")
    assert result.returncode == 1 and result.stdout == f"{name}\n"
    assert "No container with the name 'nosuch' was kept" in result.stderr and "'sarus rmi' removes images" in result.stderr


def test_another_image_is_refused(engine, keep, load_image, images, name):
    fine(keep("touch /file"))
    other = load_image(engine, "kept-other", images.busybox(extra=lambda layer: layer.file("other", b"")))
    result = engine.sarus("run", "--name", name, "--keep", other, "true")
    assert result.returncode != 0 and result.stdout == ""
    assert "was made from another image" in result.stderr and f"'sarus rm {name}' removes it" in result.stderr
    assert fine(keep("ls /file")) == "/file\n"


def test_the_same_image_by_another_name_is_the_same_image(engine, keep, busybox, name):
    fine(keep("touch /file"))
    file = engine.user.home / f"{name}.squashfs"
    fine(engine.sarus("save", busybox, file))
    assert fine(engine.sarus("run", "--name", name, file, "ls", "/file")) == "/file\n"


def test_each_job_has_containers_of_its_own(engine, keep, busybox, name):
    first, second = {"SLURM_JOB_ID": "4000000001"}, {"SLURM_JOB_ID": "4000000002"}
    fine(keep("echo first > /whose", env=first))
    fine(keep("cat /whose 2>/dev/null; echo second > /whose", env=second))
    assert fine(keep("cat /whose", env=first)) == "first\n"
    several = engine.sarus("rm", name, env={"SLURM_JOB_ID": "4000000003"})
    assert several.returncode == 1 and "Several jobs have a container with the name" in several.stderr
    fine(engine.sarus("rm", name, env=second))
    assert fine(keep("cat /whose", env=first)) == "first\n"


def test_a_container_goes_after_its_job(engine, keep, busybox, name):
    """Without a cgroup that lasts as long as the job, its time limit tells: an hour later nobody needs it any more."""
    ended = {"SLURM_JOB_ID": "4000000011", "SLURM_JOB_END_TIME": str(int(time.time()) - 7200)}
    lasting = {"SLURM_JOB_ID": "4000000012", "SLURM_JOB_END_TIME": str(int(time.time()) + 7200)}
    fine(keep("true", env=ended))
    fine(engine.sarus("run", "--name", f"{name}-lasting", "--keep", busybox, "true", env=lasting))
    assert fine(keep("echo within", env=ended)) == "within\n"
    fine(engine.sarus("run", busybox, "true", env={"SLURM_JOB_ID": "4000000013"}))
    found = rows(engine)
    assert name not in found and f"{name}-lasting" in found


def test_prune_removes_the_containers_of_jobs_that_are_over(engine, keep, busybox, name):
    ended = {"SLURM_JOB_ID": "4000000014", "SLURM_JOB_END_TIME": str(int(time.time()) - 7200)}
    fine(keep("true", env=ended))
    fine(engine.sarus("run", "--name", f"{name}-of-no-job", "--keep", busybox, "true"))
    fine(engine.sarus("prune", "--force"))
    found = rows(engine)
    assert name not in found and f"{name}-of-no-job" in found


def test_global_containers_belong_to_no_job(engine, busybox, name, make_variant):
    site = make_variant(containerStorage={"scope": "global"})
    options = ["--name", name, "--keep", busybox]
    fine(site.sarus("run", *options, "touch", "/file", env={"SLURM_JOB_ID": "4000000021", "SLURM_JOB_END_TIME": "1"}))
    assert fine(site.sarus("run", *options, "ls", "/file", env={"SLURM_JOB_ID": "4000000022"})) == "/file\n"


def test_a_site_chooses_place_and_size(engine, busybox, name, make_variant, temp_dir):
    place = temp_dir / name
    place.mkdir()
    place.chmod(0o1777)
    site = make_variant(containerStorage={"directory": str(place), "maxSize": 4 << 20})
    options = ["--name", name, "--keep", busybox]
    fine(site.sarus("run", *options, "sh", "-c", "head -c 3000000 /dev/urandom > /small"))
    assert list(place.glob(f"sarus-containers-{engine.user.uid}*"))
    fine(site.sarus("run", *options, "sh", "-c", "head -c 3000000 /dev/urandom > /more"))
    result = site.sarus("run", *options, "true")
    assert result.returncode != 0 and "has outgrown the limit of 4.00MB of this site" in result.stderr
    fine(site.sarus("rm", name))
    shutil.rmtree(place)


def test_a_killed_container_can_be_entered_and_removed(engine, keep, busybox, name):
    for number in range(3):
        process = engine.start("run", "--name", name, "--keep", busybox, "sh", "-c", f"echo {number} >> /file; echo ready; exec sleep 1000")
        assert process.stdout.readline() == "ready\n"
        for pid in [*system.descendants(process.pid), process.pid]:
            system.kill(pid)
        process.communicate(timeout=300)
        assert system.eventually(lambda: rows(engine).get(name) == "stopped")
    assert fine(keep("cat /file")) == "0\n1\n2\n"
    fine(engine.sarus("rm", name))
    assert name not in rows(engine)


def test_two_starts_at_once_get_it_once(engine, busybox, name):
    command = ["run", "--name", name, "--keep", busybox, "sh", "-c", "mkdir /only-once && echo done; sleep 0.2"]
    starts = [engine.start(*command) for _ in range(4)]
    results = [(*process.communicate(timeout=300), process.returncode) for process in starts]
    assert sum(stdout == "done\n" for stdout, _, _ in results) == 1, results
    assert all(stdout == "done\n" or "exists already" in stderr or "is in use" in stderr or "File exists" in stderr
               for stdout, stderr, _ in results), results


def test_container_prune_removes_what_does_not_run(engine, busybox, name):
    for number in range(2):
        fine(engine.sarus("run", "--name", f"{name}-{number}", "--keep", busybox, "true"))
    with engine.standing(busybox, "--name", f"{name}-running", "--keep"):
        removed = fine(engine.sarus("container", "prune", "--force")).splitlines()
        assert {f"{name}-0", f"{name}-1"} <= set(removed) and f"{name}-running" not in removed
        assert rows(engine)[f"{name}-running"] == "running"


def test_an_unfinished_container_is_made_anew(rootless_engine, load_image, plain_busybox, temp_dir):
    """What a kill leaves before the record is written, or after it was removed."""
    image = load_image(rootless_engine, "busybox", plain_busybox)
    options = ["run", "--name", "unfinished", "--keep", image]
    fine(rootless_engine.sarus(*options, "touch", "/file"))
    record, = temp_dir.glob(f"sarus-containers-{rootless_engine.user.uid}*/unfinished/container.json")
    record.unlink()
    assert "unfinished" not in rows(rootless_engine)
    assert rootless_engine.sarus(*options, "ls", "/file").returncode != 0
    fine(rootless_engine.sarus("rm", "unfinished"))
    assert not record.parent.exists()


@pytest.fixture
def place(engine, open_directory):
    """A directory of the user's for files."""
    directory = open_directory / "place"
    directory.mkdir()
    return engine.user.own(directory)


# The user's place: SARUS_CONTAINER_DIR


def test_a_user_chooses_the_place(engine, keep, busybox, name, place):
    fine(keep("mkdir -p /srv/new; echo kept > /srv/new/file; rm /bin/cal", env={"SARUS_CONTAINER_DIR": str(place)}))
    directory, = place.iterdir()
    assert directory.name.startswith(f"sarus-{name}-") and directory.stat().st_mode & 0o777 == 0o700
    assert directory.stat().st_uid == (engine.user.uid if engine.rootless else 0)
    assert rows(engine)[name] == "stopped"
    elsewhere = {"SARUS_CONTAINER_DIR": "/nonexistent"}  # for new containers only
    assert fine(keep("cat /srv/new/file; ls /bin/cal 2>/dev/null; echo more > /srv/new/more", env=elsewhere)) == "kept\n"
    assert fine(engine.sarus("run", "--name", name, busybox, "ls", "/srv/new")) == "file\nmore\n"
    assert fine(engine.sarus("rm", name)) == f"{name}\n"
    assert list(place.iterdir()) == []


def test_a_container_in_the_users_place_is_saved_and_goes_after_its_job(engine, keep_own, busybox, name, place):
    chosen = {"SARUS_CONTAINER_DIR": str(place), "SLURM_JOB_ID": "4000000031", "SLURM_JOB_END_TIME": "1"}
    keep_own("rm -rf /tree; mkdir /tree; echo new > /tree/new", env=chosen)
    fine(engine.sarus("save", "--container", name, place / "work", env={"SLURM_JOB_ID": "4000000031"}))
    assert fine(engine.sarus("run", place / "work", "ls", "/tree")) == "new\n"
    fine(engine.sarus("ps"))
    assert os.listdir(place) == ["work"] and name not in rows(engine)


def test_the_limit_of_a_site_holds_in_the_place_of_the_user(busybox, name, make_variant, place):
    site = make_variant(containerStorage={"maxSize": 2 << 20})
    options, chosen = ["--name", name, "--keep", busybox], {"SARUS_CONTAINER_DIR": str(place)}
    fine(site.sarus("run", *options, "sh", "-c", "head -c 3000000 /dev/urandom > /large", env=chosen))
    result = site.sarus("run", *options, "true")
    assert result.returncode == 1 and "has outgrown the limit of 2.00MB of this site" in result.stderr
    fine(site.sarus("rm", name))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("wrong, why", [
    ("containers", "is not an absolute path"), ("/", "is not an absolute path below '/'"), ("/tmp/../etc", "without '.', '..'"),
    ("/nonexistent/place", "No such file or directory"), ("/proc/self/fd/0", "Failed to open"), ("/dev", "it is not yours"), ("/etc", "it is not yours"),
    ("/etc/passwd", "it is not a directory"), ("/tmp", "it is not yours"), ("LINK", "it is not yours"), ("OPEN", "others can write to it")])
def test_a_place_that_is_not_the_users_alone_is_refused(engine, keep, name, place, wrong, why):
    if engine.user.uid == 0 and "yours" in why:
        return  # root's own
    (place / "link").symlink_to("/etc")
    (place / "open").mkdir()
    (place / "open").chmod(0o1777)
    engine.user.own(place / "open")
    wrong = {"LINK": str(place / "link"), "OPEN": str(place / "open")}.get(wrong, wrong)
    before = set(os.listdir(wrong)) if os.path.isdir(wrong) else None
    result = keep("true", env={"SARUS_CONTAINER_DIR": wrong})
    assert result.returncode == 1 and why in result.stderr and len(result.stderr.splitlines()) <= 2, result
    assert name not in rows(engine)
    if before is not None:
        assert not {entry for entry in set(os.listdir(wrong)) - before if name in entry}


def test_what_a_user_puts_in_the_place_of_a_container_is_not_used(engine, keep, busybox, name, place):
    fine(keep("echo kept > /file", env={"SARUS_CONTAINER_DIR": str(place)}))
    directory, = place.iterdir()
    aside = place / "aside"
    target = place.parent / "target"
    target.mkdir()
    engine.user.own(target)
    for part in ("upper", "work"):
        (target / part).mkdir()
        engine.user.own(target / part)
    (target / "upper/file").write_text("mine")
    directory.rename(aside)
    for make in (lambda: directory.symlink_to(target), lambda: shutil.copytree(target, directory)):
        make()
        result = engine.sarus("run", "--name", name, busybox, "cat", "/file")
        assert result.returncode == 1 and result.stdout == "", result
        assert result.stderr.splitlines()[0].endswith(" any more") or "Not a directory" in result.stderr, result
        directory.unlink() if directory.is_symlink() else shutil.rmtree(directory)
    aside.rename(directory)
    assert fine(engine.sarus("run", "--name", name, busybox, "cat", "/file")) == "kept\n"
    directory.rename(aside)
    result = engine.sarus("rm", name)
    assert (result.returncode, result.stdout) == (0, f"{name}\n") and " any more" in result.stderr, result
    assert (aside / "upper/file").exists() and (target / "upper/file").read_text() == "mine" and name not in rows(engine)


@pytest.mark.asroot
def test_a_place_that_cannot_hold_a_container_leaves_nothing(engine, keep, name, place):
    """The upper layer of an overlay cannot be on another overlay, as on many file systems of networks."""
    for part in ("lower", "upper", "work", "merged"):
        (place / part).mkdir()
    options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place / "merged"], check=True)
    try:
        engine.user.own(place / "merged")
        result = keep("true", env={"SARUS_CONTAINER_DIR": str(place / "merged")})
        assert result.returncode == 1 and "SARUS_CONTAINER_DIR" in result.stderr and len(result.stderr.splitlines()) == 2, result
        assert os.listdir(place / "merged") == [] and name not in rows(engine)
    finally:
        subprocess.run(["umount", place / "merged"], check=True)


@pytest.fixture
def own_image(engine, load_image, images):
    """An image of these tests alone, with a tree, links, a hole and files that the engine writes too."""
    return load_image(engine, "kept-saved", images.busybox(extra=lambda layer: (
        layer.directory("tree"), layer.file("tree/old", b"old"), layer.file("tree/kept", b"kept"), layer.file("holes", b"\0" * (2 << 20) + b"end"),
        layer.directory("etc"), layer.file("etc/hosts", b"of the image\n"))))


@pytest.fixture
def keep_own(engine, own_image, name):
    def run(script, *options, **keywords):
        return fine(engine.sarus("run", "--name", name, "--keep", *options, own_image, "sh", "-c", script, **keywords))

    return run


def test_a_saved_container_has_the_image_and_the_changes(engine, keep_own, place, name):
    keep_own("mkdir -p /srv/deep; echo first > /srv/deep/file; ln /srv/deep/file /srv/link; ln -s deep/file /srv/soft; chmod 751 /srv; rm /bin/cal /tree/old;"
             "rm -rf /tree; mkdir /tree; echo new > /tree/new; mkfifo /srv/pipe; dd if=/dev/zero of=/srv/holes bs=1 count=1 seek=3000000 2>/dev/null")
    file = place / "work.squashfs"
    assert f"saved container {name} (" in fine(engine.sarus("save", name, file))
    assert os.listdir(place) == ["work.squashfs"]
    found = fine(engine.sarus("run", file, "sh", "-c", "cat /srv/soft /tree/new; ls /tree; stat -c '%h %i' /srv/deep/file /srv/link; stat -c '%a' /srv;"
                              "ls /bin/cal 2>&1; tail -c 3 /holes; test -p /srv/pipe && wc -c < /srv/holes")).splitlines()
    assert found[:3] == ["first", "new", "new"] and found[3] == found[4] and found[3].startswith("2 ") and found[5] == "751"
    assert "No such file" in found[6] and found[7:] == ["end3000001"]
    assert keep_own("cat /srv/link") == "first\n"  # it can still be used


def test_a_saved_container_keeps_the_metadata_of_its_image(engine, load_image, images, name, place):
    image = load_image(engine, "kept-metadata", images.busybox(config={"Cmd": ["cat", "/file"], "Env": ["PATH=/bin", "OF=image"], "WorkingDir": "/srv"}))
    fine(engine.sarus("run", "--name", name, "--keep", image, "sh", "-c", "echo changed > /file"))
    fine(engine.sarus("save", name, place / "work"))
    assert fine(engine.sarus("run", place / "work")) == "changed\n"
    assert fine(engine.sarus("run", place / "work", "sh", "-c", "echo $OF; pwd")) == "image\n/srv\n"


def test_the_engines_own_files_are_not_saved(engine, keep_own, place, name, tmp_path):
    keep_own("echo changed >> /etc/hosts; echo mine > /etc/mine")
    fine(engine.sarus("save", name, place / "work"))
    shutil.rmtree(tmp_path / "unpacked", ignore_errors=True)
    result = subprocess.run(["unsquashfs", "-no-progress", "-quiet", "-d", tmp_path / "unpacked", place / "work", "etc", "run"],
                            capture_output=True, text=True, check=False)
    assert result.returncode in (0, 2), result
    assert (tmp_path / "unpacked/etc/hosts").read_text() == "of the image\n"
    assert (tmp_path / "unpacked/etc/mine").read_text() == "mine\n"
    assert not (tmp_path / "unpacked/etc/resolv.conf").exists() and not (tmp_path / "unpacked/run/.containerenv").exists()


def test_a_container_that_runs_is_not_saved(engine, own_image, place, name):
    with engine.standing(own_image, "--name", name, "--keep") as process:
        result = engine.sarus("save", name, place / "work")
        assert result.returncode == 1 and f"The container '{name}' is running: it would change while it is saved" in result.stderr
        assert f"sarus kill -KILL {name}" in result.stderr and os.listdir(place) == []
        fine(engine.sarus("kill", "-KILL", name))
        assert process.wait(timeout=300) == 128 + 9
    fine(engine.sarus("save", name, place / "work"))


def test_a_stored_image_of_the_same_name_comes_first(engine, keep_own, load_image, plain_busybox, name, place):
    keep_own("touch /of-the-container")
    load_image(engine, name, plain_busybox)
    saved = fine(engine.sarus("save", f"load/library/{name}:latest", place / "image"))
    assert "saved image" in saved
    both = fine(engine.sarus("save", name, place / "both"))
    assert "saved image" in both and f"sarus save --container {name} FILE" in both
    assert "saved container" in fine(engine.sarus("save", "--container", name, place / "container"))
    assert fine(engine.sarus("run", place / "container", "ls", "/of-the-container")) == "/of-the-container\n"
    result = engine.sarus("save", "--container", "nosuch", place / "other")
    assert result.returncode == 1 and "No container with the name 'nosuch' was kept" in result.stderr
    fine(engine.sarus("rmi", name))


def test_without_its_image_a_container_is_not_saved(engine, images, name, place):
    image = engine.load(images.archive(images.busybox(), "kept-older"), f"{name}-image")
    fine(engine.sarus("run", "--name", name, "--keep", image, "touch", "/file"))
    engine.load(images.archive(images.busybox(extra=lambda layer: layer.file("newer", b"")), "kept-newer"), f"{name}-image")
    result = engine.sarus("save", name, place / "work")
    assert result.returncode == 1 and f"Failed to save the container '{name}': the image that it was made from" in result.stderr, result
    assert "is gone or was replaced" in result.stderr and os.listdir(place) == []
    fine(engine.sarus("rmi", image))


def test_what_its_owner_may_not_read_is_named(engine, keep_own, name, place):
    keep_own("mkdir /closed; echo x > /closed/file; chmod 0 /closed/file")
    result = engine.sarus("save", name, place / "work")
    if engine.user.uid == 0:
        fine(result)
        return
    assert result.returncode == 1 and "Failed to read /closed/file in the container: its owner may not" in result.stderr, result
    assert "chmod u+r '/closed/file'" in result.stderr and os.listdir(place) == []
    keep_own("chmod 0 /closed")
    result = engine.sarus("save", name, place / "work")
    assert result.returncode == 1 and "chmod u+rx '/closed'" in result.stderr and os.listdir(place) == []
    keep_own("chmod 700 /closed; chmod 600 /closed/file")
    fine(engine.sarus("save", name, place / "work"))


def test_an_existing_file_is_replaced_only_by_force(engine, keep_own, name, place):
    keep_own("touch /file")
    (place / "work").write_text("mine")
    result = engine.sarus("save", name, place / "work")
    assert result.returncode == 1 and "File exists" in result.stderr and (place / "work").read_text() == "mine"
    fine(engine.sarus("save", "--force", name, place / "work"))
    assert fine(engine.sarus("run", place / "work", "ls", "/file")) == "/file\n"
    for wrong in (f"{place}/", place):
        result = engine.sarus("save", "--force", name, wrong)
        assert result.returncode == 1 and "it is a directory" in result.stderr and os.listdir(place) == ["work"]
