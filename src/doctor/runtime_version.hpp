#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"

namespace sarus::doctor {

/// What `crun --version` or `runc --version` says.
struct RuntimeVersion {
    std::string program;            ///< "crun" or "runc"; "": something else
    std::string text;               ///< such as "1.1.5+ds1"
    bool isOfDistribution = false;  ///< which corrects mistakes without a new version
};
RuntimeVersion parseRuntimeVersion(std::string_view output);

/// The known ways out of a container of this version, by their CVE numbers. Empty if the version is unknown.
std::vector<std::string> knownVulnerabilities(const RuntimeVersion& version);

/// The runtime's version, and what is known of it. `cureIfOther`: if it is neither crun nor runc. Throws
/// Error with `cure` if it cannot be used.
Finding checkRuntime(const std::string& program, const std::string& cure, const std::string& cureIfOther);

}  // namespace sarus::doctor
