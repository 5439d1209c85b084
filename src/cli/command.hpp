#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sarus::cli {

class Context;

/// One option of a command. The parser, the help text, the man page check and the shell completions all read this table.
struct Option {
    std::string longName;   ///< without the dashes
    char shortName = '\0';  ///< '\0': none
    bool takesValue = false;
    bool repeatable = false;  ///< otherwise a second use is an error
    bool hidden = false;      ///< accepted, but in no help text
    std::string help;
    std::vector<std::string> aliases{};  ///< further long names, not shown
};

/// A command line below the level of one command, after parsing.
class Arguments {
public:
    bool has(std::string_view option) const { return options.find(option) != options.end(); }
    /// The value of an option which is not repeatable; "" if it was not given.
    std::string value(std::string_view option) const;
    /// All values of a repeatable option, in order.
    std::vector<std::string> values(std::string_view option) const;
    const std::vector<std::string>& positionals() const noexcept { return rest; }

private:
    friend class CommandLineParser;
    std::map<std::string, std::vector<std::string>, std::less<>> options;
    std::vector<std::string> rest;
};

constexpr std::size_t anyNumber = std::numeric_limits<std::size_t>::max();

struct Command {
    std::string name;
    std::string usage;        ///< after "Usage: "
    std::string description;  ///< one line
    std::string note;         ///< further lines below the usage, "" for none
    std::vector<Option> options;
    std::size_t minPositionals = 0;
    std::size_t maxPositionals = 0;
    std::string optionForPositionals{};  ///< long name of an option with which there may be fewer than the least number
    bool acceptsOptions = true;          ///< false: "Command 'X' doesn't support options"
    bool hidden = false;                 ///< in no help text
    /// ps and kill have always ignored them; what may be a misspelt one is an error even so.
    bool skipsUnknownOptions = false;
    /// Returns the exit status of the program.
    int (*run)(Context& context, const Arguments& arguments) = nullptr;
};

/// All commands, in alphabetical order.
const std::vector<Command>& commands();
/// nullptr if there is none of that name.
const Command* findCommand(std::string_view name);

// One function a command, each in the file of its name.
Command completionCommand();
Command execCommand();
Command helpCommand();
Command hooksCommand();
Command imagesCommand();
Command inspectCommand();
Command killCommand();
Command loadCommand();
Command pruneCommand();
Command psCommand();
Command pullCommand();
Command rmiCommand();
Command runCommand();
Command sshKeygenCommand();
Command tagCommand();
Command versionCommand();

}  // namespace sarus::cli
