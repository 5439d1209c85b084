#include "starter/read_back.hpp"

#include <unistd.h>

#include <vector>

#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// PF_FORKNOEXEC of the kernel: the process was made by fork, and has executed nothing since.
constexpr std::uint64_t forkedWithoutExec = 0x40;

bool hasExecuted(std::string_view stat) {
    constexpr std::size_t field = 9 - 3;  // "flags" of proc(5), after the name
    const auto name = stat.rfind(')');
    const auto fields = splitWords(name == std::string_view::npos ? std::string_view() : stat.substr(name + 1));
    const auto flags = fields.size() > field ? parseNumber(fields[field]) : std::nullopt;
    return flags && (*flags & forkedWithoutExec) == 0;
}

std::string rest(std::string_view status, std::string_view key) {
    const auto start = status.find(cat('\n', key, ':'));
    if (start == std::string_view::npos) {
        return {};
    }
    const auto value = status.substr(start + key.size() + 2);
    return join(splitWords(value.substr(0, value.find('\n'))), " ");
}

std::string four(std::uint64_t id) {
    return cat(id, ' ', id, ' ', id, ' ', id);
}

}  // namespace

std::string statusField(std::string_view status, std::string_view key) {
    const auto value = rest(status, key);
    return value.substr(0, value.find(' '));
}

std::optional<std::string> findDifference(const ProcessFiles& process, const ProcessFiles& runtime, const PlannedState& planned) {
    const auto state = statusField(process.status, "State");
    if (process.stat.empty() || state.empty() || state == "Z" || state == "X") {
        return "";
    }
    if (!hasExecuted(process.stat)) {
        return std::nullopt;
    }
    std::vector<std::pair<std::string, std::string>> expected{
        {"NoNewPrivs", "1"}, {"Uid", four(::getuid())}, {"Gid", four(::getgid())}};
    if (planned.seccomp) {
        expected.emplace_back("Seccomp", "2");
    }
    if (planned.privileged && process.uidMap == runtime.uidMap) {
        for (const auto* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
            expected.emplace_back(set, "0000000000000000");
        }
    }
    std::vector<std::string> differences;
    for (const auto& [key, value] : expected) {
        if (const auto found = rest(process.status, key); found != value) {
            differences.push_back(cat(key, " is ", found.empty() ? "unknown" : found, " instead of ", value));
        }
    }
    const auto filters = parseNumber(statusField(process.status, "Seccomp_filters"));
    const auto inherited = parseNumber(statusField(runtime.status, "Seccomp_filters"));
    if (planned.seccomp && differences.empty() && filters && inherited && *filters <= *inherited) {  // Linux 5.9
        differences.emplace_back("Seccomp has no filter but those of the runtime");
    }
    return join(differences, ", ");
}

std::optional<std::string> findDifference(const Process& process, const Process& runtime, const PlannedState& planned) {
    const auto filesOf = [](const Process& one) {
        // The map last: whoever gets capabilities in a user namespace of its own has another map before.
        ProcessFiles files{.stat = one.read("stat"), .status = one.read("status"), .uidMap = {}};
        files.uidMap = one.read("uid_map");
        return files;
    };
    const auto difference = findDifference(filesOf(process), filesOf(runtime), planned);
    return difference && !difference->empty() && !process.isRunning() ? "" : difference;
}

}  // namespace sarus::starter
