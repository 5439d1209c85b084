"""sarus-squashfs: mounts of awkward trees with every compressor, compared with the kernel's; damaged images; killed servers."""

import ctypes
import errno
import hashlib
import os
import pathlib
import random
import signal
import socket
import stat
import subprocess
import time

import pytest
from helpers import installation, system

pytestmark = pytest.mark.asroot

COMPRESSORS = ["gzip", "lzo", "lz4", "xz", "zstd"]


@pytest.fixture(scope="module", autouse=True)
def own_mount_namespace():
    """Mount namespaces that other tests make meanwhile would keep copies of the mounts, and their servers, alive."""
    libc = ctypes.CDLL(None, use_errno=True)
    directory = os.getcwd()
    with open("/proc/self/ns/mnt", "rb") as before:
        assert libc.unshare(0x00020000) == 0, os.strerror(ctypes.get_errno())  # CLONE_NEWNS
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        yield
        assert libc.setns(before.fileno(), 0x00020000) == 0, os.strerror(ctypes.get_errno())
    os.chdir(directory)


@pytest.fixture
def server():
    return installation.BUILD / "sarus-squashfs"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """All types of inodes, and all ways to store contents."""
    top = tmp_path_factory.mktemp("squashfs") / "tree"
    numbers = random.Random(1)
    write(top / "dir/small", b"hello")
    write(top / "dir/empty", b"")
    write(top / "dir/exact", numbers.randbytes(131072))
    write(top / "dir/compressible", bytes(numbers.randrange(40) for _ in range(400_001)))
    write(top / "dir/random", numbers.randbytes(300_001))
    with open(top / "sparse", "wb") as file:
        file.seek(3 << 20)
        file.write(b"x" * 5000)
        file.truncate(8 << 20)
    with open(top / "hole", "wb") as file:
        file.truncate(20 << 20)
    (top / "link").symlink_to("dir/small")
    (top / "long").symlink_to("x" * 4000)
    os.link(top / "dir/small", top / "hard")
    os.mkfifo(top / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(top / "socket"))
    os.mknod(top / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(top / "disk", 0o600 | stat.S_IFBLK, os.makedev(259, 70000))
    os.chown(top / "dir/random", 1234, 70000)
    os.chmod(top / "dir/empty", 0o6755)
    (top / "many").mkdir()
    for number in range(3000):
        write(top / f"many/{'n' * 60}{number:05}", str(number).encode())
    deep = top
    for _ in range(60):
        deep = deep / "deep"
    write(deep / "end", b"end")
    for name in ("é\n", "\x01 x", "-f", "A" * 255, "..x"):
        write(top / "names" / name, name.encode())
    return top


@pytest.fixture(scope="module")
def attributes(tree):
    """The tree with extended attributes in every form."""
    for number in range(8):
        os.setxattr(tree / "dir/compressible", f"user.k{number}", bytes(100 + 20 * number))
    os.setxattr(tree / "dir", "user.directory", b"value")
    os.setxattr(tree / "dir/small", "user.empty", b"")
    for name in ("random", "exact"):
        os.setxattr(tree / "dir" / name, "user.same", b"v" * 1500)
    os.setxattr(tree / "dir/small", "trusted.value", b"v")
    os.setxattr(tree / "link", "trusted.link", b"v", follow_symlinks=False)
    return tree


def make_image(tree, path, *options):
    subprocess.run(["mksquashfs", tree, path, "-noappend", "-quiet", "-no-progress", *options], check=True, stdout=subprocess.DEVNULL)
    return path


class Mount:
    """An image mounted by sarus-squashfs in the foreground."""

    def __init__(self, server, image, place, *options):
        place.mkdir(exist_ok=True)
        self.place = place
        ready, theirs = os.pipe()
        self.process = subprocess.Popen([server, "-f", "-o", f"ready_fd={theirs}", *options, image, place], pass_fds=[theirs], text=True,
                                        stderr=subprocess.PIPE)
        os.close(theirs)
        with open(ready, "rb") as file:
            self.ready = file.read(1) == b"\x01"

    def __enter__(self):
        assert self.ready, self.process.stderr.read()
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.place], stderr=subprocess.DEVNULL)
        self.process.wait(timeout=300)
        self.errors = self.process.stderr.read()
        self.process.stderr.close()


@pytest.fixture
def mounted_by_kernel(tmp_path):
    place = tmp_path / "kernel"
    place.mkdir()

    def mount(image):
        subprocess.run(["mount", "-t", "squashfs", "-o", "ro,loop", image, place], check=True)
        return place

    yield mount
    subprocess.run(["umount", place], stderr=subprocess.DEVNULL)


def describe(path):
    status = os.lstat(path)
    found = [status.st_mode, status.st_uid, status.st_gid, status.st_size, int(status.st_mtime), status.st_nlink, status.st_rdev, status.st_ino,
             status.st_blocks]
    if stat.S_ISREG(status.st_mode):
        found.append(hashlib.sha256(path.read_bytes()).hexdigest())
    elif stat.S_ISLNK(status.st_mode):
        found.append(os.readlink(path))
    elif stat.S_ISDIR(status.st_mode):
        found.append(os.listdir(path))
    try:
        names = os.listxattr(path, follow_symlinks=False)
        found.append(sorted((name, os.getxattr(path, name, follow_symlinks=False)) for name in names))
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
        found.append([])
    return found


def describe_all(top):
    whole = {".": describe(top)}
    for directory, directories, names in os.walk(top):
        for name in directories + names:
            path = pathlib.Path(directory, name)
            whole[str(path.relative_to(top))] = describe(path)
    filesystem = os.statvfs(top)
    return whole, (filesystem.f_bsize, filesystem.f_blocks, filesystem.f_files)


def compare(server, image, tmp_path, mounted_by_kernel):
    with Mount(server, image, tmp_path / "fuse") as mount:
        found, filesystem = describe_all(mount.place)
    expected, expected_filesystem = describe_all(mounted_by_kernel(image))
    assert sorted(found) == sorted(expected) and filesystem == expected_filesystem
    different = {path: (found[path], expected[path]) for path in expected if found[path] != expected[path]}
    assert not different
    assert mount.errors == "" and mount.process.returncode == 0


@pytest.mark.parametrize("options", [*(("-comp", name) for name in COMPRESSORS), ("-b", "4K"), ("-b", "1M", "-always-use-fragments"),
                                     ("-noI", "-noD", "-noF"), ("-no-fragments", "-no-exports"), ("-comp", "xz", "-Xbcj", "x86", "-Xdict-size", "8K")],
                         ids="".join)
def test_shows_what_the_kernel_shows(server, tree, tmp_path, mounted_by_kernel, options):
    compare(server, make_image(tree, tmp_path / "image", *options), tmp_path, mounted_by_kernel)


def test_shows_attributes_as_the_kernel_does(server, attributes, tmp_path, mounted_by_kernel):
    compare(server, make_image(attributes, tmp_path / "image"), tmp_path, mounted_by_kernel)


def test_owners_can_be_replaced(server, tree, tmp_path):
    with Mount(server, make_image(tree, tmp_path / "image"), tmp_path / "fuse", "-o", "uid=77,gid=78") as mount:
        assert {(os.lstat(path).st_uid, os.lstat(path).st_gid) for path in (mount.place, mount.place / "dir/random")} == {(77, 78)}


def test_many_readers_at_once(server, tree, tmp_path):
    """Random parts of files from several processes, with a cache that holds little."""
    script = """
import os, random, sys
place, tree, seed = sys.argv[1:]
numbers = random.Random(seed)
for _ in range(300):
    name = numbers.choice(["dir/compressible", "dir/random", "dir/exact", "sparse", "many/" + "n" * 60 + "00042"])
    with open(f"{place}/{name}", "rb", buffering=0) as mine, open(f"{tree}/{name}", "rb") as other:
        offset, size = numbers.randrange(500000), numbers.randrange(1, 400000)
        os.posix_fadvise(mine.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        mine.seek(offset); other.seek(offset)
        assert mine.read(size) == other.read(size), (name, offset, size)
"""
    with Mount(server, make_image(tree, tmp_path / "image"), tmp_path / "fuse", "-o", "cache=1,metadata_cache=1") as mount:
        readers = [subprocess.Popen(["python3", "-c", script, mount.place, tree, str(seed)]) for seed in range(6)]
        assert [reader.wait(timeout=300) for reader in readers] == [0] * 6
    assert mount.errors == ""


def test_serves_a_descriptor_in_the_background_of_nobody(server, tree, tmp_path):
    """As the starter does: the mount is the caller's, and the server ends with it."""
    image = make_image(tree, tmp_path / "image")
    place = tmp_path / "fuse"
    place.mkdir()
    device = os.open("/dev/fuse", os.O_RDWR)
    subprocess.run(["mount", "-i", "-t", "fuse", "-o", f"ro,fd={device},rootmode=40000,user_id=0,group_id=0", "test", place], check=True, pass_fds=[device])
    with open(image, "rb") as file:
        process = subprocess.Popen([server, f"/dev/fd/{file.fileno()}", f"/dev/fd/{device}"], pass_fds=[file.fileno(), device])
    os.close(device)
    assert (place / "hard").read_bytes() == b"hello"
    subprocess.run(["umount", place], check=True)
    assert process.wait(timeout=300) == 0


def test_background_and_signal(server, tree, tmp_path):
    place = tmp_path / "fuse"
    place.mkdir()
    subprocess.run([server, make_image(tree, tmp_path / "image"), place], check=True, timeout=300)
    assert (place / "hard").read_bytes() == b"hello"
    pid = next(pid for pid, _, command in system.processes() if str(place) in command)
    system.kill(pid, signal.SIGTERM)
    assert system.eventually(lambda: not os.path.ismount(place))
    assert system.eventually(lambda: not any(str(place) in command for _, _, command in system.processes()))


def test_a_mount_outlives_a_signal_that_the_caller_ignores(server, tree, tmp_path):
    place = tmp_path / "fuse"
    place.mkdir()
    subprocess.run(["nohup", server, make_image(tree, tmp_path / "image"), place], check=True, timeout=300)
    pid = next(pid for pid, _, command in system.processes() if str(place) in command)
    system.stop(pid)  # the kernel keeps what it gets now, unless it drops that
    system.kill(pid, signal.SIGHUP)
    assert f"ShdPnd:\t{0:016x}" in pathlib.Path(f"/proc/{pid}/status").read_text()
    system.kill(pid, signal.SIGCONT)
    system.kill(pid, signal.SIGTERM)
    assert system.eventually(lambda: not any(str(place) in command for _, _, command in system.processes()))


def test_runs_confined(server, tree, tmp_path):
    with Mount(server, make_image(tree, tmp_path / "image"), tmp_path / "fuse") as mount:
        for task in pathlib.Path(f"/proc/{mount.process.pid}/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
        limits = pathlib.Path(f"/proc/{mount.process.pid}/limits").read_text()
        assert "Max open files            0                    0" in limits


def resident(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0])


def test_idle_server_gives_its_caches_back(server, tree, tmp_path):
    with Mount(server, make_image(tree, tmp_path / "image"), tmp_path / "fuse") as mount:
        full = 0  # the most: a server that is read slowly may find itself idle before the end
        for path in (tree / "dir").iterdir():
            assert (mount.place / "dir" / path.name).read_bytes() == path.read_bytes()
            full = max(full, resident(mount.process))
        assert system.eventually(lambda: resident(mount.process) < full - 512)
        assert len({(mount.place / "many" / name).read_bytes() for name in os.listdir(tree / "many")}) == 3000


def requests(process):
    """Each is read by one system call."""
    return int(pathlib.Path(f"/proc/{process.pid}/io").read_text().split("syscr:")[1].split()[0])


def test_listings_bring_attributes_if_they_are_wanted(server, tmp_path):
    for number in range(1000):
        write(tmp_path / f"tree/{number // 20}/{number}", b"x")
    with Mount(server, make_image(tmp_path / "tree", tmp_path / "image"), tmp_path / "fuse") as mount:
        begin = requests(mount.process)
        for directory, _, names in os.walk(mount.place):
            for name in names:
                assert os.lstat(os.path.join(directory, name)).st_size == 1
        assert requests(mount.process) - begin < 600


def test_killed_server_leaves_errors_but_no_hang(server, tree, tmp_path):
    with Mount(server, make_image(tree, tmp_path / "image"), tmp_path / "fuse") as mount:
        mount.process.kill()
        mount.process.wait(timeout=300)
        with pytest.raises(OSError) as error:
            (mount.place / "dir/random").read_bytes()
        assert error.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)


def test_image_that_is_cut_off_while_mounted(server, tree, tmp_path):
    image = make_image(tree, tmp_path / "image")
    with Mount(server, image, tmp_path / "fuse") as mount:
        os.truncate(image, 4096)
        with pytest.raises(OSError) as error:
            (mount.place / "dir/random").read_bytes()
        assert error.value.errno == errno.EIO
        assert mount.process.poll() is None
    assert mount.errors.startswith("sarus-squashfs: ")


@pytest.mark.parametrize("content, message", [
    (b"", "not a squashfs file"),
    (b"hsqs" + bytes(200), "not a squashfs file"),
    (b"hsqs" + b"\xff" * 200, "not a squashfs file"),
], ids=["empty", "zeros", "ones"])
def test_files_that_are_no_images(server, tmp_path, content, message):
    write(tmp_path / "image", content)
    (tmp_path / "fuse").mkdir()
    result = subprocess.run([server, tmp_path / "image", tmp_path / "fuse"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and message in result.stderr
    assert not os.path.ismount(tmp_path / "fuse")


def test_damaged_images(server, tree, tmp_path):
    """Random damage costs errors, never the server, and little memory; the log stays short."""
    whole = make_image(tree / "dir", tmp_path / "whole", "-noI", "-noId").read_bytes()
    numbers = random.Random(int(os.environ.get("SARUS_FUZZ_SEED") or time.time()))
    for turn in range(25):
        damaged = bytearray(whole)
        for _ in range(numbers.choice([1, 20, 200])):
            # mostly in the metadata, at the end, which is not compressed
            damaged[numbers.choice([numbers.randrange(96, len(damaged)), len(damaged) - numbers.randrange(1, 700)])] = numbers.randrange(256)
        write(tmp_path / "image", damaged)
        mount = Mount(server, tmp_path / "image", tmp_path / "fuse")
        if mount.ready:
            with mount:
                subprocess.run(["find", mount.place, "-size", "-9000k", "-type", "f", "-exec", "cat", "{}", "+"], timeout=300, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
                assert mount.process.poll() is None
                status = pathlib.Path(f"/proc/{mount.process.pid}/status").read_text()
                assert int(status.split("VmHWM:")[1].split()[0]) < 64 * 1024
            assert mount.process.returncode == 0 and mount.errors.count("\n") <= 20, mount.errors
        else:
            assert mount.process.wait(timeout=300) == 1 and mount.process.stderr.read()
            mount.process.stderr.close()
