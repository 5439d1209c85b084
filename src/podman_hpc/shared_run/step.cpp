#include "podman_hpc/shared_run/step.hpp"

#include <unistd.h>

#include <algorithm>
#include <regex>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

std::optional<unsigned> parseCount(std::string_view text) {
    const auto number = parseNumber(text);
    return number && *number <= 1'000'000 ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

/// The first match of the pattern.
std::optional<unsigned> countByPattern(const std::string& text, const std::string& pattern) {
    try {
        std::smatch match;
        return std::regex_search(text, match, std::regex(pattern)) ? parseCount(match.str()) : std::nullopt;
    } catch (const std::regex_error&) {
        throw Error(cat("ntasks_pattern: '", printable(pattern), "' is no regular expression"));
    }
}

unsigned countTasks(const Settings& settings, const Surroundings& from) {
    auto text = from.variable(settings.text(Key::tasksPerNodeVar));
    if (!text && settings.setting(Key::tasksPerNodeVar).back().origin.kind == Origin::Kind::builtIn) {
        text = from.variable("SLURM_STEP_TASKS_PER_NDOE");  // as the reference's documentation spells it
    }
    if (!text) {
        return 1;
    }
    const auto node = parseCount(from.variable("SLURM_NODEID").value_or("0")).value_or(0);
    const auto isBuiltIn = settings.setting(Key::ntasksPattern).back().origin.kind == Origin::Kind::builtIn;
    auto count = isBuiltIn ? countOfNode(*text, node) : std::nullopt;
    if (!count) {
        count = countByPattern(*text, settings.text(Key::ntasksPattern));
    }
    return std::max(count.value_or(1), 1U);
}

/// Job, step, restarts and node, if the tasks were started by Slurm.
std::optional<std::string> slurmIdentity(const Surroundings& from) {
    const auto number = [&](const char* name) { return from.variable(name).value_or("0"); };
    if (!from.variable("SLURM_JOB_ID") || !from.variable("SLURM_STEP_ID")) {
        return std::nullopt;
    }
    auto identity = cat("job-", number("SLURM_JOB_ID"), '.', number("SLURM_STEP_ID"), '-',
                        number("SLURM_RESTART_COUNT"), '-', number("SLURM_NODEID"));
    const auto isPlain = [](char c) { return (c >= '0' && c <= '9') || c == '-' || c == '.'; };
    return std::all_of(identity.begin() + 4, identity.end(), isPlain) && identity.size() < 64
               ? std::optional(identity)
               : std::nullopt;
}

pid_t parentOf(pid_t process) {
    const auto text = readFile(cat("/proc/", process, "/stat"));
    const auto fields = splitWords(std::string_view(text).substr(text.rfind(')') + 1));
    return fields.size() > 1 ? static_cast<pid_t>(parseNumber(fields[1]).value_or(0)) : 0;
}

}  // namespace

std::optional<unsigned> countOfNode(std::string_view list, unsigned node) {
    std::size_t first = 0;
    for (const std::string& group : split(list, ',')) {
        const std::string_view part = group;
        const auto open = part.find("(x");
        const auto count = parseCount(part.substr(0, open));
        std::optional<unsigned> nodes = 1;
        if (open != std::string_view::npos) {
            nodes = part.ends_with(')') ? parseCount(part.substr(open + 2, part.size() - open - 3))
                                        : std::nullopt;
        }
        if (!count || !nodes) {
            return std::nullopt;
        }
        first += *nodes;
        if (node < first) {
            return count;
        }
    }
    return std::nullopt;
}

Step findStep(const Settings& settings, const Surroundings& from,
              const std::function<pid_t(const std::string& variable, const std::string& value)>& launcher) {
    const auto& variable = settings.text(Key::localidVar);
    const auto localId = from.variable(variable);
    Step step;
    step.localId = localId.value_or("");
    step.tasks = localId ? countTasks(settings, from) : 1;
    // A launcher inside of a Slurm step, such as mpirun, has tasks of its own.
    const auto slurm = variable.starts_with("SLURM_") ? slurmIdentity(from) : std::nullopt;
    step.identity = slurm ? *slurm : cat("pid-", launcher(variable, step.localId));
    return step;
}

pid_t launcherOfThisProcess(const std::string& name, const std::string& value) {
    const auto wanted = cat(name, '=', value);
    pid_t process = ::getppid();
    try {
        while (process > 1) {
            const auto environment = split(readFile(cat("/proc/", process, "/environ"), 4U << 20U), '\0');
            if (std::find(environment.begin(), environment.end(), wanted) == environment.end()) {
                break;
            }
            process = parentOf(process);
        }
    } catch (const Error&) {
        // that of another user, or one that has ended: no program between us and the launcher
    }
    return process;
}

}  // namespace sarus::podman_hpc
