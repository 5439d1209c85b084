#include "starter/runtime/hooks.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hook_contracts/hook_wrapper.hpp"
#include "hook_contracts/shipped_hooks.hpp"
#include "oci/json/json_writer.hpp"
#include "starter/devices/hook_devices.hpp"
#include "starter/entry/termination.hpp"
#include "starter/linked/linked_hooks.hpp"

namespace sarus::starter {

namespace wrapper = hook_contracts::wrapper;

namespace {

constexpr std::size_t longestLine = 64U << 10U;

constexpr std::string_view insideStage = "startContainer";  ///< its hooks are programs of the container

/// Hooks of these stages cannot prevent the container from running: a failure is a warning.
bool isAfterStart(std::string_view stage) {
    return stage == "poststart" || stage == "poststop";
}

/// Whether hooks of this stage run on the host before the container's command starts.
bool isBeforeStart(std::string_view stage) {
    return stage != insideStage && !isAfterStart(stage);
}

std::string describe(const engine::PlannedHook& planned) {
    return cat("'", printable(planned.name), "' (", printable(planned.hook.path), ", ", planned.stage, ")");
}

/// `status`: the exit status of sarus-hook.
std::string howItEnded(const std::string& status) {
    const auto number = parseNumber(status);
    if (!number) {
        return "was killed because it took longer than its time-out";
    }
    const int value = static_cast<int>(*number);
    return WIFSIGNALED(value) ? cat("failed with signal ", WTERMSIG(value))
                              : cat("failed with status ", WEXITSTATUS(value));
}

bool isSameFile(const std::string& a, const std::string& b) {
    struct stat one {};
    struct stat other {};
    return a == b || (::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 &&
                      one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

}  // namespace

std::vector<oci::HookConfig> loadHooks(const engine::SiteConfig& config, PathChecker& paths) {
    if (!config.hooksDir) {
        return {};
    }
    const auto read = [&](int directory, const ConfigFileCheck& check) {
        std::vector<oci::HookConfig> hooks;
        for (const auto& file : listFiles(directory, *config.hooksDir, {".json"})) {
            hooks.push_back(oci::parseHookConfig(readCheckedFile(directory, file, check), file));
        }
        return hooks;
    };
    if (!config.securityChecks) {
        return read(openFile(*config.hooksDir, O_PATH | O_DIRECTORY).get(), {});
    }
    const auto directory = paths.check(*config.hooksDir);
    if (!directory) {
        throw Error(cat("The directory `hooksDir` (", printable(*config.hooksDir), ") does not exist"),
                    "Create it, or remove the key from sarus.json")
            .setId("hooks-directory-missing");
    }
    auto hooks = read(directory->directory, [&](const OpenConfigFile& file) {
        if (file.throughLink) {
            paths.check(file.path);  // may be below directories that have not been checked yet
        }
        checkStatus(file.status, file.path, paths.owners());
    });
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
            throw Error::fromErrno(
                cat("The hook '", printable(planned.name), "' cannot be run: ", printable(planned.hook.path)),
                error, "See 'sarus hooks --check'");
        }
    }
}

void checkHookStages(const engine::ContainerPlan& plan, const std::string& prefix) {
    for (const auto& planned : plan.hooks) {
        const auto* const shipped = hook_contracts::findShippedHook(planned.hook.path);
        const auto problem = hook_contracts::explainUnsupportedStage(planned.hook.path, planned.stage);
        if (problem && isSameFile(planned.hook.path, cat(prefix, "/bin/", shipped->program))) {
            throw Error(cat("The hook '", printable(planned.name), "' cannot be run: ", *problem),
                        cat("Change \"stages\" in ", printable(planned.file)));
        }
    }
}

bool hasHooksInside(const engine::ContainerPlan& plan) {
    return std::any_of(plan.hooks.begin(), plan.hooks.end(),
                       [](const auto& planned) { return planned.stage == insideStage; });
}

namespace {

/// `index`: position of the hook in the plan.
oci::RuntimeHook wrap(const engine::ContainerPlan& plan, std::size_t index, const HookWrapper& by,
                      engine::OciRuntime runtime) {
    const auto& planned = plan.hooks[index];
    auto hook = planned.hook;
    const bool inside = planned.stage == insideStage;
    const bool late = isAfterStart(planned.stage);
    const bool child = planned.stage == "createContainer" && runtime == engine::OciRuntime::crun;
    const auto* const mode = late     ? wrapper::wait
                             : inside ? wrapper::inside
                             : child  ? wrapper::asChild
                                      : wrapper::alone;
    std::vector<std::string> arguments{"sarus-hook",
                                       mode,
                                       cat(index),
                                       late     ? cat(hook.timeout.value_or(0))
                                       : inside ? "0"
                                                : by.root,
                                       inside ? describe(planned) : plan.hookOutput,
                                       hook.path};
    arguments.insert(arguments.end(), hook.args.begin(), hook.args.end());
    hook.path = inside ? hookWrapperInside : by.program;
    hook.args = std::move(arguments);
    if (late) {
        hook.timeout.reset();
    }
    return hook;
}

/// Whether sarus-hook may run this hook and its neighbours in turn: crun watches no time and gives it no
/// environment of its own.
bool mayShareProcess(const oci::RuntimeHook& hook) {
    return hook.args[1] == wrapper::asChild && !hook.timeout && !hook.env.empty();
}

/// One call of sarus-hook for several hooks that wrap() has made.
oci::RuntimeHook joinHooks(std::span<const oci::RuntimeHook> hooks, const char* mode) {
    const auto& first = hooks.front();
    oci::RuntimeHook all{.path = first.path,
                         .args = {"sarus-hook", mode, "0", first.args[3], first.args[4]},
                         .env = {},
                         .timeout = {}};
    for (const auto& hook : hooks) {
        const auto& index = hook.args[2];
        all.args.insert(all.args.end(), {index, cat(hook.args.size() - 5)});
        all.args.insert(all.args.end(), hook.args.begin() + 5, hook.args.end());
        for (const auto& variable : hook.env) {
            all.env.push_back(cat(index, ':', variable));
        }
    }
    return all;
}

/// Makes one entry of all neighbours that may share it.
std::vector<oci::RuntimeHook> joinNeighbours(std::vector<oci::RuntimeHook> hooks) {
    std::vector<oci::RuntimeHook> joined;
    for (auto first = hooks.begin(); first != hooks.end();) {
        const auto end = std::find_if_not(first, hooks.end(), mayShareProcess);
        if (end - first < 2) {
            joined.push_back(std::move(*first++));
            continue;
        }
        joined.push_back(joinHooks({first, end}, wrapper::inTurn));
        first = end;
    }
    return joined;
}

bool mayRunEarly(const engine::ContainerPlan& plan, const engine::PlannedHook& planned) {
    return isBeforeStart(planned.stage) && !planned.hook.timeout &&
           !linkedHookName(planned.hook.path.c_str()).empty() && findDeviceRulesOfHook(plan, planned).empty();
}

/// The container's state, as an OCI runtime gives it to a hook (OCI runtime specification, runtime.md
/// "State"). There is no process of the container yet.
UniqueFd makeState(const engine::ContainerPlan& plan, const std::string& bundleDir) {
    oci::JsonWriter json;
    json.beginObject()
        .member("ociVersion", "1.0.2")
        .member("id", plan.name)
        .member("status", "creating")
        .member("bundle", bundleDir)
        .endObject();
    return makeMemoryFile("container-state", json.text());
}

}  // namespace

RuntimeHooks wrapHooks(const engine::ContainerPlan& plan, const std::vector<std::size_t>& done,
                       const HookWrapper& by, engine::OciRuntime runtime) {
    const auto isDone = [&](std::size_t index) {
        return std::find(done.begin(), done.end(), index) != done.end();
    };
    RuntimeHooks stages;
    for (const auto& stage : oci::hookStages()) {
        std::vector<oci::RuntimeHook> hooks;
        for (std::size_t index = 0; index < plan.hooks.size(); ++index) {
            if (plan.hooks[index].stage == stage && stage != oci::precreateStage && !isDone(index)) {
                hooks.push_back(wrap(plan, index, by, runtime));
            }
        }
        if (!hooks.empty()) {
            stages.emplace_back(stage, joinNeighbours(std::move(hooks)));
        }
    }
    const auto last = std::find_if(stages.rbegin(), stages.rend(),
                                   [](const auto& entry) { return isBeforeStart(entry.first); });
    if (hasHooksInside(plan) &&
        last != stages.rend()) {  // a runtime may not report the stage of a failed hook
        const std::vector<std::string> arguments{"sarus-hook", wrapper::mark, cat(plan.hooks.size()), "0",
                                                 plan.hookOutput};
        last->second.push_back({.path = by.program, .args = arguments, .env = {}, .timeout = {}});
    }
    return stages;
}

std::vector<std::size_t> findEarlyHooks(const engine::ContainerPlan& plan) {
    std::vector<std::size_t> early;
    for (const auto& stage : oci::hookStages()) {
        for (std::size_t index = 0; index < plan.hooks.size(); ++index) {
            if (plan.hooks[index].stage != stage) {
                continue;
            }
            if (!mayRunEarly(plan, plan.hooks[index])) {
                return early;
            }
            early.push_back(index);
        }
    }
    return early;
}

bool needsWritableRoot(const engine::ContainerPlan& plan) {
    return std::any_of(plan.hooks.begin(), plan.hooks.end(), [](const engine::PlannedHook& planned) {
        return isBeforeStart(planned.stage) && hook_contracts::findShippedHook(planned.hook.path) == nullptr;
    });
}

void runEarlyHooks(const engine::ContainerPlan& plan, const std::vector<std::size_t>& early,
                   const HookWrapper& by, const std::string& bundleDir, HookLog& log) {
    std::vector<oci::RuntimeHook> hooks;
    for (const auto index : early) {
        hooks.push_back(wrap(plan, index, by, engine::OciRuntime::crun));
    }
    const auto all = joinHooks(hooks, wrapper::early);
    const auto state = makeState(plan, bundleDir);
    // In a group of its own, the terminal's signals do not reach it, as under the runtime.
    auto child = start({.path = all.path,
                        .args = all.args,
                        .environment = all.env,
                        .stdinFd = state.get(),
                        .ownGroup = true,
                        .ignoredSignals = IgnoredSignals::reset});
    const auto limit = static_cast<std::uint64_t>(wrapper::longest.count()) * early.size();
    const bool hasEnded = waitForHook(
        child.pid(), limit, [&] { return log.descriptors(); }, [&] { log.forward(); });
    log.finish();
    const auto failed = [&](std::string hint) {
        return Error(nameFailedHook(plan.hooks[log.lastBegun().value_or(early.front())]), std::move(hint));
    };
    if (!hasEnded) {
        ::kill(child.release(), SIGKILL);  // while it waits for a file server, nobody can wait for its end
        throwIfTerminated();
        throw failed(cat("It did not end within ", limit,
                         " s: a file system that is mounted in the container may have stopped answering"));
    }
    if (!child.wait().ok()) {
        throw failed("");
    }
    log.forgetBegun();
}

HookLog::HookLog(const std::string& bundleDir, const engine::ContainerPlan& thePlan)
    : errors{makeFifo(cat(bundleDir, '/', hookLogName))},
      output{makeFifo(cat(bundleDir, '/', hookLogName, wrapper::outputSuffix))},
      plan(&thePlan) {}

void HookLog::Stream::readAvailable() {
    std::array<char, 16384> buffer{};
    // Bounded: a hook that never stops writing must not block the starter.
    for (int round = 0; round < 16; ++round) {
        const auto count = ::read(fifo.get(), buffer.data(), buffer.size());
        if (count <= 0) {
            return;
        }
        pending.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

std::vector<std::string> HookLog::Stream::takeLines(bool all) {
    readAvailable();
    std::vector<std::string> lines;
    std::size_t start = 0;
    for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', start)) {
        lines.push_back(pending.substr(start, end - start));
        start = end + 1;
    }
    pending.erase(0, start);
    if (pending.size() > longestLine || (all && !pending.empty())) {
        lines.push_back(std::exchange(pending, {}));
    }
    return lines;
}

void HookLog::forward(bool all) {
    for (const auto& line : output.takeLines(all)) {
        printLine(line);
    }
    for (const auto& line : errors.takeLines(all)) {
        take(line);
    }
}

void HookLog::forward() {
    forward(false);
}

void HookLog::take(std::string_view line) {
    constexpr std::string_view mark = wrapper::reportMark;
    const auto report = line.find(mark);
    if (report != std::string_view::npos) {
        takeReport(line.substr(report + mark.size()));
        line = line.substr(0, report);
        if (line.empty()) {
            return;
        }
    }
    if (belongsOnStandardOutput(line)) {
        printLine(line);
    } else {
        printErrorOnce(line, messageOf(line));
    }
}

void HookLog::takeReport(std::string_view report) {
    const auto words = splitWords(report);
    const auto index = words.size() == 3 ? parseNumber(words[1]) : std::nullopt;
    if (!index) {
        return;
    }
    if (words[0] == wrapper::begins) {
        begun = static_cast<std::size_t>(*index);
    } else if (*index < plan->hooks.size()) {
        logWarn("Runtime", cat("The hook ", describe(plan->hooks[*index]), ' ', howItEnded(words[2])));
    }
}

void HookLog::finish() {
    forward(true);
}

std::string_view messageOf(std::string_view line) {
    auto rest = line;
    for (int field = 0; field < 3; ++field) {  // time, host and process, subsystem
        const auto end = rest.find("] ");
        if (!rest.starts_with('[') || end == std::string_view::npos) {
            return line;
        }
        rest.remove_prefix(end + 2);
    }
    return rest;
}

bool belongsOnStandardOutput(std::string_view line) {
    const auto message = messageOf(line);
    return message.size() < line.size() &&
           (message.starts_with("[DEBUG] ") || message.starts_with("[INFO] "));
}

std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog,
                              std::optional<std::size_t> lastBegun) {
    // The words of runc and of crun, which may print only one of them when a hook takes too long.
    constexpr std::array<std::string_view, 3> words{"hook #", "executing hook `", "timeout expired for `"};
    const bool ofHook = std::any_of(words.begin(), words.end(), [&](const auto& text) {
        return runtimeLog.find(text) != std::string_view::npos;
    });
    return ofHook && lastBegun && *lastBegun < plan.hooks.size() ? nameFailedHook(plan.hooks[*lastBegun])
                                                                 : std::string();
}

std::string nameFailedHook(const engine::PlannedHook& hook) {
    return cat("The hook which failed is ", describe(hook));
}

}  // namespace sarus::starter
