#include "base/log.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/option_table.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

std::set<std::string> podmanOptionNames() {
    std::set<std::string> names;
    for (const auto& [name, takesValue] : runOptions().longNames) {
        names.insert(name);
    }
    return names;
}

/// Prints what is wrong with the file. Returns whether it can be used.
bool check(const std::string& file, const std::set<std::string>& podmanOptions,
           std::set<std::string>& names) {
    auto checked = checkModule(file, podmanOptions);
    if (checked.module && !names.insert(checked.module->name).second) {
        checked.problems.push_back({true, cat(printable(file), ": another module has the name '",
                                              printable(checked.module->name), '\'')});
    }
    bool usable = true;
    for (const auto& problem : checked.problems) {
        printLine(cat(problem.isError ? "ERROR: " : "WARNING: ", problem.message));
        usable = usable && !problem.isError;
    }
    if (checked.problems.empty()) {
        printLine(cat("OK: ", printable(file)));
    }
    return usable;
}

}  // namespace

int moduleCommand(const Call& call, const Surroundings& from) {
    constexpr std::string_view usage = "module check [FILE]...";
    if (call.words.empty()) {
        throw usageError("Missing argument 'check'.", usage);
    }
    if (call.words.front() != "check") {
        throw usageError(cat("No such command '", printable(call.words.front()), "'."), usage);
    }
    std::vector<std::string> files(call.words.begin() + 1, call.words.end());
    if (files.empty()) {
        files = moduleFiles(settingsOf(call, from).text(Key::modulesDir));
    }
    const auto options = podmanOptionNames();
    std::set<std::string> names;
    bool allUsable = true;
    for (const auto& file : files) {
        allUsable = check(file, options, names) && allUsable;
    }
    return allUsable ? 0 : 1;
}

}  // namespace sarus::podman_hpc
