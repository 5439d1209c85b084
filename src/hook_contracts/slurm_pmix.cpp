#include "hook_contracts/slurm_pmix.hpp"

#include <sys/utsname.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::hook_contracts {

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

SlurmDirectories parseSlurmConfiguration(std::string_view text, std::string_view nodeName) {
    SlurmDirectories directories;
    for (const auto& line : split(text, '\n')) {
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

std::vector<std::string> slurmConfigurationPlaces(std::string_view variable) {
    return {std::string(variable), "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"};
}

SlurmDirectories readSlurmConfiguration(std::string_view variable, std::string_view nodeName) {
    for (const auto& file : slurmConfigurationPlaces(variable)) {
        try {
            if (file.starts_with('/') && pathExists(file)) {
                return parseSlurmConfiguration(readFile(file), nodeName);
            }
        } catch (const Error& error) {
            logInfo("Slurm", error.what());
        }
    }
    return {};
}

std::string shortNodeName() {
    utsname host{};
    ::uname(&host);
    const std::string_view name(static_cast<const char*>(host.nodename));
    return std::string(name.substr(0, name.find('.')));
}

bool isSlurmPmixStep(std::string_view mpiType, std::string_view job, std::string_view step) {
    return mpiType.starts_with("pmix") && parseNumber(job) && parseNumber(step);
}

std::vector<std::string> slurmPmixDirectories(const SlurmStep& step, const SlurmDirectories& slurm) {
    const auto name = cat(step.job, '.', step.step);
    std::vector<std::string> directories{cat(slurm.spool, "/pmix.", name),
                                         cat(slurm.tmp, "/spmix_appdir_", name)};
    if (const auto uid = parseNumber(step.uid)) {
        directories.push_back(cat(slurm.tmp, "/spmix_appdir_", *uid, '_', name));
    }
    return directories;
}

}  // namespace sarus::hook_contracts
