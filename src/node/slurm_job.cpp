#include "node/slurm_job.hpp"

#include <sys/stat.h>

#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"

namespace sarus::node {

namespace {

constexpr std::string_view jobPrefix = "/job_";

/// The number of the first component "job_<number>" behind `start`, which is set to where it begins.
std::optional<std::uint64_t> findJob(std::string_view path, std::size_t& start) {
    while ((start = path.find(jobPrefix, start)) != std::string_view::npos) {
        const auto rest = path.substr(start + jobPrefix.size());
        if (const auto number = parseNumber(rest.substr(0, rest.find('/')))) {
            return number;
        }
        ++start;
    }
    return std::nullopt;
}

/// Whether only root can make entries in this directory of a hierarchy.
bool isRootsAlone(const std::optional<std::string>& directory) {
    struct stat status {};
    const auto cgroup = directory ? openCgroup(*directory) : UniqueFd();
    return cgroup && ::fstat(cgroup.get(), &status) == 0 && status.st_uid == 0 &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct JobCgroup {
    std::uint64_t job = 0;
    std::string directory;
};

std::optional<JobCgroup> findJobCgroup() {
    const auto text = readFile("/proc/self/cgroup");
    if (text.find(jobPrefix) == std::string::npos) {
        return std::nullopt;
    }
    const auto mounts = readMountTable();
    for (const auto& membership : parseCgroups(text)) {
        std::size_t start = 0;
        const auto job = findJob(membership.path, start);
        if (!job || membership.controllers.empty()) {
            continue;
        }
        const auto parent = findCgroupDirectory(mounts, membership.controllers.front(),
                                                start == 0 ? "/" : membership.path.substr(0, start));
        if (isRootsAlone(parent)) {
            return JobCgroup{*job, cat(*parent, jobPrefix, *job)};
        }
    }
    return std::nullopt;
}

std::string numberOrNothing(const std::string& text) {
    constexpr std::size_t longest = 10;
    return text.size() <= longest && parseNumber(text) ? text : std::string();
}

}  // namespace

std::optional<std::uint64_t> slurmJobOfCgroups() {
    const auto cgroup = findJobCgroup();
    return cgroup ? std::optional(cgroup->job) : std::nullopt;
}

SlurmJobMark markSlurmJob(const std::string& idVariable, const std::string& endVariable) {
    const auto cgroup = findJobCgroup();
    SlurmJobMark mark{.id = cgroup ? cat(cgroup->job) : numberOrNothing(idVariable)};
    if (mark.id == idVariable) {
        mark.end = static_cast<std::int64_t>(parseNumber(numberOrNothing(endVariable)).value_or(0));
    }
    if (const auto directory = cgroup ? cat(cgroup->directory, "/step_extern") : std::string();
        isDirectory(directory)) {
        mark.directory = directory;
    }
    return mark;
}

bool isOver(const SlurmJobMark& job, std::time_t now) {
    constexpr std::time_t grace = 3600;
    return job.directory.empty() ? job.end > 0 && now > job.end + grace : !isDirectory(job.directory);
}

}  // namespace sarus::node
