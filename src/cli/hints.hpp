#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sarus::cli {

// What to do instead, for habits from other engines that have no equivalent here: one line each.

/// For an option with its dashes, of a command of this name, which may be one that starts processes in
/// containers; nullopt if no table knows it.
std::optional<std::string_view> hintForOption(const std::string& command, bool isOfContainers,
                                              std::string_view option);
/// For the name of a command.
std::optional<std::string_view> hintForCommand(std::string_view name);

}  // namespace sarus::cli
