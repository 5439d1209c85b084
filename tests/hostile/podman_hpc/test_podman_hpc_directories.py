"""Other users take the name of a user's directory in /tmp."""

import os
import pathlib
import shutil

import pytest
from helpers.podman_hpc import podman_hpc_of

pytestmark = pytest.mark.asroot


@pytest.fixture
def own(user, build_dir):
    """podman-hpc with its default directories."""
    made = podman_hpc_of(user, build_dir)
    yield lambda *words: made(*words, PODMANHPC_GRAPH_ROOT=None, PODMANHPC_RUN_ROOT=None, PODMANHPC_CONFIG_HOME=None, SQUASH_DIR=None)
    made.remove()


@pytest.fixture(params=["directory", "link"])
def taken(request, user, other_user):
    """A place that everybody may write, to which the name leads."""
    name = pathlib.Path(f"/tmp/{user.uid}_hpc")
    assert not os.path.lexists(name) and not list(name.parent.glob(f"{name.name}-*"))
    if request.param == "link":
        place = pathlib.Path(f"/tmp/sarus-{os.getpid()}-place")
        place.mkdir()
        name.symlink_to(place)
    else:
        place = name
        name.mkdir()
    place.chmod(0o777)
    os.chown(name, other_user.uid, other_user.gid, follow_symlinks=False)
    yield place
    for path in (place, *name.parent.glob(f"{name.name}-*")):
        shutil.rmtree(path)
    if name.is_symlink():
        name.unlink()


def test_nothing_is_made_in_a_taken_name_and_nobody_is_blocked(own, taken, user):
    for _ in range(2):
        assert own("images", "-q") == ""
        assert list(taken.iterdir()) == []
        [other] = pathlib.Path("/tmp").glob(f"{user.uid}_hpc-*")
        assert (other.stat().st_uid, other.stat().st_mode & 0o7777) == (user.uid, 0o700)
        assert (other / "config/containers/storage.conf").exists()
