#include "hook_contracts/callers_settings.hpp"

#include <algorithm>
#include <array>

namespace sarus::hook_contracts {

namespace {

constexpr std::array<std::string_view, 3> families{"com.hooks.", "mps.", "podman_hpc."};

/// Their hooks work in the container alone, with what the site has configured.
constexpr std::array<std::string_view, 7> harmless{"com.hooks.glibc.enabled", "com.hooks.ldcache.enabled",
                                                   "com.hooks.logging.level", "com.hooks.mount.enabled",
                                                   "com.hooks.mpi.enabled",   "com.hooks.mpi.type",
                                                   "com.hooks.pce.enabled"};

constexpr std::array<std::string_view, 11> callersVariables{
    "TIMESTAMP_HOOK_LOGFILE", "SLURM_JOB_ID", "SLURM_STEPID", "SLURM_STEP_ID", "SLURM_JOB_UID",
    "SLURM_MPI_TYPE",         "SLURM_NTASKS", "SLURM_PROCID", "SLURM_GTIDS",   "SLURM_NODEID",
    "SLURM_RESTART_COUNT"};

}  // namespace

bool isCallersAnnotation(std::string_view key) {
    return std::any_of(families.begin(), families.end(),
                       [&](auto family) { return key.starts_with(family); }) &&
           std::find(harmless.begin(), harmless.end(), key) == harmless.end();
}

std::string firstCallersAnnotation(const std::map<std::string, std::string>& annotations) {
    const auto found = std::find_if(annotations.begin(), annotations.end(),
                                    [](const auto& one) { return isCallersAnnotation(one.first); });
    return found == annotations.end() ? "" : found->first;
}

bool isCallersVariable(std::string_view name) {
    return std::find(callersVariables.begin(), callersVariables.end(), name) != callersVariables.end();
}

}  // namespace sarus::hook_contracts
