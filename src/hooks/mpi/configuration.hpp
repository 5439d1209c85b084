#pragma once

#include <string>
#include <vector>

#include "hooks/kit/hook_environment.hpp"
#include "hooks/kit/soname_version.hpp"

namespace sarus::hooks::mpi {

/// What the hook's JSON file asks for, in its `env` (docs/hooks.md, "MPI hook").
struct Configuration {
    std::vector<std::string> mpiLibraries;  ///< MPI_LIBS
    std::vector<std::string> dependencies;  ///< MPI_DEPENDENCY_LIBS
    std::vector<std::string> bindMounts;    ///< BIND_MOUNTS
    AbiPolicy policy = AbiPolicy::major;    ///< MPI_COMPATIBILITY_TYPE
    bool isRootless = false;                ///< HOOK_ROOTLESS
    bool isMissingVersionFatal = true;      ///< MPI_VERSION_CHECK is not "warn"
};

/// Throws Error for a missing MPI_LIBS and for paths which are not absolute.
Configuration readConfiguration(const HookEnvironment& environment);

/// As documented: whatever is neither "full" nor "strict" is the default, `major`.
AbiPolicy parsePolicy(std::string_view text) noexcept;

}  // namespace sarus::hooks::mpi
