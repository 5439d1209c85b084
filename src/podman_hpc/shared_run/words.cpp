#include "podman_hpc/shared_run/words.hpp"

#include <algorithm>
#include <array>

#include "base/boolean.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/call.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::string_view usage = "shared-run [options] IMAGE [COMMAND [ARG...]]";

bool has(const OptionTable& table, const std::string& name) {
    return name.size() == 1 ? table.shortNames.contains(name[0]) : table.longNames.contains(name);
}

/// Options that set limits of the container's cgroup.
bool isLimit(std::string_view name) {
    constexpr std::array<std::string_view, 4> others{"c", "m", "oom-kill-disable", "pids-limit"};
    constexpr std::array<std::string_view, 5> beginnings{"blkio-", "cgroup-", "cpu", "device-", "memory"};
    return std::find(others.begin(), others.end(), name) != others.end() ||
           std::any_of(beginnings.begin(), beginnings.end(),
                       [&](std::string_view beginning) { return name.starts_with(beginning); });
}

bool isTrue(const TypedOption& option) {
    return !option.value || parseBoolean(trim(*option.value)).value_or(true);
}

}  // namespace

SharedRunWords splitSharedRunWords(const std::vector<std::string>& words,
                                   const std::function<const OptionTable&()>& lookUp,
                                   const std::set<std::string>& moduleFlags) {
    const auto scanned = scanOptions(words, runOptions(), lookUp, moduleFlags);
    SharedRunWords result;
    result.flags = scanned.flags;
    result.help = scanned.help;
    std::size_t count = 0;
    for (const auto& typed : scanned.options) {
        count += typed.size();
        for (auto& option : separateOptions(typed, runOptions())) {
            const auto& name = option.name;
            if (option.is("d", "detach") && isTrue(option)) {
                throw usageError("Option '--detach' does not work with shared-run.", usage);
            }
            result.seccomp = result.seccomp || (name == "security-opt" && option.value &&
                                                option.value->starts_with("seccomp="));
            result.limits = result.limits || isLimit(name);
            const bool isLabel = name == "l";  // `podman exec -l` means another thing
            if (!isLabel && has(execOptions(), name)) {
                result.exec.push_back(option.words);
            } else {
                result.runOnly.insert(result.runOnly.end(), option.words.begin(), option.words.end());
            }
            // The container's own command gets no descriptors of the caller and has its own entrypoint.
            if (name != "preserve-fds" && name != "entrypoint") {
                result.run.push_back(std::move(option.words));
            }
        }
    }
    if (result.help) {
        return result;
    }
    if (!scanned.complete) {
        throw usageError("Missing argument 'IMAGE'.", usage);
    }
    count += scanned.words[count] == "--" ? 1 : 0;
    result.image = scanned.words[count];
    result.command.assign(scanned.words.begin() + static_cast<std::ptrdiff_t>(count) + 1,
                          scanned.words.end());
    return result;
}

ExecOptions readExecOptions(const std::vector<std::string>& words) {
    const OptionTable none;
    const auto scanned = scanOptions(words, execOptions(), [&]() -> const OptionTable& { return none; }, {});
    ExecOptions result;
    result.others = scanned.complete;
    for (const auto& typed : scanned.options) {
        for (const auto& option : separateOptions(typed, execOptions())) {
            const auto& name = option.name;
            const auto value = option.value.value_or("");
            if (option.is("e", "env")) {
                result.variables.push_back(value);
            } else if (name == "env-file") {
                result.variableFiles.push_back(value);
            } else if (option.is("u", "user")) {
                result.user = value;
            } else if (option.is("w", "workdir")) {
                result.directory = value;
            } else if (option.is("i", "interactive")) {
                result.interactive = isTrue(option);
            } else if (option.is("t", "tty")) {
                result.terminal = isTrue(option);
            } else if (name == "privileged") {
                result.privileged = isTrue(option);
            } else if (name == "preserve-fds") {
                result.keptDescriptors = static_cast<unsigned>(parseNumber(value).value_or(0));
            } else if (name != "detach-keys" && name != "log-level") {
                result.others = true;
            }
        }
    }
    return result;
}

}  // namespace sarus::podman_hpc
