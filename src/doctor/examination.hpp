#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"

namespace sarus::doctor {

/// Something to examine. Changes nothing.
struct Check {
    std::string name;
    std::function<std::vector<Finding>()> run;
    std::chrono::seconds patience{10};
    bool asksNetwork = false;  ///< whether it depends on other machines: without an answer, a warning
};

/// Carries out the checks side by side, each in a process of its own, and returns their findings in the order
/// of the checks. A check that throws Error, dies or waits for longer than its patience (for a dead file
/// server) is an error itself, and the others still count. Needs a program without threads. A finding without
/// the name of a check gets that of its own.
std::vector<Finding> examine(const std::vector<Check>& checks);

}  // namespace sarus::doctor
