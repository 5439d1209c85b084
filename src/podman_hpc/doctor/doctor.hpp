#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/node_checks.hpp"
#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

using doctor::Finding;

/// What the checks look at.
struct Patient {
    const Settings& settings;
    std::string squashDir;
    const Surroundings& from;
    std::function<long(const std::string& path)> filesystem = doctor::filesystemOf;
};

/// Carries out all checks, with the rights of the caller. Changes nothing.
std::vector<Finding> examine(const Patient& patient);

// The checks by topic, each in a file of its own.
std::vector<Finding> checkPrograms(const Patient& patient);
std::vector<Finding> checkIdentity(const Patient& patient);
std::vector<Finding> checkDirectories(const Patient& patient);
std::vector<Finding> checkSite(const Patient& patient);

}  // namespace sarus::podman_hpc
