#include "hooks/slurm_global_sync/settings.hpp"

#include <utility>

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

constexpr std::uint64_t mostTasks = 10'000'000;

/// The tasks that the variable lists, of a step with so many; none if it is not set.
std::vector<Rank> ranksOf(const Variables& variable, std::string_view name, std::uint64_t tasks) {
    std::vector<Rank> ranks;
    for (const auto& word : split(variable(name).value_or(""), ',')) {
        const auto rank = number([&](auto) { return word; }, name, mostTasks);
        if (rank && *rank >= tasks) {
            throw Error(
                cat("The container's variable ", name, " is ", *rank, ", but SLURM_NTASKS is ", tasks));
        }
        if (rank) {
            ranks.push_back(static_cast<Rank>(*rank));
        }
    }
    return ranks;
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

std::optional<Part> findPart(const Variables& variable) {
    constexpr std::uint64_t anyNumber = UINT32_MAX;
    const auto job = number(variable, "SLURM_JOB_ID", anyNumber);
    auto step = number(variable, "SLURM_STEPID", anyNumber);
    if (!step) {
        step = number(variable, "SLURM_STEP_ID", anyNumber);
    }
    const auto tasks = number(variable, "SLURM_NTASKS", mostTasks);
    if (!job || !step || !tasks) {
        return std::nullopt;
    }
    auto ranks = ranksOf(variable, "SLURM_PROCID", *tasks);
    if (ranks.empty()) {
        ranks = ranksOf(variable, "SLURM_GTIDS", *tasks);
    }
    if (ranks.empty()) {
        return std::nullopt;
    }
    Part part{.step = {cat("jobid-", *job, "-stepid-", *step), static_cast<Rank>(*tasks)},
              .ranks = std::move(ranks),
              .node = cat(number(variable, "SLURM_NODEID", anyNumber).value_or(0))};
    // A requeued job has the same numbers, and what its first run has left behind.
    if (const auto restarts = number(variable, "SLURM_RESTART_COUNT", anyNumber).value_or(0); restarts > 0) {
        part.step.name += cat("-restart-", restarts);
    }
    return part;
}

}  // namespace sarus::hooks::slurm_global_sync
