#include "starter/supervise/read_back.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "base/mounts.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace sarus::starter {

namespace {

std::string four(std::uint64_t id) {
    return cat(id, ' ', id, ' ', id, ' ', id);
}

/// A runtime that changed to a directory through a link such as /proc/self/fd/7 may have left the container.
bool worksOutside(const Process& process) {
    const UniqueFd directory(
        ::open(cat("/proc/", process.pid(), "/cwd").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto mounts = directory ? process.read("mountinfo") : std::string();  // otherwise it denies access
    return !mounts.empty() &&
           cat('\n', mounts).find(cat('\n', mountIdOf(directory.get()), ' ')) == std::string::npos;
}

}  // namespace

std::string statusFields(std::string_view status, std::string_view key) {
    const auto start = status.find(cat('\n', key, ':'));
    if (start == std::string_view::npos) {
        return {};
    }
    const auto value = status.substr(start + key.size() + 2);
    return join(splitWords(value.substr(0, value.find('\n'))), " ");
}

std::string statusField(std::string_view status, std::string_view key) {
    const auto value = statusFields(status, key);
    return value.substr(0, value.find(' '));
}

std::optional<std::string> findDifference(const ProcessFiles& process, const ProcessFiles& runtime,
                                          const PlannedState& planned) {
    const auto state = statusField(process.status, "State");
    if (process.stat.empty() || state.empty() || state == "Z" || state == "X") {
        return "";
    }
    if (!hasExecutedProgram(process.stat)) {
        return std::nullopt;
    }
    std::vector<std::pair<std::string, std::string>> expected{{"NoNewPrivs", "1"}};
    if (!planned.isRoot) {
        expected.emplace_back("Uid", four(::getuid()));
        expected.emplace_back("Gid", four(::getgid()));
    }
    if (planned.seccomp) {
        expected.emplace_back("Seccomp", "2");
    }
    if (planned.privileged && process.uidMap == runtime.uidMap) {
        for (const auto* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
            expected.emplace_back(set, "0000000000000000");
        }
    }
    std::vector<std::string> differences;
    if (planned.privileged && process.uidMap == runtime.uidMap && process.outside) {
        differences.emplace_back("the working directory is outside of the container");
    }
    for (const auto& [key, value] : expected) {
        if (const auto found = statusFields(process.status, key); found != value) {
            differences.push_back(cat(key, " is ", found.empty() ? "unknown" : found, " instead of ", value));
        }
    }
    const auto filters = parseNumber(statusField(process.status, "Seccomp_filters"));
    const auto inherited = parseNumber(statusField(runtime.status, "Seccomp_filters"));
    if (planned.seccomp && differences.empty() && filters && inherited &&
        *filters <= *inherited) {  // Linux 5.9
        differences.emplace_back("Seccomp has no filter but those of the runtime");
    }
    return join(differences, ", ");
}

std::optional<std::string> findDifference(const Process& process, const Process& runtime,
                                          const PlannedState& planned) {
    const auto filesOf = [](const Process& one, bool program) {
        ProcessFiles files{.stat = one.read("stat"), .status = one.read("status"), .uidMap = {}};
        files.outside = program && worksOutside(one);
        // The map last: a process that gained capabilities or mounts in its own user namespace has already
        // changed its map.
        files.uidMap = one.read("uid_map");
        return files;
    };
    const auto difference =
        findDifference(filesOf(process, planned.privileged), filesOf(runtime, false), planned);
    return difference && !difference->empty() && !process.isRunning() ? "" : difference;
}

}  // namespace sarus::starter
