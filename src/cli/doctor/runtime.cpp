#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "doctor/runtime_version.hpp"
#include "image/transfer/file_policy.hpp"
#include "image/transfer/login.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

/// The program's answer to --version, or why it cannot be used.
Finding askVersion(const std::string& name, const std::string& path, const std::string& cure,
                   std::string& output) {
    if (::access(path.c_str(), X_OK) != 0) {
        return {name, Grade::error, cat(printable(path), " cannot be executed"), cure};
    }
    auto result = runAndCapture({.path = path, .args = {path, "--version"}});
    if (!result.status.ok()) {
        return {name, Grade::error, cat(printable(path), " --version fails: ", printable(trim(result.err))),
                cure};
    }
    output = std::move(result.out);
    return {name, Grade::ok, cat(printable(path), ", ", printable(split(output, '\n').front()))};
}

}  // namespace

std::vector<Finding> checkRuntime(const Patient& patient) {
    const auto& config = patient.config;
    if (config.runcPath.empty()) {
        return {};
    }
    std::string output;
    auto found =
        askVersion("OCI runtime", config.runcPath,
                   cat("apt-get install crun, and set runcPath in ", printable(patient.configFile)), output);
    const auto version = doctor::parseRuntimeVersion(output);
    if (found.grade == Grade::ok && version.program.empty()) {
        found.grade = Grade::warning;
        found.message += ": neither crun nor runc";
        found.cure = cat("Set runcPath in ", printable(patient.configFile));
    }
    if (const auto names = doctor::knownVulnerabilities(version); !names.empty()) {
        found.grade = version.isOfDistribution ? Grade::note : Grade::warning;
        found.message += cat(": known are ", join(names, ", "),
                             version.isOfDistribution ? ", which the distribution may have corrected" : "");
        found.cure = version.isOfDistribution ? cat("apt-get changelog ", version.program,
                                                    " | grep CVE, or rpm -q --changelog ", version.program)
                                              : cat("Install a newer ", version.program);
    }
    std::vector<Finding> all{found};
    if (config.initPath && ::access(config.initPath->c_str(), X_OK) != 0) {
        all.push_back({"init", Grade::error, cat(printable(*config.initPath), " cannot be executed"),
                       cat("Correct initPath in ", printable(patient.configFile))});
    }
    return all;
}

std::vector<Finding> checkDownloads(const Patient& patient) {
    if (patient.config.skopeoPath.empty()) {
        return {};
    }
    image::forgetForeignHome();
    std::string output;
    std::vector<Finding> all{askVersion(
        "skopeo", patient.config.skopeoPath,
        cat("apt-get install skopeo, and set skopeoPath in ", printable(patient.configFile)), output)};
    const auto& policy = patient.config.containersPolicy;
    const char* home = std::getenv("HOME");
    try {
        const auto file = image::policyFile(
            policy ? std::optional(image::PolicyChoice{policy->path, policy->enforce}) : std::nullopt,
            home == nullptr ? "" : home);
        all.push_back({"image policy", Grade::ok, printable(file)});
    } catch (const Error& error) {
        all.push_back({"image policy", Grade::error, error.what(),
                       error.hint().empty() ? "man containers-policy.json" : error.hint()});
    }
    return all;
}

}  // namespace sarus::cli
