#include "engine/pmix.hpp"

#include <algorithm>

#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"

namespace sarus::engine {

namespace {

/// "" if the variable does not name a directory of the server.
std::string serverDirectory(std::string_view name, std::string_view value) {
    if (!name.starts_with("PMIX_") || !value.starts_with('/')) {
        return {};
    }
    if (name == "PMIX_SERVER_TMPDIR" || (name.starts_with("PMIX_DSTORE_") && name.ends_with("_BASE_PATH"))) {
        return normalizePath(value);
    }
    return name.ends_with("_SEG_PATH") ? normalizePath(directoryOf(value)) : std::string();
}

void addUnlessCovered(std::vector<std::string>& directories, std::string directory) {
    const auto covers = [&](const std::string& other) { return isSameOrBelow(directory, other); };
    const bool inEveryContainer = isSameOrBelow(directory, "/dev/shm");
    if (directory.empty() || inEveryContainer ||
        std::any_of(directories.begin(), directories.end(), covers)) {
        return;
    }
    std::erase_if(directories, [&](const std::string& other) { return isSameOrBelow(other, directory); });
    directories.push_back(std::move(directory));
}

}  // namespace

std::vector<std::string> pmixDirectories(const Environment& host) {
    std::vector<std::string> directories;
    for (const auto& [name, value] : host) {
        addUnlessCovered(directories, serverDirectory(name, value));
    }
    return directories;
}

bool isSlurmPmixStep(const Environment& host) {
    return hook_contracts::isSlurmPmixStep(valueOf(host, "SLURM_MPI_TYPE"), valueOf(host, "SLURM_JOB_ID"),
                                           valueOf(host, "SLURM_STEP_ID"));
}

std::vector<std::string> slurmPmixDirectories(const Environment& host,
                                              const hook_contracts::SlurmDirectories& slurm) {
    return hook_contracts::slurmPmixDirectories({.job = std::string(valueOf(host, "SLURM_JOB_ID")),
                                                 .step = std::string(valueOf(host, "SLURM_STEP_ID")),
                                                 .uid = std::string(valueOf(host, "SLURM_JOB_UID"))},
                                                slurm);
}

std::vector<std::string> directoriesOfSlurmStep(const std::vector<std::string>& directories,
                                                const Environment& host) {
    std::vector<std::string> own;
    for (const auto& name : slurmPmixDirectories(host, {.spool = "", .tmp = ""})) {
        const auto found = std::find_if(directories.begin(), directories.end(),
                                        [&](const auto& directory) { return directory.ends_with(name); });
        if (found != directories.end()) {
            own.push_back(*found);
        }
    }
    return own;
}

}  // namespace sarus::engine
