#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/command.hpp"

namespace sarus::cli {

// The rules of the reference engine: the program owns the tokens up to the first one that is neither an
// option nor its value, the command. A command that ends with one for a container (`run`) owns its own words,
// and the options before the last of them. All other commands own all tokens: their options may stand behind
// words.
// `-x` and `--xyz` are options; `-` and `---x` are not; `--` ends the options of a command. Values: `--opt
// value`, `--opt=value`, `-o value`, `-ovalue`. Flags may be sticky (`-mt`). Long names may be abbreviated if
// they remain unambiguous. All functions throw Error with the documented message and a line "See 'sarus help
// ...'".

/// The options before the command.
const std::vector<Option>& globalOptions();

/// The options that stand before the command or after it.
const std::vector<Option>& commonOptions();

/// Parses the tokens after "sarus". The positionals of the result start with the command.
Arguments parseGlobal(std::span<const std::string> tokens);

/// Parses the tokens after the command's name and checks the number of positionals. If they ask for help, the
/// result holds nothing but the option "help".
Arguments parseCommand(const Subcommand& command, std::span<const std::string> tokens);

/// Reports an unknown command and suggests a similar one. `next`: the word behind it.
[[noreturn]] void throwUnknownCommand(const std::string& name, const std::string& next = {});

/// The line "See 'sarus help'" or "See 'sarus help <command>'".
std::string seeHelp(const std::string& command = {});

/// A mistake on the command line of `command`: the message and seeHelp().
Error usageError(std::string message, const std::string& command = {});

Error tooManyArguments(const std::string& command);

bool asksForHelp(std::string_view token);

}  // namespace sarus::cli
