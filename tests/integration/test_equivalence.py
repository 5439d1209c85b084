"""The one-pass conversion gives what an ordinary unpack gives.

Multi-layer images are converted by sarus-image-builder and, independently, unpacked by umoci; then both trees are compared entry by entry:
type, permissions, time, size, content, link target, extended attributes, capabilities, device numbers and groups of hard links. The owner
is another one by intention: in a converted image everything belongs to the user who converts.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import stat
import shutil
import subprocess
import tarfile

import pytest
from helpers import system
from helpers.debian import mirror
from helpers.images import architecture

pytestmark = pytest.mark.asroot

OWNER = (4711, 4712)
NET_RAW = "\x01\0\0\x02\0\x20\0\0" + 12 * "\0"  # struct vfs_cap_data, version 2: CAP_NET_RAW permitted and effective


class Layer:
    """A tar archive in the making; directories are explicit unless the test wants otherwise."""

    def __init__(self):
        self.stream = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.stream, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, kind=tarfile.REGTYPE, content=b"", link="", mode=0o644, mtime=1_000_000_000, pax=None, device=(0, 0)):
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode, info.mtime, info.size = kind, link, mode, mtime, len(content)
        info.devmajor, info.devminor = device
        info.pax_headers = pax or {}
        self.tar.addfile(info, io.BytesIO(content))
        return self

    def file(self, name, content, **more):
        return self.add(name, content=content if isinstance(content, bytes) else content.encode(), **more)

    def directory(self, name, mode=0o755, **more):
        return self.add(name, kind=tarfile.DIRTYPE, mode=mode, **more)

    def symlink(self, name, target):
        return self.add(name, kind=tarfile.SYMTYPE, link=target, mode=0o777)

    def hardlink(self, name, target):
        return self.add(name, kind=tarfile.LNKTYPE, link=target)

    def whiteout(self, name):
        folder, _, base = name.rpartition("/")
        return self.file(f"{folder}/.wh.{base}" if folder else f".wh.{base}", b"")

    def opaque(self, folder):
        return self.file(f"{folder}/.wh..wh..opq", b"")

    def tree(self, source, prefix):
        self.tar.add(source, arcname=prefix)
        return self

    def finish(self):
        self.tar.close()
        return self.stream.getvalue()


def write_layout(path, layers, compress=gzip.compress, suffix="+gzip"):
    blobs = path / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    descriptors, diff_ids = [], []
    for layer in layers:
        descriptors.append({"mediaType": f"application/vnd.oci.image.layer.v1.tar{suffix}", **blob(compress(layer))})
        diff_ids.append("sha256:" + hashlib.sha256(layer).hexdigest())
    config = {"architecture": architecture(), "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids},
              "history": [{"created_by": "test"} for _ in layers]}
    config_blob = blob(json.dumps(config).encode())
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config_blob}, "layers": descriptors}
    manifest_blob = blob(json.dumps(manifest).encode())
    index = {"schemaVersion": 2, "manifests": [{"mediaType": manifest["mediaType"], **manifest_blob,
                                                "annotations": {"org.opencontainers.image.ref.name": "test"}}]}
    (path / "index.json").write_text(json.dumps(index))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def describe(root):
    """Everything that is compared, by relative name."""
    entries, groups = {}, {}
    for folder, names, files in os.walk(root):
        for name in [*names, *files] + ([""] if folder == str(root) else []):
            path = pathlib.Path(folder, name)
            status = path.lstat()
            relative = str(path.relative_to(root))
            entry = {"mode": oct(status.st_mode), "mtime": int(status.st_mtime)}
            if stat.S_ISREG(status.st_mode):
                entry["size"] = status.st_size
                entry["content"] = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                entry["target"] = os.readlink(path)
            elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
                entry["device"] = (os.major(status.st_rdev), os.minor(status.st_rdev))
            if not stat.S_ISLNK(status.st_mode):
                entry["xattrs"] = {key: os.getxattr(path, key) for key in os.listxattr(path) if key.startswith("user.") or key == "security.capability"}
            if not stat.S_ISDIR(status.st_mode):
                groups.setdefault(status.st_ino, []).append(relative)
            entries[relative] = entry
    for group in groups.values():
        for name in group:
            entries[name]["links"] = sorted(group)
    return entries


def assert_equivalent(tmp_path, build_dir, layers, without_time=(), **layout):
    write_layout(tmp_path / "layout", layers, **layout)
    subprocess.run(["umoci", "raw", "unpack", "--image", f"{tmp_path}/layout:test", tmp_path / "reference"], check=True, capture_output=True)
    result = subprocess.run([build_dir / "sarus-image-builder", "build", tmp_path / "layout", tmp_path / "image.squashfs",
                             "--owner", f"{OWNER[0]}:{OWNER[1]}"], check=True, capture_output=True, text=True)
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", tmp_path / "ours", tmp_path / "image.squashfs"], check=True, capture_output=True)
    reference, ours = describe(tmp_path / "reference"), describe(tmp_path / "ours")
    for name in without_time:
        for tree in (reference, ours):
            tree[name].pop("mtime")
    assert ours.keys() == reference.keys()
    different = {name: (ours[name], reference[name]) for name in reference if ours[name] != reference[name]}
    assert not different
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in [tmp_path / "ours", *(tmp_path / "ours").rglob("*")]} == {OWNER}
    report = json.loads(result.stdout)
    assert report["entries"] == len(reference) - 1
    assert report["squashfsSize"] == (tmp_path / "image.squashfs").stat().st_size
    verity = subprocess.run(["fsverity", "digest", "--compact", tmp_path / "image.squashfs"], check=True, capture_output=True, text=True)
    assert report["squashfsDigest"] == f"fsverity-sha256:{verity.stdout.strip()}"


def base():
    """A small merged-usr system with every kind of entry."""
    layer = Layer().directory(".", mtime=900_000_000)
    for folder in ("dev", "etc", "opt", "tmp", "usr", "usr/bin", "usr/lib", "usr/share", "usr/share/doc", "var"):
        layer.directory(folder, mode=0o1777 if folder == "tmp" else 0o755)
    layer.symlink("bin", "usr/bin").symlink("lib", "usr/lib")
    layer.file("usr/bin/tool", os.urandom(300_000), mode=0o755).hardlink("usr/bin/tool2", "usr/bin/tool").hardlink("usr/bin/tool3", "usr/bin/tool")
    layer.file("usr/bin/su", "x", mode=0o4755).file("usr/bin/wall", "x", mode=0o2755).file("etc/shadow", "secret", mode=0o600)
    layer.file("usr/bin/ping", "x", mode=0o755, pax={"SCHILY.xattr.security.capability": NET_RAW})
    layer.file("etc/empty", "").file("etc/conf", "one", pax={"SCHILY.xattr.user.note": "hello"})
    layer.directory("etc/attr", pax={"SCHILY.xattr.user.dir": "d"})
    for number in range(50):
        layer.file(f"usr/share/doc/{number}", f"document {number}\n" * number, mtime=1_100_000_000 + number)
    layer.file("usr/lib/library.so.1", os.urandom(150_000), mode=0o755).symlink("usr/lib/library.so", "library.so.1")
    layer.add("dev/null", kind=tarfile.CHRTYPE, mode=0o666, device=(1, 3)).add("dev/disk", kind=tarfile.BLKTYPE, mode=0o660, device=(8, 1))
    layer.add("dev/pipe", kind=tarfile.FIFOTYPE, mode=0o600)
    layer.file("opt/" + "n" * 200, "long name")
    return layer.finish()


def test_additions_changes_and_removals(tmp_path, build_dir):
    second = Layer().directory("etc").file("etc/conf", "two", mode=0o640).file("etc/new", "n").whiteout("usr/bin/su")
    second.directory("usr/share").opaque("usr/share").directory("usr/share/fresh").file("usr/share/fresh/f", "x")
    third = Layer().directory("opt", mode=0o700, mtime=1_200_000_000).whiteout("etc/new").file("usr/share/fresh/g", "y")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish(), third.finish()])


def test_type_changes(tmp_path, build_dir):
    second = Layer().file("usr/share", "was a directory").directory("etc/conf").file("etc/conf/x", "1").symlink("etc/shadow", "conf/x")
    second.symlink("etc/empty", "nowhere").directory("usr/lib/library.so", mode=0o711)
    third = Layer().file("etc/shadow", "was a link").directory("usr/share", mode=0o750).file("usr/share/f", "again")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish(), third.finish()])


def test_hard_links_across_layers(tmp_path, build_dir):
    second = Layer().hardlink("usr/bin/tool4", "usr/bin/tool").file("usr/bin/tool2", "no longer a link", mode=0o755)
    third = Layer().whiteout("usr/bin/tool").hardlink("opt/doc", "usr/share/doc/7").hardlink("opt/link", "usr/lib/library.so")
    fourth = Layer().file("usr/share/doc/7", "changed")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish(), third.finish(), fourth.finish()])


def test_names_through_symlinked_directories(tmp_path, build_dir):
    second = Layer().file("lib/added.so", "1").file("bin/tool", "replaced", mode=0o755).whiteout("lib/library.so.1").hardlink("bin/alias", "bin/wall")
    third = Layer().directory("lib").file("lib/own", "lib is a directory now")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish(), third.finish()])


def test_whiteout_and_new_content_in_one_layer(tmp_path, build_dir):
    second = Layer().whiteout("etc").directory("etc", mode=0o711).file("etc/only", "1")
    third = Layer().directory("usr/lib").file("usr/lib/new", "2").opaque("usr/lib")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish(), third.finish()])


def test_directories_that_no_layer_describes(tmp_path, build_dir):
    second = Layer().file("made/by/umoci/f", "1")
    assert_equivalent(tmp_path, build_dir, [base(), second.finish()], without_time=(".", "made", "made/by", "made/by/umoci"))


def test_duplicates(tmp_path, build_dir):
    layer = Layer().directory("d").file("d/a", "first").hardlink("d/b", "d/a").file("d/a", "second").directory("d", mode=0o700).file("d/c", "x")
    assert_equivalent(tmp_path, build_dir, [base(), layer.finish()])


def test_plain_layers(tmp_path, build_dir):
    assert_equivalent(tmp_path, build_dir, [base(), Layer().whiteout("etc/conf").finish()], compress=bytes, suffix="")


def test_capabilities_are_kept_and_replaced_with_their_files(tmp_path, build_dir):
    second = Layer().file("usr/bin/ping", "y", mode=0o755).file("usr/bin/tool5", "z", pax={"SCHILY.xattr.security.capability": NET_RAW})
    assert_equivalent(tmp_path, build_dir, [base(), second.finish()])
    assert os.getxattr(tmp_path / "ours/usr/bin/tool5", "security.capability") == NET_RAW.encode()
    assert "security.capability" not in os.listxattr(tmp_path / "ours/usr/bin/ping")


def zstd(data):
    return subprocess.run([system.program("zstd"), "-q", "-c"], input=data, check=True, capture_output=True).stdout


def test_zstd_layers(tmp_path, build_dir):
    """Compared with the same image in gzip, which umoci reads: it knows no zstd."""
    layers = [base(), Layer().whiteout("etc/conf").file("etc/new", os.urandom(100_000)).finish()]
    assert_equivalent(tmp_path, build_dir, layers)
    write_layout(tmp_path / "zstd", layers, compress=zstd, suffix="+zstd")
    subprocess.run([build_dir / "sarus-image-builder", "build", tmp_path / "zstd", tmp_path / "zstd.squashfs", "--owner", f"{OWNER[0]}:{OWNER[1]}"],
                   check=True, capture_output=True)
    assert (tmp_path / "zstd.squashfs").read_bytes() == (tmp_path / "image.squashfs").read_bytes()


def overlay_layer(upper):
    """What an engine makes of the upper directory of an overlay: its marks become those of a layer."""
    layer = Layer()
    for folder, names, files in os.walk(upper):
        names.sort()
        here = pathlib.Path(folder).relative_to(upper)
        if str(here) != ".":
            layer.tar.add(folder, arcname=here, recursive=False)
            if b"y" in [os.getxattr(folder, key) for key in os.listxattr(folder) if key == "trusted.overlay.opaque"]:
                layer.opaque(str(here))
        for name in sorted([*files, *(name for name in names if pathlib.Path(folder, name).is_symlink())]):
            path = pathlib.Path(folder, name)
            status = path.lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                layer.whiteout(str(here / name))
            else:
                entry = layer.tar.gettarinfo(path, arcname=here / name)
                if "security.capability" in os.listxattr(path, follow_symlinks=False):
                    entry.pax_headers = {"SCHILY.xattr.security.capability": os.getxattr(path, "security.capability").decode()}
                with open(path, "rb") if entry.isreg() else io.BytesIO() as content:
                    layer.tar.addfile(entry, content)
    return layer.finish()


@pytest.mark.thorough
def test_debian_with_installed_upgraded_and_removed_packages(tmp_path, build_dir):
    """Debian by debootstrap, and above it what apt and dpkg leave in the upper directory of an overlay."""
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    subprocess.run([system.program("debootstrap"), "--variant=minbase", "bookworm", str(lower), mirror()],
                   check=True, capture_output=True, env={"PATH": system.PATH})
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", overlay], check=True)
    try:
        upper, work = overlay / "upper", overlay / "work"
        for folder in (upper, work, merged):
            folder.mkdir()
        subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "none", merged], check=True)
        try:
            shutil.copy("/etc/resolv.conf", merged / "etc/resolv.conf")
            for command in (["apt-get", "update"], ["apt-get", "install", "-y", "libcap2-bin"],
                            ["apt-get", "install", "-y", "--no-install-recommends", "iputils-ping", "less"],
                            ["apt-get", "install", "-y", "--reinstall", "bash", "libc-bin"], ["dpkg", "--purge", "--force-all", "tzdata", "e2fsprogs"],
                            ["apt-get", "clean"], ["rm", "-r", "/var/lib/apt/lists"]):
                subprocess.run(["chroot", merged, *command], check=True, capture_output=True,
                               env={**os.environ, "PATH": system.PATH, "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"})
        finally:
            subprocess.run(["umount", merged], check=True)
        second = overlay_layer(upper)
    finally:
        subprocess.run(["umount", overlay], check=True)
    first = subprocess.run(["tar", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--sort=name", "-C", lower, "-c", "."],
                           check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(second)) as archive:
        names = archive.getnames()
    assert any("/.wh." in name for name in names) and any(name.endswith("bin/less") for name in names), "the second layer should change something"
    assert_equivalent(tmp_path, build_dir, [first, second], without_time=(".",), compress=lambda layer: gzip.compress(layer, 1))
    assert os.getxattr(tmp_path / "ours/usr/bin/ping", "security.capability") == NET_RAW.encode()


@pytest.mark.thorough
def test_a_tree_of_this_system(tmp_path, build_dir):
    """Real files: time zones with their many links, Perl's library, a part of /etc, changed by later layers."""
    [perl] = pathlib.Path("/usr/lib").glob("*-linux-gnu*/perl-base")
    first = Layer().tree("/usr/share/zoneinfo", "usr/share/zoneinfo").tree(perl, "usr/lib/perl-base")
    second = Layer().tree("/etc/ssl", "etc/ssl").whiteout("usr/share/zoneinfo/Europe").tree("/usr/share/zoneinfo/Europe/Zurich", "usr/share/zoneinfo/Europe/Zurich")
    parents = ("usr", "usr/share", "usr/share/zoneinfo", "usr/lib", "etc", "usr/share/zoneinfo/Europe")
    assert_equivalent(tmp_path, build_dir, [first.finish(), second.finish()], without_time=(".", *parents))


def test_sparse_files(tmp_path, build_dir):
    """Compared with the file itself: umoci refuses sparse members."""
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(20_000_000)
        for position in range(1_000_000, 20_000_000, 500_000):
            file.seek(position)
            file.write(b"island")
    for tar_format in ("gnu", "pax"):
        archive = subprocess.run(["tar", "-C", tmp_path, f"--format={tar_format}", "--sparse", "-c", "sparse"], check=True, capture_output=True).stdout
        assert len(archive) < 1_000_000, "the archive should be sparse"
        work = tmp_path / tar_format
        work.mkdir()
        write_layout(work / "layout", [base(), archive])
        subprocess.run([build_dir / "sarus-image-builder", "build", work / "layout", work / "image.squashfs"], check=True, capture_output=True)
        subprocess.run([build_dir / "sarus-image-builder", "unpack", work / "image.squashfs", work / "ours"], check=True)
        assert (work / "ours/sparse").read_bytes() == sparse.read_bytes()
        assert (work / "image.squashfs").stat().st_size < 1_000_000


def test_the_output_of_unpack_is_the_image_without_privileges(tmp_path, build_dir):
    write_layout(tmp_path / "layout", [base()])
    builder = build_dir / "sarus-image-builder"
    subprocess.run([builder, "build", tmp_path / "layout", tmp_path / "image.squashfs"], check=True, capture_output=True)
    subprocess.run([builder, "unpack", tmp_path / "image.squashfs", tmp_path / "unpacked"], check=True)
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", tmp_path / "reference", tmp_path / "image.squashfs"], check=True, capture_output=True)
    reference = {name: entry for name, entry in describe(tmp_path / "reference").items() if "device" not in entry}
    for entry in reference.values():
        if not stat.S_ISLNK(int(entry["mode"], 8)):
            entry["mode"] = oct(int(entry["mode"], 8) & ~0o6000)
        entry.get("xattrs", {}).pop("security.capability", None)
    assert describe(tmp_path / "unpacked") == reference


def test_errors_are_one_line_and_leave_nothing(tmp_path, build_dir):
    write_layout(tmp_path / "layout", [base()])
    blob = max((tmp_path / "layout/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    result = subprocess.run([build_dir / "sarus-image-builder", "build", tmp_path / "layout", tmp_path / "image.squashfs"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "layer sha256:" in result.stderr.lower() and result.stderr.count("\n") <= 2
    assert not (tmp_path / "image.squashfs").exists()


def test_a_report_that_cannot_be_written_is_an_error(tmp_path, build_dir):
    write_layout(tmp_path / "layout", [base()])
    with open("/dev/full", "wb") as full:
        result = subprocess.run([build_dir / "sarus-image-builder", "build", tmp_path / "layout", tmp_path / "image"],
                                stdout=full, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (1, "Failed to write to standard output: No space left on device\n")


@pytest.fixture
def small(tmp_path):
    """A file system of 12 MiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", mount], check=True)
    yield mount
    subprocess.run(["umount", mount], check=True)


def convert_into(build_dir, layout, file):
    with open(file, "w+b") as output:
        return subprocess.run([build_dir / "sarus-image-builder", "build", layout, "-"], stdin=output, capture_output=True, text=True)


@pytest.mark.parametrize("compress, suffix", [(gzip.compress, "+gzip"), (bytes, "")], ids=["gzip", "plain"])
def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path, build_dir, small, compress, suffix):
    write_layout(tmp_path / "layout", [Layer().file("a", os.urandom(13_000_000)).finish()], compress, suffix)
    result = convert_into(build_dir, tmp_path / "layout", small / "image")
    assert result.returncode == 1
    assert re.search(r"Not enough space to convert the image: its file needs 12\.\d\dMB, and 12\.00MB are available", result.stderr), result.stderr
    assert (small / "image").stat().st_size == 0


def equal_files():
    layer, noise = Layer(), os.urandom(5_000_000)
    for name in "abcd":
        layer.file(name, noise)
    return [layer.finish()]


@pytest.mark.parametrize("layers", [
    lambda: [Layer().file("zeros", bytes(100_000_000)).finish()],
    lambda: [Layer().file("noise", os.urandom(40_000_000)).finish(), Layer().file(".wh.noise", b"").finish()],
    equal_files,
], ids=["compressed", "hidden", "equal"])
@pytest.mark.parametrize("compress, suffix", [(gzip.compress, "+gzip"), (bytes, "")], ids=["gzip", "plain"])
def test_what_fits_is_not_refused(tmp_path, build_dir, small, layers, compress, suffix):
    """However large the layers are."""
    write_layout(tmp_path / "layout", layers(), compress, suffix)
    result = convert_into(build_dir, tmp_path / "layout", small / "image")
    assert result.returncode == 0, result.stderr
    first = (small / "image").read_bytes()
    assert subprocess.run(["unsquashfs", "-s", small / "image"], capture_output=True).returncode == 0
    assert convert_into(build_dir, tmp_path / "layout", tmp_path / "image").returncode == 0
    assert (tmp_path / "image").read_bytes() == first  # as where there is much space


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, build_dir, small):
    write_layout(tmp_path / "layout", [Layer().file("a", os.urandom(10_000_000).hex()).finish()])
    # The layer's blob is far smaller than the file that this compressor makes of it.
    result = subprocess.run([build_dir / "sarus-image-builder", "build", tmp_path / "layout", small / "image", "--mksquashfs-options", "-comp lz4"],
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert list(small.iterdir()) == []


@pytest.mark.parametrize("launcher, size, status", [(["nice", "-n", "19"], 500_000_000, -15), (["env", "--ignore-signal=TERM"], 50_000_000, 0)])
def test_a_terminated_conversion_leaves_nothing_unless_the_caller_ignores_the_signal(tmp_path, build_dir, launcher, size, status):
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(size)
    layer = subprocess.run(["tar", "-C", tmp_path, "-c", "zeros"], check=True, capture_output=True).stdout
    write_layout(tmp_path / "layout", [layer], compress=bytes, suffix="")
    del layer
    process = subprocess.Popen([*launcher, build_dir / "sarus-image-builder", "build", tmp_path / "layout", tmp_path / "image.squashfs"],
                               stderr=subprocess.DEVNULL)
    while not (tmp_path / "image.squashfs").exists() and process.poll() is None:
        pass
    process.terminate()
    assert process.wait() == status
    assert (tmp_path / "image.squashfs").exists() == (status == 0)
