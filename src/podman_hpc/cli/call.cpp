#include "podman_hpc/cli/call.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "podman_hpc/cli/option_table.hpp"
#include "podman_hpc/cli/podman.hpp"
#include "podman_hpc/config/own_hooks.hpp"

namespace sarus::podman_hpc {

const std::vector<GroupOption> groupOptions{
    {"additional-stores", true, "Use these additional stores, separated by commas."},
    {"squash-dir", true, "Directory of the squash store."},
    {"log-level", true, ""},
    {"help", false, "Show this message and exit."},
};

namespace {

// The squash store has images without their single layers: it breaks `build`, and `save` would leave a part.
constexpr PodmanCommand commandTable[] = {
    {.name = "build", .hooks = true, .modules = ModuleUse::refused},
    {.name = "commit", .additionalStores = true},
    {.name = "container commit", .additionalStores = true},
    {.name = "container cp", .additionalStores = true},
    {.name = "container create", .additionalStores = true},
    {.name = "container diff", .additionalStores = true},
    {.name = "container export", .additionalStores = true},
    {.name = "container inspect", .additionalStores = true},
    {.name = "container restart", .additionalStores = true},
    {.name = "container run", .additionalStores = true},
    {.name = "container start", .additionalStores = true},
    {.name = "cp", .additionalStores = true},
    {.name = "create", .additionalStores = true},
    {.name = "diff", .additionalStores = true},
    {.name = "exec", .pmi = true, .modules = ModuleUse::environment},
    {.name = "export", .additionalStores = true},
    {.name = "history", .additionalStores = true},
    {.name = "image diff", .additionalStores = true},
    {.name = "image exists", .additionalStores = true},
    {.name = "image history", .additionalStores = true},
    {.name = "image inspect", .additionalStores = true},
    {.name = "image list", .additionalStores = true, .listsImages = true},
    {.name = "image ls", .additionalStores = true, .listsImages = true},
    {.name = "images", .additionalStores = true, .listsImages = true},
    {.name = "inspect", .additionalStores = true},
    {.name = "pull", .ignoreChownErrors = true},
    {.name = "restart", .additionalStores = true},
    {.name = "run",
     .ignoreChownErrors = true,
     .additionalStores = true,
     .hooks = true,
     .unconfined = true,
     .pmi = true,
     .modules = ModuleUse::all},
    {.name = "start", .additionalStores = true},
};

const GroupOption* findGroupOption(std::string_view name) {
    const auto found = std::find_if(groupOptions.begin(), groupOptions.end(),
                                    [&](const GroupOption& option) { return option.name == name; });
    return found == groupOptions.end() ? nullptr : &*found;
}

/// Reads the options in front of the command.
class CallParser {
public:
    explicit CallParser(const std::vector<std::string>& all) : words(all) {}

    Call parse() {
        for (; next < words.size(); ++next) {
            const auto& word = words[next];
            if (word == "--") {
                ++next;
                break;
            }
            if (!word.starts_with('-') || word == "-") {
                break;
            }
            word.starts_with("--") ? parseLong(word) : parseShort(word);
        }
        if (next < words.size()) {
            call.command = words[next++];
        }
        call.words.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
        return std::move(call);
    }

private:
    std::string valueOf(std::string_view shown) {
        if (next + 1 >= words.size()) {
            throw usageError(cat("Option '", shown, "' requires an argument."));
        }
        return words[++next];
    }

    void parseLong(const std::string& word) {
        const auto equals = word.find('=');
        const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
        if (const auto* own = findGroupOption(name)) {
            if (!own->takesValue && equals != std::string::npos) {
                throw usageError(cat("Option '--", name, "' does not take a value."));
            }
            setOwn(*own, !own->takesValue              ? ""
                         : equals == std::string::npos ? valueOf(cat("--", name))
                                                       : word.substr(equals + 1));
            return;
        }
        Call::GlobalOption option{.name = name, .words = {word}};
        if (equals != std::string::npos) {
            takesValue(name);
            option.value = word.substr(equals + 1);
        } else if (takesValue(name)) {
            option.value = valueOf(cat("--", name));
            option.words.push_back(option.value);
        }
        add(std::move(option));
    }

    void parseShort(const std::string& word) {
        const auto& known = globalOptions().shortNames;
        const auto found = known.find(word[1]);
        if (word == "-h") {
            call.help = true;
        } else if (found == known.end()) {
            throw usageError(cat("No such option: ", printable(word)));
        } else {
            Call::GlobalOption option{.name = word == "-v" ? "version" : "", .words = {word}};
            if (found->second && word.size() == 2) {
                option.words.push_back(valueOf(word));
            }
            add(std::move(option));
        }
    }

    /// Throws Error unless Podman has the option.
    static bool takesValue(const std::string& name) {
        const auto* table = &globalOptions();
        auto found = table->longNames.find(name);
        if (found == table->longNames.end()) {
            table = &lookUpGlobalOptions();
            found = table->longNames.find(name);
        }
        if (found == table->longNames.end()) {
            throw usageError(cat("No such option: --", printable(name)));
        }
        return found->second;
    }

    void setOwn(const GroupOption& option, const std::string& value) {
        if (option.name == "additional-stores") {
            call.additionalStores = value;
        } else if (option.name == "squash-dir") {
            call.squashDir = value;
        } else if (option.name == "log-level") {
            call.logLevel = value;
        } else {
            call.help = true;
        }
    }

    void add(Call::GlobalOption option) {
        call.version = call.version || option.name == "version";
        call.podmanOptions.push_back(std::move(option));
    }

    const std::vector<std::string>& words;
    std::size_t next = 0;
    Call call;
};

/// Podman's global options that we pass behind the command, and the setting that each replaces.
std::optional<Key> replacedSetting(std::string_view option) {
    return option == "root"        ? std::optional(Key::graphRoot)
           : option == "runroot"   ? std::optional(Key::runRoot)
           : option == "hooks-dir" ? std::optional(Key::hooksDir)
                                   : std::nullopt;
}

}  // namespace

Error usageError(std::string message, std::string_view usage) {
    Error error(std::move(message));
    error.addUsage(cat("Usage: podman-hpc ", usage));
    error.addUsage("Try 'podman-hpc --help' for help.");
    return error.setExitStatus(2);
}

Call parseCall(const std::vector<std::string>& words) {
    return CallParser(words).parse();
}

const PodmanCommand& podmanCommand(const Call& call) {
    static constexpr PodmanCommand other{};
    const bool isGroup = (call.command == "container" || call.command == "image") && !call.words.empty();
    const auto name = isGroup ? cat(call.command, ' ', call.words.front()) : call.command;
    const auto* found = std::find_if(std::begin(commandTable), std::end(commandTable),
                                     [&](const PodmanCommand& command) { return command.name == name; });
    return found == std::end(commandTable) ? other : *found;
}

void applyCall(const Call& call, Settings& settings) {
    const auto origin = [](std::string_view option) {
        return Origin{Origin::Kind::commandLine, cat("--", option)};
    };
    if (call.additionalStores) {
        settings.set(
            Key::additionalStores,
            {call.additionalStores->empty() ? std::vector<std::string>{} : split(*call.additionalStores, ','),
             origin("additional-stores")});
    }
    for (const auto& option : call.podmanOptions) {
        if (const auto key = replacedSetting(option.name)) {
            settings.set(*key, {{option.value}, origin(option.name)});
        }
    }
}

Call withCommand(const Call& call, std::string command) {
    auto other = call;
    other.command = std::move(command);
    other.words.clear();
    return other;
}

std::vector<std::string> podmanArguments(const Call& call, const Settings& settings,
                                         const std::string& squashDir,
                                         const std::vector<std::string>& moduleArguments, bool preservesPmi) {
    std::vector<std::string> arguments{settings.text(Key::podmanBin)};
    const auto add = [&](std::initializer_list<std::string> words) {
        arguments.insert(arguments.end(), words);
    };
    // Without a command, as in --version, Podman gets what the user typed.
    const bool withDefaults = settings.flag(Key::useDefaultArgs) && !call.command.empty();
    std::string cgroupManager = "cgroupfs";
    for (const auto& option : call.podmanOptions) {
        if (withDefaults && option.name == "cgroup-manager") {
            cgroupManager = option.value;
        } else if (!withDefaults || !replacedSetting(option.name)) {
            arguments.insert(arguments.end(), option.words.begin(), option.words.end());
        }
    }
    if (call.command.empty()) {
        return arguments;
    }
    add({call.command});
    if (withDefaults) {
        const auto& command = podmanCommand(call);
        add({"--root", settings.text(Key::graphRoot), "--runroot", settings.text(Key::runRoot),
             "--storage-opt", cat("mount_program=", settings.text(Key::mountProgram)), "--cgroup-manager",
             cgroupManager});
        if (command.ignoreChownErrors) {
            add({"--storage-opt", "ignore_chown_errors=true"});
        }
        if (command.additionalStores && !squashDir.empty()) {
            std::vector<std::string> stores{squashDir};
            const auto& further = settings.list(Key::additionalStores);
            stores.insert(stores.end(), further.begin(), further.end());
            add({"--storage-opt", cat("additionalimagestore=", join(stores, ","))});
        }
        if (command.hooks) {
            add({"--hooks-dir", settings.text(Key::hooksDir)});
            if (const auto own = provideOwnHooks(settings, call.command, ::getuid()); !own.empty()) {
                add({"--hooks-dir", own});
            }
            add({"--env", cat(modulesVariable, '=', settings.text(Key::modulesDir)), "--annotation",
                 cat(hookAnnotation, "=true")});
        }
        if (command.unconfined && !call.ownSeccomp) {
            add({"--security-opt", "seccomp=unconfined"});
        }
    }
    arguments.insert(arguments.end(), moduleArguments.begin(), moduleArguments.end());
    add({"--log-level", call.logLevel});
    if (preservesPmi) {
        add({"--preserve-fds", "1"});
    }
    return arguments;
}

}  // namespace sarus::podman_hpc
