#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "engine/site_config.hpp"

namespace sarus::cli {

using doctor::Finding;
using Findings = std::vector<Finding>;

/// An installation to examine, which may be broken.
struct Patient {
    std::string prefix;
    std::string configFile;
    engine::SiteConfig config{};  ///< its valid keys; the others have their defaults
    bool isConfigured = false;    ///< whether `config` holds anything
    bool isPrivileged = false;    ///< whether the starter is set-user-ID root

    bool kernelMountsImages() const {
        return isPrivileged && config.imageMount != engine::ImageMountPolicy::fuse;
    }
};

/// Reads what a check needs. Throws nothing for a broken installation.
Patient makePatient(const std::string& prefix);

/// What to do if the installation has no configuration file.
inline constexpr const char* missingConfiguration =
    "Run configure_installation.sh in the directory of the installation";

/// All problems of a configuration file, one finding each.
std::vector<Finding> reviewConfiguration(const std::string& file, const std::string& cureIfMissing);

// The checks by topic. They run with the rights of the caller and change nothing.
std::vector<Finding> checkConfiguration(const Patient& patient);
std::vector<Finding> checkInstallation(const Patient& patient);
std::vector<Finding> checkPermissions(const Patient& patient);
std::vector<Finding> checkSecurityModules(const Patient& patient);
std::vector<Finding> checkRuntime(const Patient& patient);
std::vector<Finding> checkHooks(const Patient& patient);
std::vector<Finding> checkRepository(const Patient& patient);
std::vector<Finding> checkCentralRepository(const Patient& patient);
std::vector<Finding> checkTemporaryDirectory(const Patient& patient);
std::vector<Finding> checkDownloads(const Patient& patient);
std::vector<Finding> checkSlurm(const Patient& patient);

/// Whether the registries of registries.conf, their mirrors, and these ones answer.
std::vector<Finding> checkRegistries(const Patient& patient, const std::vector<std::string>& further);

}  // namespace sarus::cli
