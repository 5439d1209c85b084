#include "podman_hpc/modules/module.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "base/config_files.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/config/yaml.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr std::size_t maxFileSize = 1U << 20U;

bool isWordCharacter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool isVariableName(const std::string& text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::all_of(text.begin(), text.end(), isWordCharacter);
}

bool isFlagName(const std::string& text) {
    return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
        return isWordCharacter(c) || c == '-' || c == '.';
    });
}

/// A key of a module and how it is read.
struct ModuleKey {
    std::string_view name;
    void (*read)(Module& module, const YamlReader& reader, std::string_view key, const YamlValue& value);
};

template <std::string Module::*member>
void readText(Module& module, const YamlReader& reader, std::string_view key, const YamlValue& value) {
    module.*member = reader.text(key, value);
}

template <bool Module::*member>
void readBoolean(Module& module, const YamlReader& reader, std::string_view key, const YamlValue& value) {
    module.*member = reader.boolean(key, value);
}

template <std::vector<std::string> Module::*member>
void readList(Module& module, const YamlReader& reader, std::string_view key, const YamlValue& value) {
    module.*member = reader.list(key, value);
}

constexpr ModuleKey moduleKeys[] = {
    {"name", readText<&Module::name>},
    {"cli_arg", readText<&Module::flag>},
    {"help", readText<&Module::help>},
    {"hidden", readBoolean<&Module::hidden>},
    {"env", readText<&Module::variable>},
    {"additional_args", readList<&Module::podmanArguments>},
    {"shared_run", readBoolean<&Module::sharedRun>},
    {"conflicts", readList<&Module::conflicts>},
    {"depends_on", readList<&Module::dependencies>},
    {"copy", readList<&Module::copyRules>},
    {"bind", readList<&Module::bindRules>},
};

void requireUsable(const Module& module, const YamlValue& document, const YamlReader& reader) {
    const auto at = [&](std::string_view key) -> const YamlValue& {
        const auto* value = document.find(key);
        return value == nullptr ? document : *value;
    };
    if (module.name.empty()) {
        throw reader.error(at("name"), "the key 'name' is missing");
    }
    if (document.find("cli_arg") != nullptr && !isFlagName(module.flag)) {
        throw reader.error(at("cli_arg"), "cli_arg: an option has letters, digits, '-', '_' and '.'");
    }
    if (!module.flag.empty() && module.variable.empty()) {
        throw reader.error(at("cli_arg"),
                           "a module with 'cli_arg' needs 'env', the variable that enables it");
    }
    if (!module.variable.empty() && !isVariableName(module.variable)) {
        throw reader.error(at("env"), "env: a variable has letters, digits and '_'");
    }
}

Module moduleOf(const YamlValue& document, const YamlReader& reader) {
    reader.requireMap(document);
    Module module{.file = reader.file, .name = {}};
    for (const auto& key : moduleKeys) {
        if (const auto* value = document.find(key.name)) {
            key.read(module, reader, key.name, *value);
        }
    }
    requireUsable(module, document, reader);
    return module;
}

std::string readModuleFile(const std::string& file) {
    return readFile(file, maxFileSize);
}

/// What is wrong with a rule `SRC[:DST]`, or "".
std::string ruleProblem(const std::string& rule) {
    const auto parts = split(rule, ':');
    const auto& source = parts.front();
    const auto& target = parts.size() > 1 ? parts[1] : source;
    if (source.empty()) {
        return "the source is missing";
    }
    if (parts.size() > 2) {
        return "it has more than one ':'";
    }
    if (target.empty() || (target[0] != '/' && target[0] != '$' && target[0] != '~')) {
        return parts.size() == 1 ? "a rule without a target needs an absolute source"
                                 : "the target is not an absolute path";
    }
    if (parts.size() > 1 && target.find('*') != std::string::npos &&
        std::count(source.begin(), source.end(), '*') != 1) {
        return "a target with '*' needs a source with exactly one '*'";
    }
    return {};
}

void checkRules(std::string_view key, const std::vector<std::string>& rules,
                const std::function<void(std::string_view, std::string)>& report) {
    for (const auto& rule : rules) {
        if (const auto problem = ruleProblem(rule); !problem.empty()) {
            report(key, cat("rule '", printable(rule), "': ", problem));
        }
    }
}

/// One value of an option that Podman splits at commas as CSV.
std::string csvField(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) {
        return text;
    }
    std::string out = "\"";
    for (const char c : text) {
        out += c == '"' ? "\"\"" : std::string(1, c);
    }
    return out + '"';
}

/// Names of variables in `$NAME` and `${NAME}`, and HOME for a leading '~'.
void collectVariables(const std::string& rule, std::set<std::string>& names) {
    for (const auto& part : split(rule, ':')) {
        if (part.starts_with('~')) {
            names.insert("HOME");
        }
        for (auto at = part.find('$'); at != std::string::npos; at = part.find('$', at + 1)) {
            const auto begin = at + (part.compare(at + 1, 1, "{") == 0 ? 2 : 1);
            const auto end =
                std::find_if_not(part.begin() + static_cast<std::ptrdiff_t>(std::min(begin, part.size())),
                                 part.end(), isWordCharacter);
            std::string name(part.begin() + static_cast<std::ptrdiff_t>(std::min(begin, part.size())), end);
            if (isVariableName(name)) {
                names.insert(std::move(name));
            }
        }
    }
}

/// Whether the words set the container's variable: `-e NAME`, `-eNAME=...`, `--env=NAME=...`.
bool setsVariable(const std::vector<std::string>& words, const std::string& variable) {
    return !variable.empty() && std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        const auto text = word.starts_with("--env=") ? std::string_view(word).substr(6)
                          : word.starts_with("-e")   ? std::string_view(word).substr(2)
                                                     : std::string_view(word);
        return text.starts_with(variable) && (text.size() == variable.size() || text[variable.size()] == '=');
    });
}

const Module* byName(const std::vector<Module>& modules, const std::string& name) {
    const auto found = std::find_if(modules.begin(), modules.end(),
                                    [&](const Module& module) { return module.name == name; });
    return found == modules.end() ? nullptr : &*found;
}

}  // namespace

Module parseModule(const std::string& text, const std::string& file) {
    return moduleOf(parseYaml(text, file), YamlReader(file));
}

CheckedModule checkModule(const std::string& file, const std::set<std::string>& podmanOptions) {
    CheckedModule result{.file = file, .module = std::nullopt, .problems = {}};
    try {
        const auto document = parseYaml(readModuleFile(file), file);
        const YamlReader reader(file);
        result.module = moduleOf(document, reader);
        const auto& module = *result.module;
        const auto report = [&](bool isError, std::string_view key, const std::string& message) {
            const auto* value = document.find(key);
            result.problems.push_back(
                {isError,
                 reader.error(value == nullptr ? document : *value, cat(key, ": ", message)).what()});
        };
        std::vector<std::string> known;
        for (const auto& key : moduleKeys) {
            known.emplace_back(key.name);
        }
        for (const auto& [key, value] : document.members) {
            if (std::find(known.begin(), known.end(), key) == known.end()) {
                const auto similar = closestMatch(key, known);
                report(false, key,
                       similar ? cat("unknown key; did you mean '", *similar, "'?") : "unknown key");
            }
        }
        if (podmanOptions.contains(module.flag)) {
            report(false, "cli_arg", cat("hides --", module.flag, " of 'podman run'"));
        }
        for (const auto& argument : module.podmanArguments) {
            if (argument.starts_with("--") && argument.find(' ') < argument.find('=')) {
                report(true, "additional_args",
                       cat("'", printable(argument), "' is one word for Podman; write --option=value"));
            }
        }
        const auto reportError = [&](std::string_view key, const std::string& message) {
            report(true, key, message);
        };
        checkRules("copy", module.copyRules, reportError);
        checkRules("bind", module.bindRules, reportError);
    } catch (const Error& error) {
        result.problems.push_back({true, error.what()});
    }
    return result;
}

std::vector<std::string> moduleFiles(const std::string& directory) {
    UniqueFd folder;
    try {
        folder = openFile(directory, O_PATH | O_DIRECTORY);
    } catch (const Error& error) {
        if (error.errnum() == ENOENT) {
            return {};
        }
        throw;
    }
    return listFiles(folder.get(), directory, {".yaml"});
}

std::vector<Module> loadModules(const std::string& directory,
                                const std::function<void(const std::string&)>& warn) {
    std::vector<Module> modules;
    for (const auto& file : moduleFiles(directory)) {
        try {
            auto module = parseModule(readModuleFile(file), file);
            if (const auto* other = byName(modules, module.name)) {
                warn(
                    cat(printable(file), ": replaces ", printable(other->file), ", which has the same name"));
                std::erase_if(modules, [&](const Module& old) { return old.name == module.name; });
            }
            modules.push_back(std::move(module));
        } catch (const Error& error) {
            warn(cat(error.what(), "; this module is disabled"));
        }
    }
    return modules;
}

std::set<std::string> flagsOf(const std::vector<Module>& modules) {
    std::set<std::string> flags;
    for (const auto& module : modules) {
        if (!module.flag.empty()) {
            flags.insert(module.flag);
        }
    }
    return flags;
}

std::vector<std::string> selectionWarnings(const std::vector<Module>& modules,
                                           const std::set<std::string>& flags) {
    const auto isEnabled = [&](const Module* module) {
        return module != nullptr && flags.contains(module->flag);
    };
    std::vector<std::string> warnings;
    for (const auto& module : modules) {
        if (!isEnabled(&module)) {
            continue;
        }
        for (const auto& name : module.conflicts) {
            if (const auto* other = byName(modules, name); isEnabled(other)) {
                warnings.push_back(cat("Module '", module.name, "' (--", module.flag, ") conflicts with '",
                                       name, "' (--", other->flag,
                                       "). These modules cannot be used together."));
            }
        }
        for (const auto& name : module.dependencies) {
            if (const auto* other = byName(modules, name); !isEnabled(other)) {
                const auto& flag = other == nullptr || other->flag.empty() ? name : other->flag;
                warnings.push_back(cat("Module '", module.name, "' (--", module.flag, ") requires '", name,
                                       "' to be enabled. Please add --", flag, " to your command."));
            }
        }
    }
    return warnings;
}

std::vector<std::string> environmentArguments(const std::vector<Module>& modules,
                                              const std::set<std::string>& flags) {
    std::vector<std::string> arguments;
    for (const auto& module : modules) {
        if (module.flag.empty() || !flags.contains(module.flag)) {
            continue;
        }
        const auto& all = module.podmanArguments;
        for (auto word = all.begin(); word != all.end(); ++word) {
            const bool isAlone = *word == "-e" || *word == "--env" || *word == "--env-file";
            if (isAlone || word->starts_with("-e") || word->starts_with("--env=") ||
                word->starts_with("--env-file=")) {
                arguments.push_back(*word);
                if (isAlone && word + 1 != all.end()) {
                    arguments.push_back(*++word);
                }
            }
        }
        arguments.insert(arguments.end(), {"-e", cat(module.variable, "=1")});
    }
    return arguments;
}

std::string hookLogOf(const std::vector<std::string>& words) {
    const auto sought = cat(hookLogVariable, "=/");
    std::string path;
    for (const auto& word : words) {
        const auto found = word.find(sought);
        if (found != std::string::npos && (found == 0 || word.starts_with('-'))) {
            path = word.substr(found + sought.size() - 1);
        }
    }
    return path;
}

bool needsHook(const Module& module, const std::set<std::string>& flags,
               const std::vector<std::string>& words) {
    const bool isEnabled = !module.flag.empty() && flags.contains(module.flag);
    return (isEnabled || setsVariable(words, module.variable)) &&
           !(module.copyRules.empty() && module.bindRules.empty());
}

std::vector<std::string> moduleArguments(const std::vector<Module>& modules,
                                         const std::set<std::string>& flags, const Surroundings& from,
                                         const std::vector<std::string>& words) {
    std::vector<std::string> arguments;
    std::set<std::string> names;
    for (const auto& module : modules) {
        if (!module.flag.empty() && flags.contains(module.flag)) {
            arguments.insert(arguments.end(), module.podmanArguments.begin(), module.podmanArguments.end());
            arguments.insert(arguments.end(), {"-e", cat(module.variable, "=1")});
        }
        if (needsHook(module, flags, words)) {
            for (const auto* rules : {&module.copyRules, &module.bindRules}) {
                for (const auto& rule : *rules) {
                    collectVariables(rule, names);
                }
            }
        }
    }
    std::erase_if(names, [&](const std::string& name) { return !from.variable(name); });
    const auto pass = [&](std::string_view name, std::string_view value) {
        arguments.insert(arguments.end(),
                         {"--annotation", csvField(cat(variableAnnotationPrefix, name, '=', value))});
    };
    for (const auto& name : names) {
        pass(name, *from.variable(name));
    }
    if (const auto log = hookLogOf(words); !log.empty()) {
        names.insert(hookLogVariable);
        pass(hookLogVariable, log);
    }
    const std::vector<std::string> passed(names.begin(), names.end());
    arguments.insert(arguments.end(), {"--annotation", cat(variablesAnnotation, '=', join(passed, " "))});
    return arguments;
}

}  // namespace sarus::podman_hpc
