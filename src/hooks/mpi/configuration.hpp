#pragma once

#include <string>
#include <vector>

#include "hooks/kit/hook_environment.hpp"
#include "hooks/kit/host_library.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks::mpi {

/// The settings in the `env` of the hook's JSON file (docs/reference/hooks.md, "MPI hook").
struct Configuration {
    std::vector<HostLibrary> mpiLibraries;  ///< MPI_LIBS
    std::vector<HostLibrary> dependencies;  ///< MPI_DEPENDENCY_LIBS
    std::vector<std::string> bindMounts;    ///< BIND_MOUNTS
    AbiPolicy policy = AbiPolicy::major;    ///< MPI_COMPATIBILITY_TYPE
    bool isRootless = false;                ///< HOOK_ROOTLESS
    bool isMissingVersionFatal = true;      ///< MPI_VERSION_CHECK is not "warn"
};

/// Every mistake of the configuration, one message each; empty if there is none. Reads the configured
/// libraries.
std::vector<std::string> checkConfiguration(const HookEnvironment& environment);

/// Throws Error with all mistakes found by checkConfiguration().
Configuration readConfiguration(const HookEnvironment& environment);

}  // namespace sarus::hooks::mpi
