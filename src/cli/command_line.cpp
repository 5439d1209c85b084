#include "cli/command_line.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/habits.hpp"

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
            return option != nullptr ? option->takesValue : takesWord(findHabit(token));
        }
        if (isSignalName(token)) {
            return false;
        }
        for (std::size_t i = 1; i < token.size(); ++i) {  // sticky flags, the last of which may take a value
            const auto* option = findShort(options, token[i]);
            const auto* habit = option == nullptr ? findHabit(cat('-', token[i])) : nullptr;
            if (option == nullptr && habit == nullptr) {
                return false;
            }
            if (option != nullptr ? option->takesValue : takesWord(habit)) {
                return i + 1 == token.size();
            }
        }
        return false;
    }

    /// `option`: with its dashes.
    const Habit* findHabit(std::string_view option) const {
        const auto* habit = cli::findHabit(command, startsContainers, option);
        return habit != nullptr && (habit->means.empty() || findLong(options, habit->means)) ? habit
                                                                                             : nullptr;
    }

    static bool takesWord(const Habit* habit) {
        return habit != nullptr && habit->takes == Habit::Takes::word;
    }

    /// `option`: as it was typed, for messages.
    void addHabit(Arguments& arguments, const Habit& habit, std::string_view option,
                  std::string_view value) const {
        if (!habit.isAlreadySo(value)) {
            throw unknownOption(option).addUsage(std::string(habit.hint));
        }
        if (!habit.means.empty()) {
            const auto* own = findLong(options, habit.means);
            addFlag(arguments, *own, own->mayHaveValue ? value : "true");
        }
    }

    void add(Arguments& arguments, const Option& option, std::string value) const {
        auto& values = arguments.options[option.longName];
        if (!values.empty() && !option.repeatable) {
            fail(cat("option '--", option.longName, "' cannot be specified more than once"));
        }
        values.push_back(std::move(value));
    }

    /// Docker's flags take a value. Other values than these two are an error of 1.7.
    void addFlag(Arguments& arguments, const Option& option, std::string_view value) const {
        if (option.mayHaveValue && !value.empty() && value != "true" && value != "false") {
            add(arguments, option, std::string(value));
            return;
        }
        if (value != "true" && value != "false") {
            fail(cat("option '--", option.longName, "' does not take any arguments"));
        }
        if (value == "true") {
            add(arguments, option, {});
        }
    }

    /// `-KILL` or `-9`.
    bool isSignalName(const std::string& token) const {
        return !optionForCapitals.empty() && isShortOption(token) && isCapitalOrDigit(token[1]) &&
               findShort(options, token[1]) == nullptr;
    }

    /// nullptr if there is no such option.
    const Option* resolveLong(const std::string& name) const {
        if (const auto* exact = findLong(options, name)) {
            return exact;
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
        return matches.empty() ? nullptr : matches.front();
    }

    bool parseLong(Arguments& arguments, const std::string& token,
                   const std::optional<std::string>& next) const {
        const auto equals = token.find('=');
        const bool adjacent = equals != std::string::npos;
        const std::string name = token.substr(2, adjacent ? equals - 2 : std::string::npos);
        const auto* found = resolveLong(name);
        if (found == nullptr) {
            const auto typed = token.substr(0, equals);
            const auto value = adjacent ? std::optional(token.substr(equals + 1)) : std::nullopt;
            return parseLongHabit(arguments, typed, value, next);
        }
        const auto& option = *found;
        if (!option.takesValue) {
            addFlag(arguments, option, adjacent ? token.substr(equals + 1) : "true");
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

    bool parseLongHabit(Arguments& arguments, const std::string& typed,
                        const std::optional<std::string>& adjacent,
                        const std::optional<std::string>& next) const {
        const auto* habit = findHabit(typed);
        if (habit == nullptr) {
            auto error = unknownOption(typed);
            const auto meant = closestMatch(typed.substr(2), longNames(options));
            throw meant ? error.addUsage(cat("Did you mean '--", *meant, "'?")) : error;
        }
        const bool usesNext = takesWord(habit) && !adjacent && next;
        addHabit(arguments, *habit, typed,
                 adjacent           ? *adjacent
                 : takesWord(habit) ? next.value_or("")
                                    : "true");
        return usesNext;
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
                const auto rest = token.substr(i);
                const auto* habit = findHabit(cat('-', rest[0]));
                if (habit == nullptr) {
                    throw unknownOption(cat('-', rest));
                }
                const bool isLast = rest.size() == 1;
                if (!takesWord(habit)) {
                    const bool adjacent = !isLast && rest[1] == '=';
                    addHabit(arguments, *habit, cat('-', rest), adjacent ? rest.substr(2) : "true");
                    if (adjacent) {
                        return false;
                    }
                    continue;
                }
                addHabit(arguments, *habit, cat('-', rest), isLast ? next.value_or("") : rest.substr(1));
                return isLast && next;
            }
            if (!option->takesValue) {
                const bool hasValue = token.compare(i + 1, 1, "=") == 0;
                addFlag(arguments, *option, hasValue ? token.substr(i + 2) : "true");
                if (hasValue) {
                    return false;
                }
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
        {.longName = "version", .shortName = 'V', .help = "Show the version, like the command 'version'"},
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

Arguments parseCommand(const Subcommand& command, std::span<const std::string> tokens) {
    CommandLineParser parser(command);
    const auto level = parser.separate(tokens);
    if (parser.wantsHelp(level.options)) {
        Arguments help;
        help.set("help");
        return help;
    }
    // If the number of words is wrong too, that is reported.
    std::optional<Arguments> arguments;
    std::optional<Error> mistake;
    try {
        arguments = parser.parse(level);
    } catch (const Error& error) {
        mistake = error;
    }
    if (mistake && !command.acceptsOptions) {
        throw usageError(cat("Command '", command.name, "' doesn't support options"), command.name);
    }
    const bool mayBeFewer =
        arguments && !command.optionForPositionals.empty() && arguments->has(command.optionForPositionals);
    if (level.words.size() < command.minPositionals && !mayBeFewer) {
        throw usageError(cat("Too few arguments for command '", command.name, "'"), command.name);
    }
    if (level.words.size() > command.maxPositionals) {
        auto error = tooManyArguments(command.name);
        if (mistake) {  // the value of an unknown option counts as a word
            error.addUsage(mistake->what());
            for (const auto& line : mistake->usage()) {
                if (line != seeHelp(command.name)) {
                    error.addUsage(line);
                }
            }
        }
        throw error;
    }
    if (mistake) {
        throw *mistake;
    }
    return std::move(*arguments);
}

void throwUnknownCommand(const std::string& name, const std::string& next) {
    std::vector<std::string> names;
    for (const auto& command : commands()) {
        if (!command.hidden) {
            names.push_back(command.name);
        }
    }
    const auto meant = closestMatch(name, names);
    auto error = usageError(cat("'", printable(name), "' is not a Sarus command"));
    if (const auto hint = hintForCommand(name, next)) {
        throw error.addUsage(std::string(*hint));
    }
    throw meant ? error.addUsage(cat("Did you mean '", *meant, "'?")) : error;
}

}  // namespace sarus::cli
