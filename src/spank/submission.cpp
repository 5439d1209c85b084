#include "spank/submission.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/boolean.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "oci/runtime/mount_request.hpp"
#include "spank/options.hpp"

namespace sarus::spank {

namespace {

bool isPath(std::string_view text) {
    return text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
}

std::string absolute(const std::string& path, const Caller& caller) {
    return path.starts_with('/') ? path : cat(caller.workingDirectory, '/', path);
}

std::string mountOption(const oci::MountRequest& mount) {
    return cat("--mount=", oci::toText(mount));
}

std::string tomlString(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            throw Error(cat("--container-image: '", printable(text), "' contains a control character"));
        }
        quoted += c == '"' || c == '\\' ? cat('\\', c) : c == '$' ? "$$" : std::string(1, c);
    }
    return quoted + '"';
}

std::string lowercase(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return lower;
}

std::string opposite(const std::string& flag) {
    if (flag == "container-writable" || flag == "container-readonly") {
        return flag == "container-writable" ? "container-readonly" : "container-writable";
    }
    return "no-" + flag;
}

/// The option that a variable with this value stands for; nullopt if it is off. Throws Error.
std::optional<GivenOption> optionOf(const Option& option, const GivenOption& variable) {
    const auto isOn = mayLackArgument(option) ? parseBoolean(variable.value) : std::nullopt;
    if (option.argument != nullptr && !isOn) {
        return GivenOption{option.name, variable.value};
    }
    if (!isOn) {
        throw Error(cat(variable.name, ": expected 1 or 0, found '", printable(variable.value), "'"));
    }
    const auto name = *isOn ? option.name : opposite(option.name);
    const bool isOption =
        std::any_of(options.begin(), options.end(), [&](const auto& known) { return name == known.name; });
    return isOption ? std::optional(GivenOption{name, ""}) : std::nullopt;
}

/// The same for a variable of Pyxis.
std::optional<GivenOption> optionOfPeer(const GivenOption& variable) {
    auto name = "container-" + lowercase(std::string_view(variable.name).substr(peerPrefix.size()));
    std::replace(name.begin(), name.end(), '_', '-');
    const auto known =
        std::find_if(options.begin(), options.end(), [&](const auto& option) { return name == option.name; });
    if (known != options.end() && name != "container-mpi") {
        return optionOf(*known, variable);
    }
    if (!parseBoolean(variable.value).value_or(true)) {
        return std::nullopt;
    }
    throw Error(cat(printable(variable.name), " is not supported"), "Unset it, or set it to 0");
}

/// Throws Error for two options of a command line that cannot both be meant.
void checkContradictions(std::vector<GivenOption> given) {
    constexpr std::array<std::string_view, 3> lists{"container-mounts", "container-env", "container-unshare"};
    std::erase_if(given, [](const GivenOption& option) { return option.isOuter; });
    for (auto a = given.begin(); a != given.end(); ++a) {
        const bool isList = std::find(lists.begin(), lists.end(), a->name) != lists.end();
        for (auto b = a + 1; b != given.end(); ++b) {
            if (opposite(a->name) == b->name || opposite(b->name) == a->name) {
                throw Error(cat("--", a->name, " and --", b->name, " contradict each other"));
            }
            if (a->name == b->name && a->value != b->value && !isList) {
                throw Error(cat("--", a->name, ": '", printable(a->value), "' and '", printable(b->value),
                                "' contradict each other"));
            }
        }
    }
}

/// The values of the options: of the variables first, then of the command line.
class Values {
public:
    Values(const std::vector<GivenOption>& commandLine, bool useVariables, const Caller& caller)
        : given(commandLine) {
        if (!useVariables) {
            return;
        }
        for (const auto& option : options) {
            const auto name = variableOf(option.name);
            addVariable({name, caller.variable(name).value_or("")},
                        [&](const GivenOption& variable) { return optionOf(option, variable); });
        }
        for (const auto& variable : caller.peerVariables) {
            addVariable(variable, optionOfPeer);
        }
    }

    /// Throws what is wrong with a variable. It matters only if there is a container.
    void checkVariables() const {
        if (problem) {
            throw Error(*problem);
        }
    }

    /// Throws the error, and names the variable if it is about one.
    [[noreturn]] void explain(const Error& error) const {
        for (const auto& [option, variable] : variables) {
            if (std::string_view(error.what()).starts_with(cat("--", option, ":"))) {
                throw Error(cat(variable, std::string_view(error.what()).substr(option.size() + 2)),
                            error.hint());
            }
        }
        throw Error(error);
    }

    std::optional<std::string> value(std::string_view name) const {
        const auto found = std::find_if(given.rbegin(), given.rend(),
                                        [&](const auto& option) { return option.name == name; });
        return found == given.rend() ? std::nullopt : std::optional(found->value);
    }

    std::vector<std::string> all(std::string_view name) const {
        std::vector<std::string> values;
        for (const auto& option : given) {
            if (option.name == name) {
                values.push_back(option.value);
            }
        }
        return values;
    }

    /// Which of two opposite flags comes last; nullopt if there is none.
    std::optional<bool> flag(std::string_view yes, std::string_view no) const {
        const auto found = std::find_if(given.rbegin(), given.rend(), [&](const auto& option) {
            return option.name == yes || option.name == no;
        });
        return found == given.rend() ? std::nullopt : std::optional(found->name == yes);
    }

private:
    /// What is given already wins. An empty variable has no effect.
    template <typename Meaning>
    void addVariable(const GivenOption& variable, const Meaning& meaning) {
        try {
            const auto option = variable.value.empty() ? std::nullopt : meaning(variable);
            if (option && !value(option->name)) {
                given.insert(given.begin(), *option);
                variables.emplace_back(option->name, variable.name);
            }
        } catch (const Error& error) {
            problem = error;
        }
    }

    std::vector<GivenOption> given;
    std::vector<std::pair<std::string, std::string>> variables;  ///< option and variable
    std::optional<Error> problem;
};

/// What is wrong with the place of a file is best known before the job waits in the queue. A directory that
/// is not here may be on the nodes.
void addSave(const Values& values, const Caller& caller, StepRequest& request) {
    const auto path = values.value("container-save");
    if (!path) {
        return;
    }
    request.save = absolute(*path, caller);
    const auto refuse = [&](std::string_view why) {
        throw Error(cat("--container-save: ", printable(request.save), why),
                    "It must be a path for a squashfs file");
    };
    if (path->empty() || path->ends_with('/') || isDirectory(request.save)) {
        refuse(" is a directory");
    }
    const auto directory = directoryOf(request.save);
    if (isDirectory(directory) && ::access(directory.c_str(), W_OK | X_OK) != 0) {
        refuse(": you may not write to its directory");
    }
    const bool isStep = stepOfName(request.name).has_value();
    if (request.nameUse == NameUse::exec || isStep) {
        throw Error(cat("--container-save cannot be used with ",
                        isStep ? "the name of a step" : "the flag ':exec'", " as --container-name"),
                    "A container is saved by the step that starts it");
    }
}

void addImage(const Values& values, const Caller& caller, Submission& submission) {
    if (const auto image = values.value("container-image")) {
        submission.request.image = isPath(*image) ? absolute(*image, caller) : imageName(*image);
        if (submission.request.image.empty() || submission.request.image.starts_with('-')) {
            throw Error(cat("--container-image: '", printable(*image), "' is not the name of an image"));
        }
    }
    const auto edf = values.value("edf");
    const auto environment = values.value("environment");
    if (edf && environment && *edf != *environment) {
        throw Error("--edf and --environment are the same option, but name different files");
    }
    submission.environment = environment ? *environment : edf.value_or("");
    if ((edf || environment) && submission.environment.empty()) {
        throw Error("--environment: the name of the environment definition is empty");
    }
    if (!submission.environment.empty() && !submission.request.image.empty()) {
        submission.changes += cat("image = ", tomlString(submission.request.image), '\n');
        submission.request.image.clear();
    }
}

void addName(const Values& values, StepRequest& request) {
    const auto name = values.value("container-name");
    if (!name) {
        return;
    }
    const auto valid = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    const auto colon = std::min(name->find(':'), name->size());
    const auto use = colon == name->size() ? NameUse::automatic : parseNameUse(name->substr(colon + 1));
    if (!use) {
        throw Error(cat("--container-name: '", printable(name->substr(colon)), "' is not known"),
                    "Behind the name may stand :auto, :create, :exec or :no_exec");
    }
    request.nameUse = *use;
    request.name = name->substr(0, colon);
    if (request.name.empty() || request.name.size() > longestName || !valid(request.name.front()) ||
        !std::all_of(request.name.begin(), request.name.end(),
                     [&](char c) { return valid(c) || c == '_' || c == '.' || c == '-'; })) {
        throw Error(cat("--container-name: '", printable(request.name), "' is not a valid name"),
                    cat("A name has 1 to ", longestName,
                        " of the characters A-Z a-z 0-9 _ . - and starts with a letter or digit"));
    }
    if (stepOfName(request.name) && *use != NameUse::automatic && *use != NameUse::exec) {
        throw Error(
            cat("--container-name: '", request.name, "' is a job step, whose container can only be joined"),
            "A name that is no number is free");
    }
}

/// What would end the script on its node.
void checkScript(const Submission& submission) {
    const auto& request = submission.request;
    if (stepOfName(request.name) || request.nameUse == NameUse::exec) {
        throw Error("--container-name: a batch script joins no container",
                    "Join it in the script: srun --overlap --container-name=NAME COMMAND");
    }
    if (request.image.empty() && submission.environment.empty()) {
        throw Error("--container-name: a batch script needs an image",
                    "Add --container-image or --environment, or use the option for srun in the script");
    }
}

void addMounts(const Values& values, const Caller& caller, StepRequest& request) {
    for (const auto& text : values.all("container-mounts")) {
        for (const auto& mount : oci::splitVolumes(text)) {
            request.options.push_back(
                mountOption(oci::parseVolume(mount, "--container-mounts", caller.workingDirectory)));
        }
    }
    if (values.flag("container-mount-home", "no-container-mount-home").value_or(false)) {
        const auto home = caller.variable("HOME").value_or("");
        if (!home.starts_with('/')) {
            throw Error("--container-mount-home: the variable HOME is not an absolute path");
        }
        request.options.push_back(mountOption(oci::mountInPlace(home)));
    }
}

/// An environment definition has keys of its own for these, and options win over them.
void addFlags(const Values& values, Submission& submission) {
    auto& options = submission.request.options;
    const bool definition = !submission.environment.empty();
    const auto entrypoint = values.flag("container-entrypoint", "no-container-entrypoint");
    if (definition && entrypoint.value_or(false)) {
        submission.changes += "entrypoint = true\n";
    } else if (!entrypoint.value_or(false)) {
        if (!definition || entrypoint) {
            options.insert(options.end(), {"--entrypoint", ""});
        }
    }
    auto& refused = submission.request.refused;
    const auto writable = values.flag("container-writable", "container-readonly");
    if (definition && writable.value_or(false)) {
        submission.changes += "writable = true\n";
    }
    if (writable) {
        *writable ? refused.emplace_back("read-only") : options.emplace_back("--read-only");
    }
    if (const auto root = values.flag("container-remap-root", "no-container-remap-root")) {
        *root ? options.emplace_back("--remap-root") : refused.emplace_back("remap-root");
    }
    if (const auto type = values.value("container-mpi")) {
        options.push_back(type->empty() ? std::string("--mpi") : cat("--mpi-type=", *type));
    }
}

void addNamespaces(const Values& values, StepRequest& request) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> known{
        {{"net", "--network=none"}, {"ipc", "--ipc=private"}, {"uts", "--uts=private"}}};
    std::set<std::string_view> wanted;
    for (const auto& text : values.all("container-unshare")) {
        for (const auto& name : split(text, ',')) {
            const auto found = std::find_if(known.begin(), known.end(),
                                            [&](const auto& option) { return option.first == name; });
            if (found == known.end()) {
                throw Error(cat("--container-unshare: '", printable(name), "' is not known"),
                            "The names are net, ipc and uts");
            }
            wanted.insert(found->second);
        }
    }
    request.options.insert(request.options.end(), wanted.begin(), wanted.end());
}

void addVariables(const Values& values, StepRequest& request) {
    for (const auto& text : values.all("container-env")) {
        for (const auto& name : split(text, ',')) {
            if (name.empty() || name.find('=') != std::string::npos) {
                throw Error(cat("--container-env: '", printable(name), "' is not the name of a variable"),
                            "Export variables before you start the job, and list their names");
            }
            request.options.push_back(cat("--env=", name));
        }
    }
    if (const auto workdir = values.value("container-workdir")) {
        if (workdir->empty()) {
            throw Error("--container-workdir: the path is empty");
        }
        request.options.push_back(
            cat("--workdir=", workdir->starts_with('/') || isPath(*workdir) ? "" : "./", *workdir));
    }
}

}  // namespace

std::string imageName(const std::string& text) {
    constexpr std::string_view scheme = "docker://";
    const auto name = text.starts_with(scheme) ? text.substr(scheme.size()) : text;
    const auto separator = name.find('#');
    const auto server = name.substr(0, separator);
    const auto user = server.find('@');
    if (separator != std::string::npos) {
        return cat(server.substr(user == std::string::npos ? 0 : user + 1), '/', name.substr(separator + 1));
    }
    const bool isDigest = user != std::string::npos && name.compare(user + 1, 7, "sha256:") == 0;
    return user == std::string::npos || isDigest ? name : name.substr(user + 1);
}

std::optional<Submission> readOptions(const std::vector<GivenOption>& commandLine, bool useVariables,
                                      const Caller& caller) {
    const Values values(commandLine, useVariables, caller);
    try {
        Submission submission;
        checkContradictions(commandLine);
        addImage(values, caller, submission);
        addName(values, submission.request);
        const auto& request = submission.request;
        if (request.image.empty() && request.name.empty() && submission.environment.empty()) {
            if (commandLine.empty()) {
                return std::nullopt;
            }
            throw Error(cat("--", commandLine.front().name, " needs a container"),
                        "Add --container-image, --container-name or --environment");
        }
        if (caller.isBatch) {
            checkScript(submission);
        }
        values.checkVariables();
        addMounts(values, caller, submission.request);
        addFlags(values, submission);
        addNamespaces(values, submission.request);
        addVariables(values, submission.request);
        addSave(values, caller, submission.request);
        return submission;
    } catch (const Error& error) {
        values.explain(error);
    }
}

}  // namespace sarus::spank
