#include "spank/step_request.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/runtime/mount_request.hpp"

namespace sarus::spank {

namespace {

/// Below the root of the container: sites forbid the directories of Slurm as places of mounts.
constexpr std::string_view scriptPlace = "/slurm_script";

/// One line for each item; Slurm prints environments line by line.
std::string escape(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        escaped += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : std::string(1, c);
    }
    return escaped;
}

[[noreturn]] void refuse() {
    throw Error("The description of the container is damaged",
                "Do not set variables whose name begins with SLURM_SARUS_");
}

std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            plain += text[i];
        } else if (++i < text.size() && (text[i] == '\\' || text[i] == 'n')) {
            plain += text[i] == 'n' ? '\n' : '\\';
        } else {
            refuse();
        }
    }
    return plain;
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

std::string serialize(const StepRequest& request) {
    std::string text;
    const auto item = [&](std::string_view key, std::string_view value) {
        text += cat(key, '=', escape(value), '\n');
    };
    item("image", request.image);
    item("edf", request.edf);
    item("name", request.name);
    for (const auto& [name, use] : nameUses) {
        if (use == request.nameUse) {
            item("use", name);
        }
    }
    item("save", request.save);
    for (const auto& option : request.options) {
        item("option", option);
    }
    for (const auto& flag : request.refused) {
        item("refused", flag);
    }
    if (text.size() > maxRequestSize) {
        throw Error(cat("The options of the container are longer than ", maxRequestSize, " bytes"),
                    "Shorten the environment definition file");
    }
    return text;
}

StepRequest parseRequest(std::string_view text) {
    StepRequest request;
    if (!text.ends_with('\n')) {
        refuse();
    }
    text.remove_suffix(1);
    for (const auto& line : split(text, '\n')) {
        const auto separator = line.find('=');
        if (separator == std::string::npos) {
            refuse();
        }
        const auto key = line.substr(0, separator);
        auto value = unescape(std::string_view(line).substr(separator + 1));
        if (key == "image") {
            request.image = std::move(value);
        } else if (key == "edf") {
            request.edf = std::move(value);
        } else if (key == "name") {
            request.name = std::move(value);
        } else if (const auto use = key == "use" ? parseNameUse(value) : std::nullopt) {
            request.nameUse = *use;
        } else if (key == "save") {
            request.save = std::move(value);
        } else if (key == "option") {
            request.options.push_back(std::move(value));
        } else if (key == "refused") {
            request.refused.push_back(std::move(value));
        } else {
            refuse();
        }
    }
    return request;
}

std::optional<NameUse> parseNameUse(std::string_view text) {
    for (const auto& [name, use] : nameUses) {
        if (name == text) {
            return use;
        }
    }
    return std::nullopt;
}

std::optional<JobStep> stepOfName(std::string_view name) {
    const auto dot = std::min(name.find('.'), name.size());
    const auto job = name.substr(0, dot);
    const auto step = name.substr(std::min(dot + 1, name.size()));
    return parseNumber(job) && parseNumber(step) ? std::optional(JobStep{std::string(job), std::string(step)})
                                                 : std::nullopt;
}

std::string containerName(const std::string& name, const std::string& job) {
    return name.empty() || job.empty() || stepOfName(name) ? name : cat(name, ".job", job);
}

std::string nameForStep(const std::string& job, const std::string& step) {
    return cat(job, '.', step);
}

std::vector<std::string> runArguments(const StepRequest& request, const StepCommand& command,
                                      std::string_view edfPath, bool terminal, const std::string& container,
                                      bool script) {
    std::vector<std::string> words{"sarus", "run"};
    if (terminal) {
        words.emplace_back("--tty");
    }
    if (!container.empty()) {
        words.push_back(cat("--name=", container));
    }
    if (!container.empty() &&
        (!request.name.empty() || !request.save.empty())) {  // for later, or to be saved
        words.emplace_back("--keep");
    }
    append(words, request.options);
    if (script) {
        words.push_back(cat("--mount=", oci::toText({.source = command.word,
                                                     .destination = std::string(scriptPlace),
                                                     .readonly = true})));
    }
    if (request.edf.empty()) {
        words.push_back(request.image);
    } else {
        words.push_back(cat("--edf=", edfPath));
        words.emplace_back("--");  // the definition names the image: the command begins here
    }
    words.emplace_back(script ? scriptPlace : command.word);
    append(words, command.arguments);
    return words;
}

std::vector<std::string> holdArguments(const StepRequest& request, const StepCommand& command,
                                       std::string_view edfPath, const std::string& container) {
    auto words = runArguments(request, command, edfPath, false, container, false);
    words.insert(words.begin() + 2, "--hold");
    return words;
}

std::vector<std::string> joinArguments(const StepRequest& request, const StepCommand& command,
                                       std::string_view edfPath, bool terminal, const std::string& container,
                                       int keeper) {
    std::vector<std::string> words{"sarus", "run", cat("--name=", container), "--join", request.image};
    if (keeper >= 0) {
        words.push_back(cat("--keeper=", keeper));
    }
    if (terminal) {
        words.emplace_back("--tty");
    }
    append(words, request.options);
    for (const auto& flag : request.refused) {
        words.push_back(cat("--join-without=", flag));
    }
    if (!request.edf.empty()) {
        words.push_back(cat("--edf=", edfPath));
    }
    words.emplace_back("--");
    words.push_back(command.word);
    append(words, command.arguments);
    return words;
}

}  // namespace sarus::spank
