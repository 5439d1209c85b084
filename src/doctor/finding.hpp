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

// Findings that examine() gives the name of their check. A check that throws Error finds an error.
Finding ok(std::string message);
Finding note(std::string message, std::string cure = {});
Finding warning(std::string message, std::string cure);
Finding error(std::string message, std::string cure);

/// Prints the findings on standard output, and returns the exit status.
int report(const std::vector<Finding>& findings, bool asJson);

/// A table for people, and an array of objects for programs. Without the last line break. `width`: of the
/// terminal in columns; 0: endless.
std::string formatText(const std::vector<Finding>& findings, std::size_t width = 0, bool coloured = false);
std::string formatJson(const std::vector<Finding>& findings);

/// Exit status as of a monitoring plugin: 0 fine, 1 warnings, 2 errors.
int statusOf(const std::vector<Finding>& findings);

}  // namespace sarus::doctor
