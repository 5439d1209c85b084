#include "starter/hooks.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/hook_files.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t longestLine = 64U << 10U;

constexpr std::string_view reportMark = "\001sarus-hook ";
constexpr std::string_view insideStage = "startContainer";  ///< whose hooks are programs of the container

/// Hooks of these stages cannot keep a container from running: a failure is a warning.
bool isAfterStart(std::string_view stage) {
    return stage == "poststart" || stage == "poststop";
}

std::string describe(const engine::PlannedHook& planned) {
    return cat("'", printable(planned.name), "' (", printable(planned.hook.path), ", ", planned.stage, ")");
}

/// `status`: of sarus-hook.
std::string howItEnded(const std::string& status) {
    const auto number = parseNumber(status);
    if (!number) {
        return "was killed because it took longer than its time-out";
    }
    const int value = static_cast<int>(*number);
    return WIFSIGNALED(value) ? cat("failed with signal ", WTERMSIG(value)) : cat("failed with status ", WEXITSTATUS(value));
}

}  // namespace

std::vector<oci::HookConfig> loadHooks(const engine::SiteConfig& config, PathChecker& paths) {
    if (!config.hooksDir) {
        return {};
    }
    if (!config.securityChecks) {
        return engine::readHookFiles(openFile(*config.hooksDir, O_PATH | O_DIRECTORY).get(), *config.hooksDir);
    }
    const auto directory = paths.check(*config.hooksDir);
    if (!directory) {
        throw Error(cat("The directory `hooksDir` (", printable(*config.hooksDir), ") does not exist"),
                    "Create it, or remove the key from sarus.json");
    }
    const auto check = [&](const engine::OpenConfigFile& file) {
        if (file.throughLink) {
            paths.check(file.path);  // through directories which nobody has looked at yet
        }
        checkStatus(file.status, file.path, paths.owners());
    };
    auto hooks = engine::readHookFiles(directory->directory, *config.hooksDir, check);
    for (const auto& hook : hooks) {
        paths.check(hook.hook.path);
    }
    return hooks;
}

void checkHookPrograms(const engine::ContainerPlan& plan, PathChecker* verified) {
    const auto errorOf = [verified](const std::string& path) {
        if (verified == nullptr) {
            return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
        }
        constexpr mode_t executable = S_IXUSR | S_IXGRP | S_IXOTH;
        const auto program = verified->check(path);
        return !program ? ENOENT : (program->status.st_mode & executable) == 0 ? EACCES : 0;
    };
    for (const auto& planned : plan.hooks) {
        if (planned.stage == insideStage) {
            continue;
        }
        if (const int error = errorOf(planned.hook.path); error != 0) {
            throw Error::fromErrno(cat("The hook '", printable(planned.name), "' cannot be run: ", printable(planned.hook.path)),
                                   error, "See 'sarus hooks --check'");
        }
    }
}

bool hasHooksInside(const engine::ContainerPlan& plan) {
    return std::any_of(plan.hooks.begin(), plan.hooks.end(), [](const auto& planned) { return planned.stage == insideStage; });
}

void wrapHooks(oci::RuntimeConfig& config, const engine::ContainerPlan& plan, const std::string& wrapper) {
    std::vector<oci::RuntimeHook>* lastBeforeCommand = nullptr;
    for (auto& [stage, hooks] : config.hooks) {
        const bool inside = stage == insideStage;
        const bool late = isAfterStart(stage);
        lastBeforeCommand = inside || late ? lastBeforeCommand : &hooks;
        std::size_t index = 0;
        for (auto& hook : hooks) {
            while (plan.hooks.at(index).stage != stage) {
                ++index;
            }
            std::vector<std::string> arguments{"sarus-hook",
                                               late     ? "wait"
                                               : inside ? "inside"
                                                        : "exec",
                                               cat(index),
                                               cat(late ? hook.timeout.value_or(0) : 0),
                                               inside ? describe(plan.hooks[index]) : plan.hookOutput,
                                               hook.path};
            arguments.insert(arguments.end(), hook.args.begin(), hook.args.end());
            hook.path = inside ? hookWrapperInside : wrapper;
            hook.args = std::move(arguments);
            if (late) {
                hook.timeout.reset();
            }
            ++index;
        }
    }
    if (hasHooksInside(plan) && lastBeforeCommand != nullptr) {  // a runtime may not tell of which stage a hook failed
        const std::vector<std::string> arguments{"sarus-hook", "mark", cat(plan.hooks.size()), "0", plan.hookOutput};
        lastBeforeCommand->push_back({.path = wrapper, .args = arguments, .env = {}, .timeout = {}});
    }
}

HookLog::HookLog(const std::string& bundleDir, const engine::ContainerPlan& thePlan)
    : fifo(makeFifo(cat(bundleDir, '/', hookLogName))), plan(&thePlan) {}

void HookLog::readAvailable() {
    std::array<char, 16384> buffer{};
    // Bounded: a hook that never stops talking may not keep the starter from its other work.
    for (int round = 0; round < 16; ++round) {
        const auto count = ::read(fifo.get(), buffer.data(), buffer.size());
        if (count <= 0) {
            return;
        }
        pending.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

void HookLog::forward() {
    readAvailable();
    std::size_t start = 0;
    for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', start)) {
        take(std::string_view(pending).substr(start, end - start));
        start = end + 1;
    }
    pending.erase(0, start);
    if (pending.size() > longestLine) {
        printError(pending);
        pending.clear();
    }
}

void HookLog::take(std::string_view line) {
    const auto report = line.find(reportMark);
    if (report != std::string_view::npos) {
        takeReport(line.substr(report + reportMark.size()));
        line = line.substr(0, report);
        if (line.empty()) {
            return;
        }
    }
    belongsOnStandardOutput(line) ? printLine(line) : printError(line);
}

void HookLog::takeReport(std::string_view report) {
    const auto words = splitWords(report);
    const auto index = words.size() == 3 ? parseNumber(words[1]) : std::nullopt;
    if (!index) {
        return;
    }
    if (words[0] == "begins") {
        begun = static_cast<std::size_t>(*index);
    } else if (*index < plan->hooks.size()) {
        logWarn("Runtime", cat("The hook ", describe(plan->hooks[*index]), ' ', howItEnded(words[2])));
    }
}

void HookLog::finish() {
    forward();
    if (!pending.empty()) {
        printError(pending);
        pending.clear();
    }
}

bool belongsOnStandardOutput(std::string_view line) {
    for (int field = 0; field < 3; ++field) {  // time, host and process, subsystem
        const auto end = line.find("] ");
        if (!line.starts_with('[') || end == std::string_view::npos) {
            return false;
        }
        line.remove_prefix(end + 2);
    }
    return line.starts_with("[DEBUG] ") || line.starts_with("[INFO] ");
}

std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog,
                              std::optional<std::size_t> lastBegun) {
    const bool ofHook =
        runtimeLog.find("hook #") != std::string_view::npos || runtimeLog.find("executing hook `") != std::string_view::npos;
    return ofHook && lastBegun && *lastBegun < plan.hooks.size()
               ? cat("The hook which failed is ", describe(plan.hooks[*lastBegun]))
               : std::string();
}

}  // namespace sarus::starter
