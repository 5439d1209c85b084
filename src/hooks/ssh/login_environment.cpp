#include "hooks/ssh/login_environment.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace sarus::hooks::ssh {

namespace {

bool isExportable(std::string_view name) {
    // Read-only in some shells, or kept by the shell; TERM and SSH_* are those of the connection.
    constexpr std::array<std::string_view, 10> others{"_",    "SHLVL", "PWD",  "OLDPWD",    "UID",
                                                      "EUID", "PPID",  "TERM", "SHELLOPTS", "BASHOPTS"};
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    constexpr std::string_view digits = "0123456789";
    return !name.empty() && letters.find(name.front()) != std::string_view::npos &&
           name.find_first_not_of(cat(letters, digits)) == std::string_view::npos &&
           !name.starts_with("SSH_") && std::find(others.begin(), others.end(), name) == others.end();
}

}  // namespace

std::string quoteForShell(std::string_view text) {
    std::string quoted = "'";
    for (const char character : text) {
        quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
    }
    return quoted + '\'';
}

std::string formatEnvironment(std::span<const std::string> variables) {
    std::string text;
    for (const auto& variable : variables) {
        const auto name = std::string_view(variable).substr(0, variable.find('='));
        if (!name.starts_with("SSH_") && name != "TERM") {
            text.append(variable).push_back('\0');
        }
    }
    return text;
}

std::string formatExports(std::span<const std::string> variables) {
    std::string text;
    for (const auto& variable : variables) {
        const auto equals = variable.find('=');
        const auto name = std::string_view(variable).substr(0, equals);
        if (equals != std::string::npos && isExportable(name)) {
            text +=
                cat("export ", name, '=', quoteForShell(std::string_view(variable).substr(equals + 1)), '\n');
        }
    }
    return text;
}

}  // namespace sarus::hooks::ssh
