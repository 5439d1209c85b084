#include "cli/command_line.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/hints.hpp"

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

Error usageError(std::string message, const std::string& command) {
    return Error(std::move(message)).addUsage(seeHelp(command));
}

Error tooManyArguments(const std::string& command) {
    return usageError(cat("Too many arguments for command '", command, "'"), command);
}

bool asksForHelp(std::string_view token) {
    return token == "-h" || token == "--help";
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
        std::copy_if(option.aliases.begin(), option.aliases.end(), std::back_inserter(names),
                     [](const std::string& alias) { return alias.size() > 1; });
    }
    return names;
}

bool hasAlias(const Option& option, std::string_view name) {
    return std::find(option.aliases.begin(), option.aliases.end(), name) != option.aliases.end();
}

const Option* findLong(const std::vector<Option>& options, std::string_view name) {
    for (const auto& option : options) {
        if (option.longName == name || (name.size() > 1 && hasAlias(option, name))) {
            return &option;
        }
    }
    return nullptr;
}

const Option* findShort(const std::vector<Option>& options, char name) {
    const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
        return option.shortName == name || hasAlias(option, std::string_view(&name, 1));
    });
    return found == options.end() ? nullptr : &*found;
}

/// The options that an abbreviation may stand for.
std::vector<const Option*> findAbbreviated(const std::vector<Option>& options, std::string_view name) {
    std::vector<const Option*> matches;
    for (const auto& option : options) {
        if (!option.hidden && option.longName.starts_with(name)) {
            matches.push_back(&option);
        }
    }
    return matches;
}

bool isCapitalOrDigit(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// The tokens of one level.
struct Level {
    std::vector<std::string> options;  ///< with their values
    std::vector<std::string> words;
    std::size_t optionsInFront = 0;  ///< how many of `options` stand in front of the first word
};

}  // namespace

/// Parses the tokens of one level.
class CommandLineParser {
public:
    explicit CommandLineParser(const std::vector<Option>& global) : options(global) {}
    explicit CommandLineParser(const Subcommand& ofCommand)
        : options(ofCommand.options),
          command(ofCommand.name),
          startsContainers(ofCommand.endsWithCommand()),
          optionForCapitals(ofCommand.optionForCapitals),
          ownWords(ofCommand.ownWords),
          mostWords(ofCommand.maxPositionals) {}

    /// Takes options and words apart. "--" between them ends the options of a command.
    Level separate(std::span<const std::string> tokens) const {
        Level level;
        bool ended = false;
        for (std::size_t i = 0; i < tokens.size();) {
            const bool mayBeOption = !ended && level.words.size() < ownWords;
            if (mayBeOption && tokens[i] == "--" && !command.empty()) {
                ended = true;
                ++i;
            } else if (mayBeOption && (isLongOption(tokens[i]) || isShortOption(tokens[i]))) {
                const auto option = tokens.subspan(i, width(tokens, i));
                level.options.insert(level.options.end(), option.begin(), option.end());
                level.optionsInFront += level.words.empty() ? option.size() : 0;
                i += option.size();
            } else {
                level.words.push_back(tokens[i++]);
            }
        }
        return level;
    }

    /// Whether one of this level's options asks for help.
    bool wantsHelp(std::span<const std::string> optionTokens) const {
        for (std::size_t i = 0; i < optionTokens.size(); i += width(optionTokens, i)) {
            if (asksForHelp(optionTokens[i])) {
                return true;
            }
        }
        return false;
    }

    Arguments parse(const Level& level) {
        Arguments arguments;
        const auto& optionTokens = level.options;
        for (std::size_t i = 0; i < optionTokens.size();) {
            countsAsWord = i >= level.optionsInFront && level.words.size() == mostWords;
            const auto& token = optionTokens[i];
            const auto next = i + 1 < optionTokens.size() && isValue(optionTokens[i + 1])
                                  ? std::optional(optionTokens[i + 1])
                                  : std::nullopt;
            const bool usedNext =
                isLongOption(token) ? parseLong(arguments, token, next) : parseShort(arguments, token, next);
            i += usedNext ? 2 : 1;
        }
        arguments.rest = level.words;
        return arguments;
    }

private:
    /// Whether a token can be the value of the option before it: anything that does not begin with a single
    /// dash, also the empty string.
    static bool isValue(const std::string& token) {
        return !token.starts_with('-') || token.starts_with("--");
    }

    [[noreturn]] void fail(const std::string& message) const { throw usageError(message, command); }

    Error unknownOption(std::string_view option) const {
        const auto message = cat("unrecognised option '", printable(option), "'");
        // Sarus 1.7 understood no option behind a word, and this is its message.
        return countsAsWord ? tooManyArguments(command).addUsage(message) : usageError(message, command);
    }

    /// The number of tokens of an option and its value.
    std::size_t width(std::span<const std::string> tokens, std::size_t index) const {
        const bool valueFollows =
            expectsNextToken(tokens[index]) && index + 1 < tokens.size() && isValue(tokens[index + 1]);
        return valueFollows ? 2 : 1;
    }

    bool expectsNextToken(const std::string& token) const {
        if (isLongOption(token)) {
            const auto name = std::string_view(token).substr(2);
            const auto* option = findLong(options, name);
            if (const auto matches = findAbbreviated(options, name);
                option == nullptr && matches.size() == 1) {
                option = matches.front();
            }
            return option != nullptr && option->takesValue;
        }
        if (isSignalName(token)) {
            return false;
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

    /// `-KILL` or `-9`.
    bool isSignalName(const std::string& token) const {
        return !optionForCapitals.empty() && isShortOption(token) && isCapitalOrDigit(token[1]) &&
               findShort(options, token[1]) == nullptr;
    }

    const Option& resolveLong(const std::string& name, const std::string& token) const {
        if (const auto* exact = findLong(options, name)) {
            return *exact;
        }
        auto matches = findAbbreviated(options, name);
        if (matches.size() > 1) {
            std::sort(matches.begin(), matches.end(),
                      [](const auto* a, const auto* b) { return a->longName < b->longName; });
            std::string list;
            for (const auto* match : matches) {
                list += cat(list.empty()              ? ""
                            : match == matches.back() ? ", and "
                                                      : ", ",
                            "'--", match->longName, "'");
            }
            fail(cat("option '--", printable(name), "' is ambiguous and matches ", list));
        }
        if (matches.empty()) {
            auto error = unknownOption(token);
            if (const auto hint = hintFor(cat("--", name))) {
                throw error.addUsage(std::string(*hint));
            }
            const auto meant = closestMatch(name, longNames(options));
            throw meant ? error.addUsage(cat("Did you mean '--", *meant, "'?")) : error;
        }
        return *matches.front();
    }

    std::optional<std::string_view> hintFor(const std::string& option) const {
        return hintForOption(command, startsContainers, option);
    }

    bool parseLong(Arguments& arguments, const std::string& token,
                   const std::optional<std::string>& next) const {
        const auto equals = token.find('=');
        const bool adjacent = equals != std::string::npos;
        const std::string name = token.substr(2, adjacent ? equals - 2 : std::string::npos);
        const auto& option = resolveLong(name, adjacent ? token.substr(0, equals) : token);
        if (!option.takesValue) {
            if (adjacent) {
                fail(cat("option '--", option.longName, "' does not take any arguments"));
            }
            add(arguments, option, {});
            return false;
        }
        if (adjacent) {
            if (equals + 1 == token.size()) {
                fail(cat("the argument for option '--", option.longName,
                         "' should follow immediately after the equal sign"));
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

    bool parseShort(Arguments& arguments, const std::string& token,
                    const std::optional<std::string>& next) const {
        if (isSignalName(token)) {
            add(arguments, *findLong(options, optionForCapitals), token.substr(1));
            return false;
        }
        for (std::size_t i = 1; i < token.size(); ++i) {
            const auto* option = findShort(options, token[i]);
            if (option == nullptr) {
                auto error = unknownOption(cat('-', token.substr(i)));
                const auto hint = hintFor(cat('-', token[i]));
                throw hint ? error.addUsage(std::string(*hint)) : error;
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
    std::string command{};
    bool startsContainers = false;
    std::string optionForCapitals{};
    std::size_t ownWords = 1;
    std::size_t mostWords = anyNumber;
    bool countsAsWord = false;
};

const std::vector<Option>& globalOptions() {
    static const std::vector<Option> options{
        {.longName = "help", .help = "Show this help, or that of a command", .aliases = {"h"}},
        {.longName = "version", .help = "Show the version, like the command 'version'"},
        {.longName = "debug", .help = "Print debug messages and all details of errors"},
        {.longName = "verbose", .help = "Print informational messages"},
        {.longName = "quiet", .help = "Print results, warnings and errors, but no progress"},
    };
    return options;
}

const std::vector<Option>& commonOptions() {
    static const auto options = [] {
        std::vector<Option> common;
        for (auto option : globalOptions()) {
            if (option.longName != "version") {
                option.hidden = true;
                common.push_back(std::move(option));
            }
        }
        return common;
    }();
    return options;
}

Arguments parseGlobal(std::span<const std::string> tokens) {
    CommandLineParser parser(globalOptions());
    return parser.parse(parser.separate(tokens));
}

namespace {

/// Whether the option that makes positionals unnecessary is present. If the options are wrong too, the
/// missing positional is reported.
bool isGiven(const Subcommand& command, const Level& level) {
    if (command.optionForPositionals.empty()) {
        return false;
    }
    try {
        return CommandLineParser(command).parse(level).has(command.optionForPositionals);
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

Arguments parseCommand(const Subcommand& command, std::span<const std::string> tokens) {
    CommandLineParser parser(command);
    const auto level = parser.separate(tokens);
    if (parser.wantsHelp(level.options)) {
        Arguments help;
        help.set("help");
        return help;
    }
    const auto isOwn = [&](const std::string& token) {
        return std::any_of(command.options.begin(), command.options.end(),
                           [&](const Option& option) { return token == cat("--", option.longName); });
    };
    if (!command.acceptsOptions && !std::all_of(level.options.begin(), level.options.end(), isOwn)) {
        throw usageError(cat("Command '", command.name, "' doesn't support options"), command.name);
    }
    if (level.words.size() < command.minPositionals && !isGiven(command, level)) {
        throw usageError(cat("Too few arguments for command '", command.name, "'"), command.name);
    }
    if (level.words.size() > command.maxPositionals) {
        throw tooManyArguments(command.name);
    }
    return parser.parse(level);
}

void throwUnknownCommand(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& command : commands()) {
        if (!command.hidden) {
            names.push_back(command.name);
        }
    }
    const auto meant = closestMatch(name, names);
    auto error = usageError(cat("'", printable(name), "' is not a Sarus command"));
    if (const auto hint = hintForCommand(name)) {
        throw error.addUsage(std::string(*hint));
    }
    throw meant ? error.addUsage(cat("Did you mean '", *meant, "'?")) : error;
}

}  // namespace sarus::cli
