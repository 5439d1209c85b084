#include <algorithm>

#include "base/log.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"
#include "podman_hpc/cli/option_table.hpp"
#include "podman_hpc/cli/podman.hpp"
#include "podman_hpc/config/podman_files.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

struct Candidate {
    std::string word;
    std::string description;
};

/// The script calls the program with the words of the command line; its functions need names of their own.
std::string ownScript(const std::string& script) {
    return replacePodman(script, [&](std::size_t begin, std::size_t end) -> std::string_view {
        const bool isIdentifier =
            (begin > 0 && script[begin - 1] == '_') || (end < script.size() && script[end] == '_');
        return isIdentifier ? "podman_hpc" : "podman-hpc";
    });
}

std::vector<Candidate> ownCandidates(const Call& call, const std::vector<Module>& modules,
                                     bool optionsAllowed) {
    std::vector<Candidate> all;
    if (call.command.empty()) {
        for (const auto& command : ownCommands()) {
            if (!command.hidden) {
                all.push_back({std::string(command.name), std::string(command.summary)});
            }
        }
        for (const auto& option : groupOptions) {
            if (!option.help.empty()) {
                all.push_back({cat("--", option.name), std::string(option.help)});
            }
        }
    } else if (call.command == "completion") {
        all = {{"bash", ""}, {"fish", ""}, {"zsh", ""}};
    } else if (call.command == "configure-hooks") {
        all = {{"--force", "Replace an existing file."}, {"--hooksd", "The directory to write to."}};
    } else if (call.command == "doctor") {
        all = {{"--json", "Print JSON."}};
    } else if (call.command == "infohpc") {
        all = {{"--json", "Print JSON."}, {"--provenance", "Show where each value comes from."}};
    } else if (call.command == "module") {
        all = {{"check", "Check the site modules."}};
    } else if (optionsAllowed) {
        for (const auto& module : modules) {
            if (!module.flag.empty() && !module.hidden) {
                all.push_back({cat("--", module.flag), module.help});
            }
        }
    }
    return all;
}

/// Whether bash would run a part of the word: the script lets it expand the proposals (`compgen -W`), and
/// names in a shared store are others'.
bool isExpanded(std::string_view line) {
    const auto word = line.substr(0, line.find('\t'));
    return word.find_first_of("$`") != std::string_view::npos || word.find("<(") != std::string_view::npos ||
           word.find(">(") != std::string_view::npos;
}

/// Podman's own proposals; the last line, ":N", tells the shell what to do with them.
std::string podmanProposals(const Call& call, const Settings& settings, const std::vector<std::string>& words,
                            const std::string& protocol) {
    std::vector<std::string> arguments{requirePodman(settings), protocol};
    if (!call.command.empty()) {
        arguments.push_back(call.command);
        if (settings.flag(Key::useDefaultArgs)) {
            arguments.insert(arguments.end(), {"--root", settings.text(Key::graphRoot), "--runroot",
                                               settings.text(Key::runRoot)});
        }
    }
    arguments.insert(arguments.end(), words.begin(), words.end());
    auto lines = split(capturePodman(arguments).out, '\n');
    std::erase_if(lines, isExpanded);
    return join(lines, "\n");
}

}  // namespace

int completeWords(const Call& call, const Surroundings& from) {
    auto earlier = call.words;
    const std::string current = earlier.empty() ? "" : earlier.back();
    if (!earlier.empty()) {
        earlier.pop_back();
    }
    auto typed = parseCall(earlier);
    if (typed.command == "shared-run") {
        typed.command = "run";  // the same options
    }
    const auto settings = settingsOf(typed, from);
    std::vector<Module> modules;
    const auto use = podmanCommand(typed).modules;
    if (use == ModuleUse::all || use == ModuleUse::environment) {
        modules = loadModules(settings.text(Key::modulesDir), [](const std::string&) {});
    }
    const OptionTable none;
    auto scanned = scanOptions(
        typed.words, use == ModuleUse::environment ? execOptions() : runOptions(),
        [&]() -> const OptionTable& { return none; }, flagsOf(modules));
    std::string out;
    for (const auto& candidate : ownCandidates(typed, modules, !scanned.complete)) {
        if (candidate.word.starts_with(current) && (!current.empty() || !candidate.word.starts_with('-'))) {
            const bool describe = call.command == "__complete" && !candidate.description.empty();
            out += cat(candidate.word, describe ? cat('\t', candidate.description) : "", '\n');
        }
    }
    std::string proposals;
    if (findOwnCommand(typed.command) == nullptr) {
        changeEnvironment(podmanEnvironment(settings, from, false));
        scanned.words.push_back(current);
        proposals = podmanProposals(typed, settings, scanned.words, call.command);
    }
    // 4: no file names, as no program of Podman's answered
    printLine(trim(out + (proposals.empty() ? ":4" : proposals)));
    return 0;
}

int completion(const Call& call, const Surroundings& from) {
    constexpr std::string_view usage = "completion SHELL";
    if (call.words.empty()) {
        throw usageError("Missing argument 'SHELL'.", usage);
    }
    const auto& shell = call.words.front();
    if (call.words.size() > 1 || (shell != "bash" && shell != "zsh" && shell != "fish")) {
        throw usageError("SHELL is one of bash, zsh, fish.", usage);
    }
    const auto script = capturePodman({requirePodman(settingsOf(call, from)), "completion", shell});
    if (!script.status.ok()) {
        throw Error(cat("Podman has no completion for ", shell, ": ", trim(script.err)));
    }
    printLine(trim(ownScript(script.out)));
    return 0;
}

}  // namespace sarus::podman_hpc
