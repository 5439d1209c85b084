# cpack: the Debian packages sarus, sarus-hooks, sarus-slurm and podman-hpc. packaging/debian/finish.cmake gives them Debian's layout.
# packaging/rpm/stage.cmake takes the components and the names of the packages from here.

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL sarus hooks)
if(ENABLE_SPANK)
    list(APPEND CPACK_COMPONENTS_ALL slurm)
endif()
if(ENABLE_PODMAN_HPC)
    list(APPEND CPACK_COMPONENTS_ALL podman-hpc)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(SARUS_PACKAGE_MAINTAINER "Packagers of Sarus <packages@sarus.example.org>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${SARUS_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/packaging/debian/finish.cmake")
set(CPACK_SARUS_SOURCE_DIR "${CMAKE_SOURCE_DIR}")
set(CPACK_SARUS_EMULATOR "${CMAKE_CROSSCOMPILING_EMULATOR}")  # of the programs for another architecture
set(CPACK_SARUS_CONTROL_DIR "${CMAKE_BINARY_DIR}/debian")

# sarus_package(COMPONENT NAME DEPENDS RECOMMENDS DESCRIPTION [maintainer scripts...]): its control files are those of packaging/debian.
function(sarus_package component name depends recommends description)
    string(TOUPPER "${component}" id)
    foreach(field IN ITEMS NAME DEPENDS RECOMMENDS)
        string(TOLOWER "${field}" variable)
        set(CPACK_DEBIAN_${id}_PACKAGE_${field} "${${variable}}" PARENT_SCOPE)
    endforeach()
    set(CPACK_COMPONENT_${id}_DESCRIPTION "${description}" PARENT_SCOPE)
    set(control "${CMAKE_BINARY_DIR}/debian/${component}/conffiles")  # written by finish.cmake
    foreach(script IN LISTS ARGN)
        configure_file("packaging/debian/${name}.${script}" "${CMAKE_BINARY_DIR}/debian/${component}/${script}" COPYONLY)
        list(APPEND control "${CMAKE_BINARY_DIR}/debian/${component}/${script}")
    endforeach()
    set(CPACK_DEBIAN_${id}_PACKAGE_CONTROL_EXTRA "${control}" PARENT_SCOPE)
endfunction()

sarus_package(sarus sarus "skopeo, crun | runc" "sarus-hooks, catatonit | tini, fuse3"
    "container engine for HPC systems
Sarus runs containers of many users on shared machines and in jobs: with the
user's identity, one image mount per node, MPI and GPUs of the host."
    postinst postrm)
sarus_package(hooks sarus-hooks "sarus (= ${PROJECT_VERSION})" ""
    "OCI hooks of Sarus for MPI, GPUs and SSH
Hooks add libraries, devices, files and services of the host to containers.
They work with Sarus, podman-hpc and other engines."
    postinst prerm)
if(ENABLE_SPANK)
    sarus_package(slurm sarus-slurm "sarus (= ${PROJECT_VERSION})" ""
        "plugin of Sarus for Slurm
It adds options for containers to srun, sbatch and salloc."
        postinst)
endif()
if(ENABLE_SPANK AND SLURM_RELEASE)  # Slurm loads the plugin of its own release only: an upgrade of Slurm asks for the package built for it
    math(EXPR next "${slurmMonth} + 1")
    string(REGEX REPLACE "^(.)$" "0\\1" next "${next}")
    foreach(package IN ITEMS slurm-wlm-basic-plugins slurm-smd)  # Debian's and Slurm's own packages
        list(APPEND broken "${package} (<< ${SLURM_RELEASE}~)" "${package} (>= ${slurmYear}.${next}~)")
    endforeach()
    list(JOIN broken ", " CPACK_DEBIAN_SLURM_PACKAGE_BREAKS)
endif()
sarus_package(podman-hpc podman-hpc "podman, crun | runc, fuse-overlayfs, uidmap" "skopeo"
    "Podman with the stores, hooks and modules of an HPC site
Stores images as squashfs files that many nodes share, and gives containers
the MPI, GPUs and file systems of the site.")
include(CPack)
