"""Package for Spack: spack install sarus@develop. docs/admin/guide.md describes its variants."""

import os

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage  # Spack 1.0
except ImportError:
    from spack.build_systems.cmake import CMakePackage
from spack.package import Executable, InstallError, conflicts, depends_on, join_path, license, resource, run_after, run_before, variant, version

# The clone that has this file. Set SARUS_GIT if you have copied the package elsewhere.
CLONE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


class Sarus(CMakePackage):
    """Container engine for HPC systems: runs containers of many users on shared machines and in jobs, with MPI and GPUs of the host."""

    git = os.environ.get("SARUS_GIT", f"file://{CLONE}")

    license("BSD-3-Clause")

    version("develop", branch="main")

    variant("ssh", default=True, description="Build the SSH hook, and the SSH software with which it connects containers")
    variant("podman_hpc", default=True, description="Build podman-hpc, the wrapper of Podman")
    variant("slurm", default=False, description="Build the plugin for Slurm, for the release of Slurm in the spec")
    variant("configure_installation", default=True, description="Run configure_installation.sh after the installation, which needs root")
    variant("unit_tests", default=False, description="Build the test programs")

    depends_on("c", type="build", when="+ssh")
    depends_on("cxx", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("pkgconfig", type="build")

    # An archive, or else the privileged starter would load a library from Spack's directories. Later releases need Abseil, whose libraries are shared.
    depends_on("re2@:2023-08+pic~shared")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("tomlplusplus@3:", type="build")
    depends_on("openssl@1.1:")
    depends_on("squashfs-tools-ng@1:")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("lzo")
    depends_on("isa-l", when="target=x86_64:")
    depends_on("isa-l", when="target=aarch64:")
    depends_on("libyaml", when="+podman_hpc")
    depends_on("slurm", when="+slurm")
    depends_on("googletest", type="build", when="+unit_tests")
    depends_on("libarchive", type="build", when="+unit_tests")

    # musl-gcc links the SSH software, which runs with any C library of an image.
    depends_on("musl", type="build", when="+ssh")
    resource(
        name="dropbear",
        url="https://matt.ucc.asn.au/dropbear/releases/dropbear-2025.89.tar.bz2",
        sha256="0d1f7ca711cfc336dc8a85e672cab9cfd8223a02fe2da0a4a7aeb58c9e113634",
        expand=False,
        placement="dropbear-source",
        when="+ssh",
    )

    # configure_installation.sh writes their paths into sarus.json.
    depends_on("skopeo", type="run")
    depends_on("runc", type="run")
    depends_on("tini", type="run")

    conflicts("platform=darwin", msg="Sarus needs Linux")
    conflicts("platform=windows", msg="Sarus needs Linux")
    conflicts("%gcc@:10", msg="Sarus needs C++20: gcc 11 or clang 14")

    def setup_build_environment(self, env):
        if self.spec.satisfies("+ssh"):
            env.set("DROPBEAR_SOURCE", join_path(self.stage.source_path, "dropbear-source", "dropbear-2025.89.tar.bz2"))

    def cmake_args(self):
        return [
            self.define("CMAKE_UNITY_BUILD", True),
            self.define_from_variant("ENABLE_SSH", "ssh"),
            self.define_from_variant("ENABLE_PODMAN_HPC", "podman_hpc"),
            self.define_from_variant("ENABLE_SPANK", "slurm"),
            self.define_from_variant("ENABLE_UNIT_TESTS", "unit_tests"),
        ]

    @run_before("cmake")
    def check_privileges(self):
        if self.spec.satisfies("+configure_installation") and os.geteuid() != 0:
            raise InstallError("configure_installation needs root: install as root, or install sarus~configure_installation and run its configure_installation.sh")

    @run_after("install")
    def run_configuration(self):
        if self.spec.satisfies("+configure_installation"):
            with open(join_path(self.prefix.libexec, "sarus-starter"), "rb") as starter:
                if b"/ld-linux" in starter.read(4096):  # the dynamic linker's name is in front of the code
                    raise InstallError("sarus-starter is not static: it would load libraries from Spack's directories as root")
            script = Executable(join_path(self.prefix, "configure_installation.sh"))
            script.add_default_env("PATH", os.pathsep.join([*(self.spec[name].prefix.bin for name in ("skopeo", "runc", "tini")), os.environ["PATH"]]))
            script()
