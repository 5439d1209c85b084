#include "hooks/mpi/configuration.hpp"

#include "base/error.hpp"
#include "hooks/kit/host_library.hpp"

namespace sarus::hooks::mpi {

Configuration readConfiguration(const HookEnvironment& environment) {
    const auto list = [&](std::string_view name) { return parsePathList(name, environment.find(name).value_or("")); };
    Configuration result;
    result.mpiLibraries = parsePathList("MPI_LIBS", environment.require("MPI_LIBS"));
    if (result.mpiLibraries.empty()) {
        throw Error("MPI_LIBS names no library");
    }
    result.dependencies = list("MPI_DEPENDENCY_LIBS");
    result.bindMounts = list("BIND_MOUNTS");
    result.policy = parsePolicy(environment.find("MPI_COMPATIBILITY_TYPE").value_or(""));
    result.isRootless = environment.isTrue("HOOK_ROOTLESS");
    result.isMissingVersionFatal = environment.find("MPI_VERSION_CHECK") != "warn";
    return result;
}

AbiPolicy parsePolicy(std::string_view text) noexcept {
    return text == "full" ? AbiPolicy::full : text == "strict" ? AbiPolicy::strict : AbiPolicy::major;
}

}  // namespace sarus::hooks::mpi
