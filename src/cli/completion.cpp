#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"

namespace sarus::cli {

namespace {

/// Commands that take a stored image as their first positional.
bool takesImage(const Command& command) {
    return command.name == "run" || command.name == "rmi" || command.name == "tag" || command.name == "inspect";
}

std::string optionWords(const std::vector<Option>& options) {
    std::string words;
    for (const auto& option : options) {
        if (!option.hidden) {
            words += cat(words.empty() ? "" : " ", "--", option.longName);
            if (option.shortName != '\0') {
                words += cat(" -", option.shortName);
            }
        }
    }
    return words;
}

std::string commandWords() {
    std::string words;
    for (const auto& command : commands()) {
        if (!command.hidden) {
            words += cat(words.empty() ? "" : " ", command.name);
        }
    }
    return words;
}

std::string bash() {
    std::string out =
        "# bash completion for sarus; load it with: source <(sarus completion bash)\n"
        "_sarus_images() { sarus images 2>/dev/null | awk 'NR > 1 { print $1 \":\" $2 }'; }\n"
        "_sarus() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} command= i words=\n"
        "    for ((i = 1; i < COMP_CWORD; ++i)); do\n"
        "        [[ ${COMP_WORDS[i]} != -* ]] && { command=${COMP_WORDS[i]}; break; }\n"
        "    done\n"
        "    case $command in\n";
    out += cat("        '') words='", commandWords(), " ", optionWords(globalOptions()), "' ;;\n");
    for (const auto& command : commands()) {
        if (command.hidden) {
            continue;
        }
        const std::string images = takesImage(command) ? "[[ $word != -* ]] && words=$(_sarus_images)" : ":";
        const std::string words = command.name == "help" ? commandWords() : optionWords(command.options);
        out += cat("        ", command.name, ") words='", words, "'; ", images, " ;;\n");
    }
    out +=
        "    esac\n"
        "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
        "    type __ltrim_colon_completions >/dev/null 2>&1 && __ltrim_colon_completions \"$word\"\n"
        "}\n"
        "complete -o default -F _sarus sarus";
    return out;
}

std::string zsh() {
    return cat(
        "#compdef sarus\n# zsh completion for sarus; load it with: source <(sarus completion zsh)\n",
        "autoload -U +X bashcompinit && bashcompinit\n", bash(),
        // As a file of $fpath it is read in place of the function `_sarus` at the first completion, which waits for an answer.
        "\n[[ ${funcstack[1]} != _sarus ]] || _bash_complete -o default -F _sarus");
}

std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' || c == '\\' ? cat('\\', c) : std::string(1, c);
    }
    return out + "'";
}

std::string fish() {
    std::string out = "# fish completion for sarus; load it with: sarus completion fish | source\n";
    const auto addOptions = [&](const std::vector<Option>& options, const std::string& condition) {
        for (const auto& option : options) {
            if (!option.hidden) {
                out += cat("complete -c sarus -n ", quoted(condition), " -l ", option.longName);
                out += option.shortName == '\0' ? "" : cat(" -s ", option.shortName);
                out += cat(option.takesValue ? " -r" : "", " -d ", quoted(option.help), "\n");
            }
        }
    };
    addOptions(globalOptions(), "__fish_use_subcommand");
    for (const auto& command : commands()) {
        if (command.hidden) {
            continue;
        }
        out += cat("complete -c sarus -f -n __fish_use_subcommand -a ", command.name, " -d ", quoted(command.description), "\n");
        addOptions(command.options, cat("__fish_seen_subcommand_from ", command.name));
    }
    out.pop_back();
    return out;
}

int run(Context&, const Arguments& arguments) {
    const auto& shell = arguments.positionals().front();
    if (shell != "bash" && shell != "zsh" && shell != "fish") {
        throw Error(cat("There is no completion for the shell '", printable(shell), "'"), "Supported shells: bash, zsh, fish");
    }
    printLine(shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish());
    return 0;
}

}  // namespace

Command completionCommand() {
    return {.name = "completion",
            .usage = "sarus completion SHELL",
            .description = "Print the command completion for bash, zsh or fish",
            .note = {},
            .options = {},
            .minPositionals = 1,
            .maxPositionals = 1,
            .hidden = true,
            .run = run};
}

}  // namespace sarus::cli
