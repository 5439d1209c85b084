#include "cli/command_line.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::cli {

std::string Arguments::value(std::string_view option) const {
    const auto found = options.find(option);
    return found == options.end() ? std::string() : found->second.back();
}

std::vector<std::string> Arguments::values(std::string_view option) const {
    const auto found = options.find(option);
    return found == options.end() ? std::vector<std::string>() : found->second;
}

std::string seeHelp(const std::string& command) {
    return command.empty() ? "See 'sarus help'" : cat("See 'sarus help ", command, "'");
}

namespace {

bool isLongOption(std::string_view token) {
    return token.size() > 2 && token.starts_with("--") && token[2] != '-';
}

bool isShortOption(std::string_view token) {
    return token.size() > 1 && token[0] == '-' && token[1] != '-';
}

std::vector<std::string> longNames(const std::vector<Option>& options) {
    std::vector<std::string> names;
    for (const auto& option : options) {
        names.push_back(option.longName);
        names.insert(names.end(), option.aliases.begin(), option.aliases.end());
    }
    return names;
}

const Option* findLong(const std::vector<Option>& options, std::string_view name) {
    for (const auto& option : options) {
        if (option.longName == name || std::find(option.aliases.begin(), option.aliases.end(), name) != option.aliases.end()) {
            return &option;
        }
    }
    return nullptr;
}

const Option* findShort(const std::vector<Option>& options, char name) {
    const auto found =
        std::find_if(options.begin(), options.end(), [&](const Option& option) { return option.shortName == name; });
    return found == options.end() ? nullptr : &*found;
}

}  // namespace

/// Parses the tokens of one level.
class CommandLineParser {
public:
    CommandLineParser(const std::vector<Option>& theOptions, std::string theCommand, bool skipUnknown = false)
        : options(theOptions), command(std::move(theCommand)), skipsUnknown(skipUnknown) {}

    /// How many tokens belong to this level's options.
    std::size_t countOptionTokens(std::span<const std::string> tokens) const {
        std::size_t count = 0;
        while (count < tokens.size() && (isLongOption(tokens[count]) || isShortOption(tokens[count]))) {
            const bool valueFollows = expectsNextToken(tokens[count]) && count + 1 < tokens.size() && isValue(tokens[count + 1]);
            count += valueFollows ? 2 : 1;
        }
        return count;
    }

    Arguments parse(std::span<const std::string> optionTokens, std::span<const std::string> positionals) {
        Arguments arguments;
        for (std::size_t i = 0; i < optionTokens.size();) {
            const auto& token = optionTokens[i];
            const auto next =
                i + 1 < optionTokens.size() && isValue(optionTokens[i + 1]) ? std::optional(optionTokens[i + 1]) : std::nullopt;
            const bool usedNext = isLongOption(token) ? parseLong(arguments, token, next) : parseShort(arguments, token, next);
            i += usedNext ? 2 : 1;
        }
        arguments.rest.assign(positionals.begin(), positionals.end());
        return arguments;
    }

private:
    /// What may be the value of the option before it: anything, the empty string too, that does not start with a single dash.
    static bool isValue(const std::string& token) { return !token.starts_with('-') || token.starts_with("--"); }

    [[noreturn]] void fail(const std::string& message, const std::string& extra = {}) const {
        throw Error(cat(message, "\n", seeHelp(command), extra.empty() ? "" : "\n", extra));
    }

    bool expectsNextToken(const std::string& token) const {
        if (isLongOption(token)) {
            const auto* option = findLong(options, std::string_view(token).substr(2));
            return option != nullptr && option->takesValue;
        }
        for (std::size_t i = 1; i < token.size(); ++i) {  // sticky flags, the last of which may take a value
            const auto* option = findShort(options, token[i]);
            if (option == nullptr || option->takesValue) {
                return option != nullptr && i + 1 == token.size();
            }
        }
        return false;
    }

    void add(Arguments& arguments, const Option& option, std::string value) const {
        auto& values = arguments.options[option.longName];
        if (!values.empty() && !option.repeatable) {
            fail(cat("option '--", option.longName, "' cannot be specified more than once"));
        }
        values.push_back(std::move(value));
    }

    /// nullptr: to be ignored.
    const Option* resolveLong(const std::string& name, const std::string& token) const {
        if (const auto* exact = findLong(options, name)) {
            return exact;
        }
        std::vector<const Option*> matches;
        for (const auto& option : options) {
            if (!option.hidden && option.longName.starts_with(name)) {
                matches.push_back(&option);
            }
        }
        if (matches.size() > 1) {
            std::sort(matches.begin(), matches.end(), [](const auto* a, const auto* b) { return a->longName < b->longName; });
            std::string list;
            for (const auto* match : matches) {
                list += cat(list.empty() ? "" : match == matches.back() ? ", and " : ", ", "'--", match->longName, "'");
            }
            fail(cat("option '--", printable(name), "' is ambiguous and matches ", list));
        }
        if (matches.empty()) {
            const auto meant = closestMatch(name, longNames(options));
            if (skipsUnknown && !meant) {
                return nullptr;
            }
            fail(cat("unrecognised option '", printable(token), "'"), meant ? cat("Did you mean '--", *meant, "'?") : "");
        }
        return matches.front();
    }

    bool parseLong(Arguments& arguments, const std::string& token, const std::optional<std::string>& next) const {
        const auto equals = token.find('=');
        const bool adjacent = equals != std::string::npos;
        const std::string name = token.substr(2, adjacent ? equals - 2 : std::string::npos);
        const auto* const resolved = resolveLong(name, adjacent ? token.substr(0, equals) : token);
        if (resolved == nullptr) {
            return false;
        }
        const auto& option = *resolved;
        if (!option.takesValue) {
            if (adjacent) {
                fail(cat("option '--", option.longName, "' does not take any arguments"));
            }
            add(arguments, option, {});
            return false;
        }
        if (adjacent) {
            if (equals + 1 == token.size()) {
                fail(cat("the argument for option '--", option.longName, "' should follow immediately after the equal sign"));
            }
            add(arguments, option, token.substr(equals + 1));
            return false;
        }
        addNext(arguments, option, next);
        return true;
    }

    void addNext(Arguments& arguments, const Option& option, const std::optional<std::string>& next) const {
        if (!next) {
            fail(cat("the required argument for option '--", option.longName, "' is missing"));
        }
        add(arguments, option, *next);
    }

    bool parseShort(Arguments& arguments, const std::string& token, const std::optional<std::string>& next) const {
        for (std::size_t i = 1; i < token.size(); ++i) {
            const auto* option = findShort(options, token[i]);
            if (option == nullptr && skipsUnknown) {
                return false;
            }
            if (option == nullptr) {
                fail(cat("unrecognised option '-", printable(token.substr(i)), "'"));
            }
            if (!option->takesValue) {
                add(arguments, *option, {});
                continue;
            }
            if (i + 1 < token.size()) {
                add(arguments, *option, token.substr(i + 1));
                return false;
            }
            addNext(arguments, *option, next);
            return true;
        }
        return false;
    }

    const std::vector<Option>& options;
    std::string command;
    bool skipsUnknown;
};

const std::vector<Option>& globalOptions() {
    static const std::vector<Option> options{
        {.longName = "help", .help = "Print this help message, like the command help"},
        {.longName = "version", .help = "Print the version, like the command version"},
        {.longName = "debug", .help = "Print debug messages, and all details of errors"},
        {.longName = "verbose", .help = "Print informational messages"},
    };
    return options;
}

Arguments parseGlobal(std::span<const std::string> tokens) {
    CommandLineParser parser(globalOptions(), {});
    const auto count = parser.countOptionTokens(tokens);
    return parser.parse(tokens.first(count), tokens.subspan(count));
}

namespace {

/// Whether the option is there that makes positionals unnecessary. If the options are wrong too, what is missing is reported.
bool isGiven(const Command& command, std::span<const std::string> tokens) {
    if (command.optionForPositionals.empty()) {
        return false;
    }
    try {
        return CommandLineParser(command.options, command.name).parse(tokens, {}).has(command.optionForPositionals);
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

Arguments parseCommand(const Command& command, std::span<const std::string> tokens) {
    CommandLineParser parser(command.options, command.name, command.skipsUnknownOptions);
    const auto count = parser.countOptionTokens(tokens);
    if (count > 0 && !command.acceptsOptions) {
        throw Error(cat("Command '", command.name, "' doesn't support options\n", seeHelp(command.name)));
    }
    const auto positionals = tokens.size() - count;
    const bool tooFew = positionals < command.minPositionals && !isGiven(command, tokens.first(count));
    if (tooFew || positionals > command.maxPositionals) {
        throw Error(cat("Too ", tooFew ? "few" : "many", " arguments for command '", command.name, "'\n", seeHelp(command.name)));
    }
    return parser.parse(tokens.first(count), tokens.subspan(count));
}

void throwUnknownCommand(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& command : commands()) {
        if (!command.hidden) {
            names.push_back(command.name);
        }
    }
    const auto meant = closestMatch(name, names);
    throw Error(cat("'", printable(name), "' is not a Sarus command\n", seeHelp(), meant ? "\nDid you mean '" : "",
                    meant.value_or(""), meant ? "'?" : ""));
}

}  // namespace sarus::cli
