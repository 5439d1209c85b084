#include "hooks/slurm_global_sync/settings.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::slurm_global_sync {

namespace {

std::string absolutePath(const HookEnvironment& environment, std::string_view name) {
    auto path = environment.require(name);
    if (path.front() != '/') {
        throw Error(cat(name, ": not an absolute path: '", printable(path), "'"));
    }
    return path;
}

using Variables = std::function<std::optional<std::string>(std::string_view name)>;

/// nullopt if the variable is not set.
std::optional<std::uint64_t> number(const Variables& variable, std::string_view name, std::uint64_t limit) {
    const auto text = variable(name);
    if (!text || text->empty()) {
        return std::nullopt;
    }
    const auto value = parseNumber(*text);
    if (!value || *value >= limit) {
        throw Error(
            cat("The container's variable ", name, " is not a number of Slurm's: '", printable(*text), "'"),
            "Do not set variables of Slurm for the container");
    }
    return value;
}

}  // namespace

Settings parseSettings(const HookEnvironment& environment) {
    Settings settings;
    settings.baseDirectory = absolutePath(environment, baseVariable);
    settings.passwdFile = absolutePath(environment, passwdVariable);
    if (const auto text = environment.find(timeoutVariable)) {
        const auto seconds = parseNumber(*text);
        if (!seconds || *seconds == 0 || *seconds > static_cast<std::uint64_t>(longestTimeout.count())) {
            throw Error(cat(timeoutVariable, ": expected a number of seconds from 1 to ",
                            longestTimeout.count(), ", found '", printable(*text), "'"));
        }
        settings.timeout = std::chrono::seconds(*seconds);
    }
    return settings;
}

std::optional<Task> findTask(const Variables& variable) {
    constexpr std::uint64_t anyNumber = UINT32_MAX;
    constexpr std::uint64_t mostTasks = 10'000'000;
    const auto job = number(variable, "SLURM_JOB_ID", anyNumber);
    auto step = number(variable, "SLURM_STEPID", anyNumber);
    if (!step) {
        step = number(variable, "SLURM_STEP_ID", anyNumber);
    }
    const auto tasks = number(variable, "SLURM_NTASKS", mostTasks);
    const auto rank = number(variable, "SLURM_PROCID", mostTasks);
    if (!job || !step || !tasks || !rank) {
        return std::nullopt;
    }
    if (*rank >= *tasks) {
        throw Error(
            cat("The container's variable SLURM_PROCID is ", *rank, ", but SLURM_NTASKS is ", *tasks));
    }
    Task task{.step = {cat("jobid-", *job, "-stepid-", *step), static_cast<Rank>(*tasks)},
              .rank = static_cast<Rank>(*rank),
              .node = cat(number(variable, "SLURM_NODEID", anyNumber).value_or(0))};
    // A requeued job has the same numbers, and what its first run has left behind.
    if (const auto restarts = number(variable, "SLURM_RESTART_COUNT", anyNumber).value_or(0); restarts > 0) {
        task.step.name += cat("-restart-", restarts);
    }
    return task;
}

}  // namespace sarus::hooks::slurm_global_sync
