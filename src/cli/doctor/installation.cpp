#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/path_checker.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "engine/trusted_paths.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

std::string makePrivileged(const std::string& starter) {
    return cat("chown root:root ", starter, " && chmod 4755 ", starter, " (as root)");
}

Finding checkPrivileged(const std::string& starter, const std::string& prefix) {
    struct statvfs filesystem {};
    if (::statvfs(starter.c_str(), &filesystem) == 0 && (filesystem.f_flag & ST_NOSUID) != 0) {
        return {"starter", Grade::error,
                cat(starter, " is set-user-ID root, but its filesystem is mounted with nosuid"),
                cat("mount -o remount,suid $(findmnt -n -o TARGET -T ", prefix, ") (as root)")};
    }
    if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        return {"starter", Grade::warning,
                cat(starter, " is set-user-ID root, but this process runs with no_new_privs"),
                "Start sarus from a shell without it: grep NoNewPrivs /proc/$$/status"};
    }
    return {"starter", Grade::ok, cat(starter, " is set-user-ID root")};
}

Finding checkStarter(const Patient& patient) {
    const auto starter = printable(cat(patient.prefix, "/libexec/sarus-starter"));
    struct stat status {};
    if (::stat(starter.c_str(), &status) != 0) {
        return {"starter", Grade::error, cat(starter, ": ", std::strerror(errno)),
                "Install again: cmake --install BUILD_DIRECTORY"};
    }
    if (::access(starter.c_str(), X_OK) != 0) {
        return {"starter", Grade::error, cat("this user may not execute ", starter),
                cat("usermod -aG $(stat -c %G ", starter, ") USER (as root)")};
    }
    if (patient.isPrivileged) {
        return checkPrivileged(starter, printable(patient.prefix));
    }
    if ((status.st_mode & S_ISUID) != 0) {
        return {"starter", Grade::error, cat(starter, " is set-user-ID, but belongs to user ", status.st_uid),
                makePrivileged(starter)};
    }
    if (!patient.config.allowRootless && ::geteuid() != 0) {
        return {"starter", Grade::error,
                cat("allowRootless is false, and ", starter, " is not set-user-ID root"),
                makePrivileged(starter)};
    }
    return {"starter", Grade::ok, cat(starter, " works without privileges")};
}

/// nullopt if the path is fine.
std::optional<Finding> checkPath(PathChecker& paths, const std::string& path, bool isTree) {
    try {
        if (isTree) {
            paths.checkTree(path);
        } else {
            paths.check(path);
        }
        return std::nullopt;
    } catch (const Error& error) {
        if (error.errnum() == EACCES) {
            return Finding{"permissions", Grade::note, error.what(), "sudo sarus doctor"};
        }
        return Finding{
            "permissions", Grade::error, error.what(),
            error.errnum() != 0 ? "Look at the path" : "chown root and chmod go-w that path (as root)"};
    }
}

}  // namespace

std::vector<Finding> checkInstallation(const Patient& patient) {
    std::vector<Finding> all{checkStarter(patient)};
    for (const auto* program :
         {"/libexec/sarus-hook", "/libexec/sarus-image-builder", "/bin/sarus-squashfs"}) {
        const auto path = cat(patient.prefix, program);
        if (::access(path.c_str(), X_OK) != 0) {
            all.push_back({"programs", Grade::error, cat(printable(path), ": ", std::strerror(errno)),
                           "Install again: cmake --install BUILD_DIRECTORY"});
        }
    }
    return all;
}

std::vector<Finding> checkPermissions(const Patient& patient) {
    if (!patient.isConfigured) {
        return {};
    }
    if (!patient.config.securityChecks) {
        return {{"permissions", patient.isPrivileged ? Grade::warning : Grade::note,
                 "securityChecks is false: nobody checks who can change the programs that containers need",
                 cat("Set securityChecks to true in ", printable(patient.configFile))}};
    }
    const TrustedOwners owners = patient.isPrivileged || ::geteuid() == 0
                                     ? TrustedOwners{}
                                     : TrustedOwners{.alsoTrusted = {::geteuid()}, .stickyParents = true};
    PathChecker paths(owners);
    auto examined = engine::trustedPaths(patient.config);
    examined.push_back({patient.configFile, false});
    if (patient.config.hooksDir) {
        examined.push_back({*patient.config.hooksDir, true});
    }
    std::vector<Finding> all;
    for (const auto& [path, isTree] : examined) {
        const bool isUsed = !path.empty() && (patient.isPrivileged || path != patient.config.ociBundleDir);
        if (const auto finding = isUsed ? checkPath(paths, path, isTree) : std::nullopt) {
            all.push_back(*finding);
        }
    }
    if (all.empty()) {
        all.push_back({"permissions", Grade::ok,
                       owners.alsoTrusted.empty() ? "only root can change the installation"
                                                  : "only you and root can change the installation"});
    }
    return all;
}

}  // namespace sarus::cli
