#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sarus::hooks::ssh {

/// The variables as Dropbear reads them for a login shell: every byte as it is, a NUL behind each NAME=VALUE.
std::string formatEnvironment(std::span<const std::string> variables);

/// A script that exports the variables, for a login shell whose /etc/profile has changed them. Values are in
/// single quotes, so that no value can break it. Left out are names that a shell does not know (functions of
/// bash; Dropbear has set them) and those which belong to the shell itself.
std::string formatExports(std::span<const std::string> variables);

/// A word of a shell script that stands for the text.
std::string quoteForShell(std::string_view text);

}  // namespace sarus::hooks::ssh
