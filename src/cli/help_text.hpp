#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"

namespace sarus::cli {

/// The block of options of a help text: two columns, 80 characters wide.
std::string formatOptions(const std::vector<Option>& options);

/// What `sarus help` prints.
std::string generalHelp();

/// What `sarus help COMMAND` prints.
std::string commandHelp(const Subcommand& command);

/// The list of the commands in the manual page sarus(1).
std::string commandManual();

}  // namespace sarus::cli
