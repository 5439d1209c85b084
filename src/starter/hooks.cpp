#include "starter/hooks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/hook_files.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t longestLine = 64U << 10U;

std::optional<std::string_view> textAfter(std::string_view text, std::string_view marker) {
    const auto found = text.find(marker);
    return found == std::string_view::npos ? std::nullopt : std::optional(text.substr(found + marker.size()));
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
        if (planned.stage == "startContainer") {
            continue;
        }
        if (const int error = errorOf(planned.hook.path); error != 0) {
            throw Error::fromErrno(cat("The hook '", printable(planned.name), "' cannot be run: ", printable(planned.hook.path)),
                                   error, "See 'sarus hooks --check'");
        }
    }
}

HookLog::HookLog(const std::string& bundleDir) : fifo(makeFifo(cat(bundleDir, '/', hookLogName))) {}

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
        const auto line = std::string_view(pending).substr(start, end - start);
        belongsOnStandardOutput(line) ? printLine(line) : printError(line);
        start = end + 1;
    }
    pending.erase(0, start);
    if (pending.size() > longestLine) {
        printError(pending);
        pending.clear();
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

std::string explainFailedHook(const engine::ContainerPlan& plan, std::string_view runtimeLog) {
    const auto number = textAfter(runtimeLog, "hook #");
    const auto index = number ? parseNumber(number->substr(0, number->find_first_not_of("0123456789"))) : std::nullopt;
    const auto quoted = textAfter(runtimeLog, "executing hook `");
    const auto path = quoted ? quoted->substr(0, quoted->find('`')) : std::string_view();
    std::vector<std::string> candidates;
    for (const auto& stage : oci::hookStages()) {
        std::size_t position = 0;
        for (const auto& planned : plan.hooks) {
            if (planned.stage != stage || stage == oci::kPrecreateStage) {
                continue;
            }
            if (position++ == index || planned.hook.path == path) {
                candidates.push_back(cat("'", printable(planned.name), "' (", printable(planned.hook.path), ", ", stage, ")"));
            }
        }
    }
    return candidates.empty() ? std::string() : cat("The hook which failed is ", join(candidates, " or "));
}

}  // namespace sarus::starter
