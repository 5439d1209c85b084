#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"

namespace sarus::cli {

namespace {

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

/// All spellings of an option, also those that are not proposed.
std::vector<std::string> spellings(const Option& option) {
    std::vector<std::string> names{cat("--", option.longName)};
    if (option.shortName != '\0') {
        names.push_back(cat('-', option.shortName));
    }
    for (const auto& alias : option.aliases) {
        names.push_back(cat(alias.size() == 1 ? "-" : "--", alias));
    }
    return names;
}

/// Words for a `case` of the shell: the spellings of the options that take a value and fulfil the condition.
template <typename Condition>
std::string pattern(const std::vector<Option>& options, Condition condition) {
    std::vector<std::string> names;
    for (const auto& option : options) {
        if (option.takesValue && condition(option)) {
            for (auto& name : spellings(option)) {
                names.push_back(std::move(name));
            }
        }
    }
    return names.empty() ? "-" : join(names, "|");
}

std::string_view functionOf(Completion completion) {
    switch (completion) {
        case Completion::images:
            return "_sarus_images";
        case Completion::containers:
            return "_sarus_containers";
        case Completion::definitions:
            return "_sarus_definitions";
        case Completion::none:
        case Completion::files:
        case Completion::commands:
        case Completion::shells:
            break;
    }
    return "";
}

/// The shell code that adds the proposals for the positionals of a command to `list`.
std::string proposals(const Subcommand& command) {
    std::string code;
    for (const auto completion : command.completions) {
        code += completion == Completion::commands ? cat(" list+=' ", commandWords(), "'")
                : completion == Completion::shells ? std::string(" list+=' bash zsh fish'")
                : completion == Completion::files  ? std::string()
                                                   : cat(" list+=\" $(", functionOf(completion), ")\"");
        code += code.empty() || code.ends_with(';') ? "" : ";";
    }
    return code.empty() ? " :;" : code;
}

std::string bash() {
    std::string out = R"sh(# bash completion for sarus; load it with: source <(sarus completion bash)
_sarus_images() { sarus images 2>/dev/null | awk 'NR > 1 && $2 != "<none>" { print $1 ":" $2 }'; }
_sarus_containers() { sarus ps --all 2>/dev/null | awk 'NR > 1 { print $1 }'; }
_sarus_definitions() { sarus edf list 2>/dev/null | awk 'NR > 1 && $1 ~ /^[A-Za-z0-9._+-]+$/ { print $1 }'; }
# The lines that begin with $1 become the proposals. Nothing expands them: others choose names, and 'compgen -W'
# would run what $(...) in them says.
_sarus_reply() {
    local one
    COMPREPLY=()
    while IFS= read -r one; do
        [[ -n $one && $one == "$1"* ]] && COMPREPLY+=("$head$one")
    done <<< "$2"
}
# The end of $word after ':' and '='. What stands before it is part of the proposal, unless the shell began a
# new word there.
_sarus_path() {
    local tail=${word##*[:=]} lead= before
    before=${word%"$tail"}
    [[ -n $before && $COMP_WORDBREAKS != *"${before: -1}"* ]] && lead=$before
    _sarus_reply '' "$(compgen -P "$lead" -f -- "$tail")"
    type compopt >/dev/null 2>&1 && compopt -o filenames -o nospace 2>/dev/null
}
_sarus() {
    local word=${COMP_WORDS[COMP_CWORD]} number=$COMP_CWORD command= previous= list= i positionals=0
    local newline=$'\n' head=
    local -a line
    line=("${COMP_WORDS[@]}")
    if type _get_comp_words_by_ref >/dev/null 2>&1; then
        local cur cword
        _get_comp_words_by_ref -n := -c cur -w line -i cword
        word=$cur number=$cword
    fi
    for ((i = 1; i < number; ++i)); do
        [[ ${line[i]} != -* ]] && { command=${line[i]}; break; }
    done
    previous=${line[number - 1]}
    # --OPTION=VALUE is one word, unless the shell began new words at '=' and behind it.
    if [[ $word == --*=* ]]; then
        previous=${word%%=*} word=${word#*=}
        [[ $COMP_WORDBREAKS == *=* ]] || head=$previous=
    elif [[ $word == = ]]; then
        word=
    elif [[ $previous == = ]]; then
        previous=${line[number - 2]}
    fi
    case $command in
)sh";
    out += cat("        '') list='", commandWords(), " ", optionWords(globalOptions()), "' ;;\n");
    for (const auto& command : commands()) {
        if (command.hidden) {
            continue;
        }
        const auto completes = [](Completion completion) {
            return [completion](const Option& option) { return option.completion == completion; };
        };
        out +=
            cat("        ", command.name, ")\n            case $previous in\n", "                ",
                pattern(command.options, completes(Completion::files)), ") _sarus_path; return ;;\n",
                "                ", pattern(command.options, completes(Completion::definitions)),
                ") list=$(_sarus_definitions) ;;\n", "                ",
                pattern(command.options, [](const Option&) { return true; }),
                ") return ;;\n                *)\n", "                    for ((++i; i < number; ++i)); do\n",
                "                        case ${line[i]} in ",
                pattern(command.options, [](const Option&) { return true; }),
                ") ((++i)) ;; -*) ;; *) ((++positionals)) ;; esac\n", "                    done\n",
                command.endsWithCommand() ? "                    ((positionals == 0)) || return\n" : "",
                "                    if [[ $word == -* ]]; then list='", optionWords(command.options),
                command.acceptsOptions ? " --help" : "", "'; else", proposals(command),
                " fi ;;\n            esac ;;\n");
    }
    out += R"(    esac
    _sarus_reply "$word" "${list//[[:space:]]/$newline}"
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local typed=${word%"${word##*:}"}
        for ((i = 0; i < ${#COMPREPLY[@]}; ++i)); do COMPREPLY[i]=${COMPREPLY[i]#"$typed"}; done
    fi
}
complete -o default -F _sarus sarus)";
    return out;
}

std::string zsh() {
    return cat("#compdef sarus\n# zsh completion for sarus; load it with: source <(sarus completion zsh)\n",
               "autoload -U +X bashcompinit && bashcompinit\n", bash(),
               // At the first completion, zsh reads this file instead of the function `_sarus`, and waits for
               // an answer.
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
    std::string out = R"(# fish completion for sarus; load it with: sarus completion fish | source
function __sarus_images
    sarus images 2>/dev/null | awk 'NR > 1 && $2 != "<none>" { print $1 ":" $2 }'
end
function __sarus_containers
    sarus ps --all 2>/dev/null | awk 'NR > 1 { print $1 }'
end
function __sarus_definitions
    sarus edf list 2>/dev/null | awk 'NR > 1 && $1 ~ /^[A-Za-z0-9._+-]+$/ { print $1 }'
end
)";
    const auto addOptions = [&](const std::vector<Option>& options, const std::string& condition) {
        for (const auto& option : options) {
            if (!option.hidden) {
                out += cat("complete -c sarus -n ", quoted(condition), " -l ", option.longName);
                out += option.shortName == '\0' ? "" : cat(" -s ", option.shortName);
                out += option.completion == Completion::definitions ? " -x -a '(__sarus_definitions)'"
                       : option.takesValue                          ? " -r"
                                                                    : "";
                out += cat(" -d ", quoted(option.help), "\n");
            }
        }
    };
    addOptions(globalOptions(), "__fish_use_subcommand");
    for (const auto& command : commands()) {
        if (command.hidden) {
            continue;
        }
        out += cat("complete -c sarus -f -n __fish_use_subcommand -a ", command.name, " -d ",
                   quoted(command.description), "\n");
        const auto condition = cat("__fish_seen_subcommand_from ", command.name);
        addOptions(command.options, condition);
        for (const auto completion : command.completions) {
            const auto words = completion == Completion::commands ? commandWords()
                               : completion == Completion::shells ? std::string("bash zsh fish")
                               : completion == Completion::files  ? std::string()
                                                                  : cat("(_", functionOf(completion), ")");
            if (!words.empty()) {
                // What runs in a container may be a file.
                out += cat("complete -c sarus", command.endsWithCommand() ? "" : " -f", " -n ",
                           quoted(condition), " -a ", quoted(words), "\n");
            }
        }
    }
    out.pop_back();
    return out;
}

int runCompletion(Context&, const Arguments& arguments) {
    const auto& shell = arguments.positionals().front();
    if (shell != "bash" && shell != "zsh" && shell != "fish") {
        throw Error(cat("There is no completion for the shell '", printable(shell), "'"),
                    "Supported shells: bash, zsh, fish");
    }
    printLine(shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish());
    return 0;
}

}  // namespace

Subcommand completionCommand() {
    return {.name = "completion",
            .usage = "sarus completion SHELL",
            .description = "Print the completion script for bash, zsh or fish",
            .minPositionals = 1,
            .maxPositionals = 1,
            .acceptsOptions = false,
            .completions = {Completion::shells},
            .run = runCompletion};
}

}  // namespace sarus::cli
