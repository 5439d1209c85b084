#pragma once

#include <string>
#include <vector>

#include "hooks/kit/host_library.hpp"

namespace sarus::hooks::mpi {

/// What a hook file for one MPI of this node needs to say, and what its administrator should know.
struct Suggestion {
    std::vector<std::string> mpiLibraries;
    std::vector<std::string> dependencies{};
    std::vector<std::string> bindMounts{};
    std::vector<std::string> notes{};
};

/// Finds what the MPI library `path` of this node needs in containers: the libraries of its other languages
/// in the same directory; the libraries that these load, without the C library; the directories from which
/// they load plug-ins (UCX, libfabric, libibverbs, Open MPI, PMIx) with what the plug-ins load; and the
/// devices of networks on this node. `libraryPath`: the caller's LD_LIBRARY_PATH. Throws Error if it is no
/// library.
Suggestion suggest(const std::string& path, const std::string& libraryPath);

/// The suggestion as a hook file, whose program is `hook`.
std::string formatHookFile(const Suggestion& suggestion, const std::string& hook);

/// Libraries that are neither in MPI_LIBS nor in MPI_DEPENDENCY_LIBS but are needed by one of them, which the
/// container would have to bring. Compilers' run-time libraries, which every image with an MPI program has,
/// are left out.
std::vector<std::string> uncoveredNeeds(const std::vector<HostLibrary>& libraries,
                                        const std::vector<HostLibrary>& dependencies);

/// "MPICH (ABI 12.2)", "Open MPI (ABI 40.30)", "Intel MPI", "Cray MPICH", "MVAPICH"; empty for a library that
/// is none of these.
std::string describeMpi(const HostLibrary& library);

}  // namespace sarus::hooks::mpi
