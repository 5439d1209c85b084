#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::cli {

/// The variables of a file of `--env-file`, in the form of values of `--env`. Docker's format: a line is NAME=VALUE, taken as it
/// is (quotes too), or NAME alone for the caller's value; blanks in front, empty lines and lines which begin with '#' are
/// skipped. `file` is for messages. Throws Error which names the file and the line.
std::vector<std::string> parseEnvironmentFile(std::string_view text, std::string_view file);

/// Reads a file of at most 1 MiB, with the caller's rights. Throws Error.
std::vector<std::string> readEnvironmentFile(const std::string& path);

}  // namespace sarus::cli
