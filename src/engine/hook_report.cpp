#include "engine/hook_report.hpp"

#include <algorithm>

#include "base/columns.hpp"
#include "base/text.hpp"
#include "hook_contracts/shipped_hooks.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::engine {

namespace {

/// The layout of `sarus images`.
std::string formatTable(std::vector<std::vector<std::string>> rows, std::size_t width) {
    constexpr std::size_t gap = 3;
    constexpr std::size_t narrowest = 10;
    return formatColumns(std::move(rows), gap, narrowest, width);
}

bool isDefaultType(const std::optional<std::string>& pattern,
                   const std::optional<std::string>& defaultMpiType) {
    return pattern && !pattern->empty() && defaultMpiType && oci::matchesWhole(*pattern, *defaultMpiType);
}

/// A pattern must match the whole text, so a ".*" at either end means "contains". A pattern without anchors
/// often comes from an engine that searches instead.
bool looksUnanchored(const std::string& pattern) {
    return !pattern.starts_with('^') && !pattern.ends_with('$') && !pattern.starts_with(".*") &&
           !pattern.ends_with(".*");
}

bool isProgram(const oci::HookConfig& hook, std::string_view program) {
    const auto* const shipped = hook_contracts::findShippedHook(hook.hook.path);
    return shipped != nullptr && shipped->program == program;
}

bool shareStage(const oci::HookConfig& a, const oci::HookConfig& b) {
    return std::find_first_of(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end()) !=
           a.stages.end();
}

}  // namespace

std::string formatHookTable(const std::vector<oci::HookConfig>& hooks, std::size_t width) {
    std::vector<std::vector<std::string>> rows{{"NAME", "PATH", "STAGES"}};
    for (const auto& hook : hooks) {
        rows.push_back({printable(hook.name()), printable(hook.hook.path), join(hook.stages, ",")});
    }
    return formatTable(std::move(rows), width);
}

std::string formatMpiHookTable(const std::vector<oci::HookConfig>& hooks,
                               const std::optional<std::string>& defaultMpiType, std::size_t width) {
    std::vector<std::vector<std::string>> rows{{"NAME", "MPI TYPE"}};
    for (const auto& hook : hooks) {
        const auto type = oci::mpiTypePattern(hook.when);
        if (!type) {
            continue;
        }
        rows.push_back({printable(hook.name()),
                        cat(printable(*type), isDefaultType(type, defaultMpiType) ? " (default)" : "")});
    }
    return formatTable(std::move(rows), width);
}

std::string formatFiringTable(const std::vector<oci::HookConfig>& hooks, const oci::HookSubject& subject,
                              std::size_t width) {
    std::vector<std::vector<std::string>> rows{{"NAME", "RUNS", "STAGES", "WHY"}};
    for (const auto& hook : hooks) {
        const bool fires = oci::hookFires(hook.when, subject);
        rows.push_back({printable(hook.name()), fires ? "yes" : "no", join(hook.stages, ","),
                        oci::explainConditions(hook.when, subject)});
    }
    return formatTable(std::move(rows), width);
}

std::string formatHookJson(const std::vector<oci::HookConfig>& hooks,
                           const std::optional<std::string>& defaultMpiType, bool onlyMpi) {
    oci::JsonWriter out;
    out.beginArray();
    for (const auto& hook : hooks) {
        const auto type = oci::mpiTypePattern(hook.when);
        if (onlyMpi && !type) {
            continue;
        }
        out.beginObject();
        out.member("name", hook.name());
        out.member("file", hook.file);
        out.member("path", hook.hook.path);
        out.member("args", hook.hook.args);
        out.member("stages", hook.stages);
        out.key("mpi").beginObject();
        out.member("enabled", type.has_value());
        out.member("type", type.value_or(""));
        out.member("default", isDefaultType(type, defaultMpiType));
        out.endObject().endObject();
    }
    out.endArray();
    return cat(out.text(), '\n');
}

std::vector<std::string> suspiciousConditions(const oci::HookConfig& hook) {
    std::vector<std::string> found;
    for (const auto& name : hook.repeatedVariables) {
        found.push_back(
            cat("hook.env: ", printable(name), " is given more than once; the last value counts"));
    }
    const auto& when = hook.when;
    const bool others = !when.annotations.empty() || !when.commands.empty() || when.hasBindMounts;
    if (when.always == false) {
        found.push_back(cat("when.always is false: the hook never runs",
                            others ? ". Remove it to let the other conditions decide" : ""));
    } else if (when.always && others) {
        found.push_back("when.always is true next to other conditions: those still have to hold");
    }
    if (!hook.hook.args.empty() && hook.hook.args.front().starts_with('-')) {
        found.push_back(cat("hook.args[0] is '", printable(hook.hook.args.front()),
                            "': the first argument is the program's name, the options come after it"));
    }
    const auto check = [&](const std::string& pattern, std::string_view where) {
        if (looksUnanchored(pattern)) {
            found.push_back(cat(where, ": the pattern '", printable(pattern),
                                "' has to match the whole text here; write ^...$ if that is meant, or .* at "
                                "its ends if it is not"));
        }
    };
    for (const auto& [key, value] : when.annotations) {
        check(key, "when.annotations");
        check(value, "when.annotations");
    }
    for (const auto& command : when.commands) {
        check(command, "when.commands");
    }
    return found;
}

std::vector<std::string> wrongOrder(const std::vector<oci::HookConfig>& hooks) {
    std::vector<std::string> found;
    for (auto mpi = hooks.begin(); mpi != hooks.end(); ++mpi) {
        for (auto glibc = mpi; isProgram(*mpi, "mpi_hook") && glibc != hooks.end(); ++glibc) {
            if (isProgram(*glibc, "glibc_hook") && shareStage(*mpi, *glibc)) {
                found.push_back(
                    cat(printable(glibc->file), ": the glibc hook runs after the MPI hook of ",
                        printable(mpi->file),
                        ", which then finds the image's C library too old: its file name must come first"));
            }
        }
    }
    return found;
}

std::vector<std::string> secondSshHooks(const std::vector<oci::HookConfig>& hooks) {
    std::vector<std::string> found;
    for (auto second = hooks.begin(); second != hooks.end(); ++second) {
        const auto first = std::find_if(hooks.begin(), second, [&](const oci::HookConfig& hook) {
            return isProgram(hook, "ssh_hook") && shareStage(hook, *second);
        });
        if (isProgram(*second, "ssh_hook") && first != second) {
            found.push_back(cat(printable(second->file), ": a second SSH hook, besides ",
                                printable(first->file),
                                ". A container has one SSH daemon: remove one of the files"));
        }
    }
    return found;
}

}  // namespace sarus::engine
