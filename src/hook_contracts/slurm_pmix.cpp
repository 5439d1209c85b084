#include "hook_contracts/slurm_pmix.hpp"

#include <strings.h>
#include <sys/utsname.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::hook_contracts {

namespace {

/// Key words are case-insensitive: slurm.conf(5).
bool isKey(std::string_view word, std::string_view key) {
    return word.size() == key.size() && ::strncasecmp(word.data(), key.data(), key.size()) == 0;
}

/// `depth`: of files that include each other.
void readInto(SlurmDirectories& directories, const std::string& file, std::string_view nodeName, int depth) {
    constexpr int deepest = 10;
    for (const auto& text : split(readFile(file), '\n')) {
        const auto line = trim(std::string_view(text).substr(0, text.find('#')));
        const auto space = line.find_first_of(" \t");
        if (isKey(line.substr(0, space), "Include") && space != std::string_view::npos && depth < deepest) {
            const auto included = std::string(trim(line.substr(space)));
            const auto path = included.starts_with('/') ? included : cat(directoryOf(file), '/', included);
            if (pathExists(path)) {
                readInto(directories, path, nodeName, depth + 1);
            }
            continue;
        }
        const auto separator = std::min(line.find('='), line.size());
        const auto key = trim(line.substr(0, separator));
        const auto value = trim(line.substr(std::min(separator + 1, line.size())));
        if (value.starts_with('/') && isKey(key, "SlurmdSpoolDir")) {
            directories.spool = replaceNodeName(value, nodeName);
        } else if (value.starts_with('/') && isKey(key, "TmpFS")) {
            directories.tmp = replaceNodeName(value, nodeName);
        }
    }
}

}  // namespace

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

std::string firstSlurmConfiguration(const std::optional<std::string>& variable) {
    if (variable) {
        return *variable;
    }
    const auto srun = findProgram("srun");
    return srun ? cat(directoryOf(directoryOf(*srun)), "/etc/slurm.conf") : std::string();
}

std::vector<std::string> slurmConfigurationPlaces(std::string_view variable) {
    return {std::string(variable), "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"};
}

SlurmDirectories readSlurmConfiguration(std::string_view variable, std::string_view nodeName) {
    for (const auto& file : slurmConfigurationPlaces(variable)) {
        try {
            if (file.starts_with('/') && pathExists(file)) {
                SlurmDirectories directories;
                readInto(directories, file, nodeName, 0);
                return directories;
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
