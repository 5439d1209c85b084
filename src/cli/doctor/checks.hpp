#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/finding.hpp"
#include "engine/site_config.hpp"
#include "engine/starter_request.hpp"

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

    /// The instruction to change a key of the configuration.
    std::string set(std::string_view key) const;
    bool kernelMountsImages() const {
        return isPrivileged && config.imageMount != engine::ImageMountPolicy::fuse;
    }
};

/// Reads what a check needs. Throws nothing for a broken installation.
Patient makePatient(const std::string& prefix);

/// Starts the starter with a request, and returns what it prints. Throws Error with its message.
using AskStarter = std::function<std::string(const engine::StarterRequest& request)>;

/// What to do if the installation has no configuration file.
std::string howToConfigure(const std::string& prefix);

/// All problems of a configuration file, one finding each.
Findings reviewConfiguration(const std::string& file, const std::string& cureIfMissing);

// The checks by topic. They run with the rights of the caller and change nothing.
Findings checkConfiguration(const Patient& patient);
/// The starter, and what it says about a container that it does not start: who can change the installation,
/// what the site allows, security modules, hooks, the OCI runtime.
Findings checkStarter(const Patient& patient, const AskStarter& ask);
Findings checkPrograms(const Patient& patient);
Findings checkSeccomp(const Patient& patient);
Findings checkRuntime(const Patient& patient);
Findings checkInit(const Patient& patient);
/// Whether `sarus run --remap-root` works for this account, and with which ids.
Findings checkRemapRoot(const Patient& patient);
Findings checkHooks(const Patient& patient);
Findings checkRepository(const Patient& patient);
Findings checkCentralRepository(const Patient& patient);
Findings checkTemporaryDirectory(const Patient& patient);
Findings checkDownloads(const Patient& patient);
/// Asks Slurm's controller.
Findings checkSlurm(const Patient& patient);
Findings checkSlurmPlugin(const Patient& patient);

/// Whether the registries of registries.conf, their mirrors, and these ones answer.
Findings checkRegistries(const Patient& patient, const std::vector<std::string>& further);

}  // namespace sarus::cli
