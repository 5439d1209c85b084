"""Package for Spack. Its own repository has squashfs, which is another program without this library."""

try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage  # Spack 1.0
except ImportError:
    from spack.build_systems.autotools import AutotoolsPackage
from spack.package import depends_on, license, version


class SquashfsToolsNg(AutotoolsPackage):
    """Tools for squashfs images, and the library libsquashfs that reads and writes them."""

    homepage = "https://github.com/AgentD/squashfs-tools-ng"
    # Debian's copy of the release: its signed index of sources has the checksum.
    url = "https://deb.debian.org/debian/pool/main/s/squashfs-tools-ng/squashfs-tools-ng_1.2.0.orig.tar.gz"

    license("GPL-3.0-or-later AND LGPL-3.0-or-later")

    version("1.2.0", sha256="e6f627a97ae0f484905de1718728a8879e8600b324d22d09a63cf92e9c9e1132")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("lz4")
    depends_on("lzo")
    depends_on("xz")
    depends_on("zlib-api")
    depends_on("zstd")
