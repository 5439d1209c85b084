#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::doctor {

/// What a check has found on this node for this user.
struct Finding {
    enum class Grade { ok, note, warning, error };
    std::string check;  ///< its name, such as "podman"
    Grade grade;
    std::string message;
    std::string cure{};  ///< the command or setting that mends it
};

/// A table for people, and an array of objects for programs. Without the last line break.
std::string formatText(const std::vector<Finding>& findings);
std::string formatJson(const std::vector<Finding>& findings);

/// Exit status as of a monitoring plugin: 0 fine, 1 warnings, 2 errors.
int statusOf(const std::vector<Finding>& findings);

}  // namespace sarus::doctor
