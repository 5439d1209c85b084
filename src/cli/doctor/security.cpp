#include <unistd.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "node/apparmor.hpp"
#include "node/selinux.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

}  // namespace

std::vector<Finding> checkSecurityModules(const Patient& patient) {
    if (!patient.isConfigured) {
        return {};
    }
    const auto& config = patient.config;
    try {
        node::checkAppArmorProfile(config.apparmorProfile);
        node::checkSelinuxLabel(config.selinuxLabel, "selinuxLabel");
        node::checkSelinuxLabel(config.selinuxMountLabel, "selinuxMountLabel");
    } catch (const Error& error) {
        return {{"security modules", Grade::error, error.what(), error.hint()}};
    }
    if (!config.seccompProfile) {
        return {{"seccomp", Grade::note, "containers have no filter of system calls",
                 cat("Set \"seccompProfile\": \"", printable(patient.prefix),
                     "/etc/seccomp/default.json\" in ", printable(patient.configFile))}};
    }
    if (::access(config.seccompProfile->c_str(), R_OK) != 0) {
        return {{"seccomp", Grade::error, cat(printable(*config.seccompProfile), " cannot be read"),
                 cat("Correct seccompProfile in ", printable(patient.configFile))}};
    }
    return {{"seccomp", Grade::ok, printable(*config.seccompProfile)}};
}

}  // namespace sarus::cli
