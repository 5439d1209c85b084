#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.hpp"

namespace sarus::cli {

// The rules of the command line, which are those of the reference engine: a level (the program, then a command) owns the tokens
// up to the first one that is no option and no option's value; nothing after that is interpreted. `-x` and `--xyz` are options;
// `-`, `--` and
// `---x` are not. Values: `--opt value`, `--opt=value`, `-o value`, `-ovalue`. Flags may be sticky (`-mt`). Long names may be
// abbreviated as long as they are unambiguous. All functions throw Error with the documented message, followed by a line "See
// 'sarus help ...'".

/// The options that stand before the command.
const std::vector<Option>& globalOptions();

/// Parses the tokens after "sarus". The positionals of the result start with the command.
Arguments parseGlobal(std::span<const std::string> tokens);

/// Parses the tokens after the command's name and checks the number of positionals.
Arguments parseCommand(const Command& command, std::span<const std::string> tokens);

/// The error for a command that does not exist; says which one may have been meant.
[[noreturn]] void throwUnknownCommand(const std::string& name);

/// The line "See 'sarus help'" or "See 'sarus help <command>'".
std::string seeHelp(const std::string& command = {});

}  // namespace sarus::cli
