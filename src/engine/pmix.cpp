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

std::string replaceNodeName(std::string_view pattern, std::string_view nodeName) {
    std::string path;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const bool placeholder =
            pattern[i] == '%' && i + 1 < pattern.size() && (pattern[i + 1] == 'h' || pattern[i + 1] == 'n');
        if (placeholder) {
            path += nodeName;
            ++i;
        } else {
            path += pattern[i];
        }
    }
    return path;
}

}  // namespace

std::vector<std::string> pmixDirectories(const Environment& host) {
    std::vector<std::string> directories;
    for (const auto& [name, value] : host) {
        addUnlessCovered(directories, serverDirectory(name, value));
    }
    return directories;
}

std::vector<std::string> slurmConfigurationPlaces(std::string_view variable) {
    return {std::string(variable), "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"};
}

SlurmDirectories parseSlurmConfiguration(std::string_view scontrolOutput, std::string_view nodeName) {
    SlurmDirectories directories;
    for (const auto& line : split(scontrolOutput, '\n')) {
        const auto separator = line.find('=');
        if (separator == std::string::npos) {
            continue;
        }
        const auto key = trim(std::string_view(line).substr(0, separator));
        const auto value = trim(std::string_view(line).substr(separator + 1));
        if (!value.starts_with('/')) {
            continue;
        }
        if (key == "SlurmdSpoolDir") {
            directories.spool = replaceNodeName(value, nodeName);
        } else if (key == "TmpFS") {
            directories.tmp = replaceNodeName(value, nodeName);
        }
    }
    return directories;
}

bool isSlurmPmixStep(const Environment& host) {
    return valueOf(host, "SLURM_MPI_TYPE").starts_with("pmix") &&
           parseNumber(valueOf(host, "SLURM_JOB_ID")) && parseNumber(valueOf(host, "SLURM_STEP_ID"));
}

std::vector<std::string> slurmPmixDirectories(const Environment& host, const SlurmDirectories& slurm) {
    const auto step = cat(valueOf(host, "SLURM_JOB_ID"), '.', valueOf(host, "SLURM_STEP_ID"));
    std::vector<std::string> directories{cat(slurm.spool, "/pmix.", step),
                                         cat(slurm.tmp, "/spmix_appdir_", step)};
    if (const auto uid = parseNumber(valueOf(host, "SLURM_JOB_UID"))) {
        directories.push_back(cat(slurm.tmp, "/spmix_appdir_", *uid, '_', step));
    }
    return directories;
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
