#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::cli {

/// The variables of an `--env-file`, in the form of `--env` values. Docker's format: a line is NAME=VALUE,
/// taken literally with its quotes, or only NAME for the caller's value. Leading blanks, empty lines and
/// lines that begin with '#' are ignored. `file` is for messages. Throws Error that names the file and the
/// line.
std::vector<std::string> parseEnvironmentFile(std::string_view text, std::string_view file);

/// Reads a file of at most 1 MiB, with the caller's rights. Throws Error.
std::vector<std::string> readEnvironmentFile(const std::string& path);

}  // namespace sarus::cli
