#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "doctor/subordinate_ids.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/help_pages.hpp"
#include "podman_hpc/cli/option_table.hpp"
#include "podman_hpc/cli/podman.hpp"
#include "podman_hpc/cli/squash.hpp"
#include "podman_hpc/config/own_hooks.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/doctor/doctor.hpp"
#include "podman_hpc/modules/module.hpp"
#include "podman_hpc/store/damage.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr int pmiTarget = 3;  // the first descriptor behind the standard streams, as --preserve-fds counts

/// Commands of Podman whose next word is a command.
bool isGroup(std::string_view word) {
    static constexpr std::array<std::string_view, 17> groups{
        "artifact", "connection", "container", "farm", "generate", "healthcheck", "image", "kube",  "machine",
        "manifest", "network",    "play",      "pod",  "secret",   "system",      "trust", "volume"};
    return std::find(groups.begin(), groups.end(), word) != groups.end();
}

const OptionTable& optionsOf(std::string_view command) {
    static const OptionTable none;
    return command == "run" || command == "create" ? runOptions() : command == "exec" ? execOptions() : none;
}

/// The command with its subcommands, such as `container`, `run`.
std::vector<std::string> commandPath(const Call& call) {
    std::vector<std::string> path{call.command};
    for (const auto& word : call.words) {
        if (!isGroup(path.back()) || word.starts_with('-')) {
            break;
        }
        path.push_back(word);
    }
    return path;
}

/// Makes the file of `-e LOG_PLUGIN=FILE`: the hook makes no new files outside of /tmp, and writes to no file
/// that does not begin as its log.
void makeHookLog(const std::vector<std::string>& words) {
    if (const auto path = hookLogOf(words); !path.empty()) {
        const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (file) {
            writeAll(file.get(), cat(firstLogLine, '\n'), printable(path));
        }
    }
}

/// Whether Podman will start the hook, where the user asks for something that only the hook does. Warns
/// otherwise: Podman says nothing.
bool willHookRun(const Settings& settings, const std::vector<Module>& modules,
                 const std::set<std::string>& flags, const std::vector<std::string>& options) {
    std::vector<std::string> requests;
    for (const auto& module : modules) {
        if (needsHook(module, flags, options)) {
            requests.push_back(
                cat("Module '", module.name, "' (--", module.flag, ") copies and binds nothing"));
        }
    }
    if (!hookLogOf(options).empty()) {
        requests.push_back(cat(hookLogVariable, " gets no log"));
    }
    // Without default arguments, the user names the directories of hooks himself.
    if (requests.empty() || !settings.flag(Key::useDefaultArgs)) {
        return true;
    }
    try {
        requireHook(settings);
        return true;
    } catch (const Error& error) {
        for (const auto& request : requests) {
            printWarning(cat(request, ": ", error.what(), ". The administrator runs: ", error.hint()));
        }
        return false;
    }
}

/// Whether `--user` names only root: the one user of a container without subordinate ids.
bool isRoot(const std::string& user) {
    const auto names = split(user, ':');
    return std::all_of(names.begin(), names.end(), [](const std::string& name) {
        return name == "root" || parseNumber(name).value_or(name.empty() ? 0 : 1) == 0;
    });
}

/// The option that needs subordinate ids, such as `--user=5`; "" if none does.
std::string optionWithIds(const std::vector<std::string>& arguments) {
    const OptionTable none;
    const auto scanned =
        scanOptions(arguments, runOptions(), [&]() -> const OptionTable& { return none; }, {});
    for (const auto& typed : scanned.options) {
        for (const auto& option : separateOptions(typed, runOptions())) {
            const auto value = option.value.value_or("");
            if (option.name == "userns" && value.starts_with("keep-id")) {
                return "--userns=keep-id";
            }
            if (option.is("u", "user") && !isRoot(value)) {
                return cat("--user=", printable(value));
            }
        }
    }
    return "";
}

/// What Podman and the runtime say about missing subordinate ids does not tell what to do.
void requireIdsFor(const std::vector<std::string>& arguments, const Surroundings& from) {
    const auto option = from.uid == 0 ? "" : optionWithIds(arguments);
    const auto ids =
        option.empty() ? std::nullopt : doctor::countSubordinateIds(from.uid, from.variable("USER"));
    if (ids && ids->none()) {
        throw Error(cat(option, " needs subordinate ids, and ", ids->missing()),
                    cat(ids->cure(), migrateAfterNewIds));
    }
}

/// The image of `run`; "" if there is none.
std::string firstWord(const ScannedWords& scanned) {
    std::size_t begin = 0;
    for (const auto& option : scanned.options) {
        begin += option.size();
    }
    begin += begin < scanned.words.size() && scanned.words[begin] == "--" ? 1 : 0;
    return begin < scanned.words.size() ? scanned.words[begin] : "";
}

/// Podman would only say that it does not know the option.
void refuseModules(const Call& call, const Settings& settings) {
    const auto end = std::find(call.words.begin(), call.words.end(), "--");
    for (const auto& module : loadModules(settings.text(Key::modulesDir), [](const std::string&) {})) {
        if (!module.flag.empty() && std::find(call.words.begin(), end, cat("--", module.flag)) != end &&
            !lookUpOptions(settings, call.command).longNames.contains(module.flag)) {
            throw Error(cat("Module '", module.name, "' (--", module.flag, ") does not work with ",
                            call.command, "; modules belong to run, shared-run and exec"));
        }
    }
}

}  // namespace

bool providePmi(const Surroundings& from) {
    const auto number = parseNumber(from.variable("PMI_FD").value_or(""));
    if (!number || *number > 1'000'000) {
        return false;
    }
    const int fd = static_cast<int>(*number);
    if (fd == pmiTarget ? ::fcntl(fd, F_SETFD, 0) != 0 : ::dup2(fd, pmiTarget) < 0) {
        return false;
    }
    ::setenv("PMI_FD", "3", 1);
    return true;
}

std::string prepareStores(const Settings& settings, const PodmanCommand& command,
                          const std::string& squashDir, const std::string& image, const Surroundings& from) {
    provideConfigHome(settings, squashDir, from);
    if (!settings.flag(Key::useDefaultArgs)) {
        return squashDir;
    }
    requirePodmanDirectories(settings, from);
    if (!command.additionalStores) {
        return squashDir;
    }
    provideSquashStore(squashDir, from.uid);
    return readableStore({squashDir}, {.listsAll = command.listsImages, .image = image},
                         settings.text(Key::runRoot), printWarning);
}

void prepareHook(const Settings& settings, const std::vector<Module>& modules,
                 const std::set<std::string>& flags, const std::vector<std::string>& options) {
    if (willHookRun(settings, modules, flags, options)) {
        makeHookLog(options);
    }
}

void prepareContainer(const std::vector<std::string>& moduleWords, const std::vector<std::string>& options,
                      const Surroundings& from) {
    requireIdsFor(moduleWords, from);
    requireIdsFor(options, from);
}

int passThrough(const Call& call, const Surroundings& from) {
    const auto settings = settingsOf(call, from);
    const auto& command = podmanCommand(call);
    requirePodman(settings);

    std::vector<Module> modules;
    if (command.modules == ModuleUse::refused) {
        refuseModules(call, settings);
    } else if (command.modules != ModuleUse::none) {
        modules = loadModules(settings.text(Key::modulesDir), printWarning);
    }
    const auto path = commandPath(call);
    const std::vector<std::string> rest(call.words.begin() + static_cast<std::ptrdiff_t>(path.size()) - 1,
                                        call.words.end());
    OptionTable ownTable;
    const auto& known = optionsOf(path.back());
    const auto lookUp = [&]() -> const OptionTable& {
        if (!known.longNames.empty() && ownTable.longNames.empty()) {
            ownTable = lookUpOptions(settings, path.back());
        }
        return ownTable;
    };
    const auto scanned = scanOptions(rest, known, lookUp, flagsOf(modules));
    if (scanned.help) {
        return printPodmanHelp(settings, path, modules);
    }
    const bool isRun = command.modules == ModuleUse::all;
    if (isRun && std::any_of(modules.begin(), modules.end(), [&](const Module& module) {
            return module.sharedRun && scanned.flags.contains(module.flag);
        })) {
        return sharedRun(call, from);
    }
    for (const auto& warning : selectionWarnings(modules, scanned.flags)) {
        printWarning(warning);
    }

    std::vector<std::string> options;
    for (const auto& option : scanned.options) {
        options.insert(options.end(), option.begin(), option.end());
    }
    const auto forModules = isRun ? moduleArguments(modules, scanned.flags, from, options)
                                  : environmentArguments(modules, scanned.flags);
    const auto squashDir = squashDirectory(from, call.squashDir);
    const auto readableDir =
        prepareStores(settings, command, squashDir, known.longNames.empty() ? "" : firstWord(scanned), from);
    if (command.hooks) {
        prepareHook(settings, modules, scanned.flags, options);
    }
    if (command.hooks || !known.longNames.empty()) {
        prepareContainer(forModules, options, from);
    }
    auto arguments =
        podmanArguments(call, settings, readableDir, forModules, command.pmi && providePmi(from));
    arguments.insert(arguments.end(), path.begin() + 1, path.end());
    arguments.insert(arguments.end(), scanned.words.begin(), scanned.words.end());
    changeEnvironment(podmanEnvironment(settings, from, call.command == "login"));
    if (call.command == "pull") {
        return pullAndMigrate(arguments, call, settings, squashDir, from);
    }
    replaceProcess(arguments.front(), arguments);
}

}  // namespace sarus::podman_hpc
