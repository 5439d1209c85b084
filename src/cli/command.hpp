#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sarus::cli {

class Context;

/// What a shell completes for a value or a positional.
enum class Completion { none, files, images, containers, definitions, commands, shells };

/// One option of a command. The parser, the help text, the man page check and the shell completions read this
/// table.
struct Option {
    std::string longName;   ///< without the dashes
    char shortName = '\0';  ///< '\0': none
    bool takesValue = false;
    bool repeatable = false;  ///< otherwise a second use is an error
    bool hidden = false;      ///< accepted, but in no help text
    std::string help;
    std::vector<std::string> aliases{};  ///< further names, not shown; those of one letter are short names
    Completion completion = Completion::none;  ///< of its value
    bool mayHaveValue = false;                 ///< a flag that also takes a value behind an equal sign
};

/// The parsed command line of one command.
class Arguments {
public:
    bool has(std::string_view option) const { return options.find(option) != options.end(); }
    /// The value of an option that is not repeatable; "" if absent.
    std::string value(std::string_view option) const;
    /// All values of a repeatable option, in order.
    std::vector<std::string> values(std::string_view option) const;
    const std::vector<std::string>& positionals() const noexcept { return rest; }
    /// Sets a flag that was given elsewhere on the command line.
    void set(std::string_view flag) { options[std::string(flag)] = {std::string()}; }

private:
    friend class CommandLineParser;
    std::map<std::string, std::vector<std::string>, std::less<>> options;
    std::vector<std::string> rest;
};

constexpr std::size_t anyNumber = std::numeric_limits<std::size_t>::max();

struct Subcommand {
    std::string name;
    std::string usage;        ///< after "Usage: "
    std::string description;  ///< one line
    std::string note{};       ///< further lines below the usage, "" for none
    std::vector<Option> options{};
    std::size_t minPositionals = 0;
    std::size_t maxPositionals = 0;
    std::string optionForPositionals{};  ///< long name of an option with which there may be fewer than the
                                         ///< least number
    bool acceptsOptions = true;  ///< false: "Command 'X' doesn't support options", but for those of the table
    bool hidden = false;         ///< in no help text
    bool usesRepository = false;  ///< may create files in a repository: main sets the umask for them
    std::vector<Completion> completions{};  ///< of the positionals
    /// Nothing behind so many positionals is interpreted: it belongs to a program in a container.
    std::size_t ownWords = anyNumber;
    bool endsWithCommand() const { return ownWords != anyNumber; }
    /// The option that an unknown `-NAME` of capital letters or digits stands for (`kill -KILL`), "" for
    /// none.
    std::string optionForCapitals{};
    /// Further names; two words with a blank between them are a name too ("image ls").
    std::vector<std::string> aliases{};
    /// Returns the exit status of the program.
    int (*run)(Context& context, const Arguments& arguments) = nullptr;
};

/// All commands, in alphabetical order.
const std::vector<Subcommand>& commands();
/// nullptr if the name is unknown.
const Subcommand* findCommand(std::string_view name);
/// The command that the words begin with, and the number of words of its name; nullptr if there is none.
std::pair<const Subcommand*, std::size_t> findCommand(std::span<const std::string> words);

}  // namespace sarus::cli
