#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/doctor/checks.hpp"
#include "doctor/node_checks.hpp"
#include "node/apparmor.hpp"
#include "node/cgroups.hpp"
#include "node/selinux.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

std::string kernelRelease() {
    utsname host{};
    ::uname(&host);
    return static_cast<const char*>(host.release);
}

Finding checkKernel(bool isPrivileged) {
    constexpr std::uint64_t recommendedMajor = 5;
    constexpr std::uint64_t recommendedMinor = 11;
    const auto release = kernelRelease();
    const auto parts = split(release, '.');
    const auto major = parseNumber(parts[0]).value_or(0);
    const auto minor = parts.size() > 1 ? parseNumber(parts[1]).value_or(0) : 0;
    if (major > recommendedMajor || (major == recommendedMajor && minor >= recommendedMinor)) {
        return {"kernel", Grade::ok, cat("Linux ", printable(release))};
    }
    return {"kernel", isPrivileged ? Grade::note : Grade::warning,
            cat("Linux ", printable(release), " is older than 5.11: no overlay mounts in user namespaces"),
            "Install a newer kernel, or sarus-starter set-user-ID root"};
}

/// Settings of the kernel that protect programs with the set-user-ID bit.
std::vector<Finding> checkKernelSettings(bool isPrivileged) {
    struct Setting {
        std::string_view name;
        std::string_view bad;
        std::string_view good;
        std::string_view risk;
    };
    std::vector<Finding> all;
    std::string seen;
    for (const auto& [name, bad, good, risk] :
         {Setting{"protected_hardlinks", "0", "1", "users can keep old set-user-ID programs by hard links"},
          Setting{"protected_symlinks", "0", "1", "users can misuse links in /tmp"},
          Setting{"suid_dumpable", "1", "0", "users can read core dumps of set-user-ID programs"}}) {
        const auto file = cat("/proc/sys/fs/", name);
        if (!pathExists(file)) {
            continue;
        }
        const auto text = readFile(file);
        const auto value = trim(text);
        seen += cat(seen.empty() ? "" : ", ", "fs.", name, '=', value);
        if (isPrivileged && value == bad) {
            all.push_back(
                {"kernel settings", Grade::warning, cat("fs.", name, '=', bad, ": ", risk),
                 cat("sysctl -w fs.", name, '=', good, " (as root; /etc/sysctl.d/ keeps it after a boot)")});
        }
    }
    if (all.empty()) {
        all.push_back({"kernel settings", Grade::ok, seen});
    }
    return all;
}

bool isFilesystemKnown(const std::string& filesystem) {
    for (const auto& line : split(readFile("/proc/filesystems"), '\n')) {
        const auto words = splitWords(line);
        if (!words.empty() && words.back() == filesystem) {
            return true;
        }
    }
    return isDirectory(cat("/lib/modules/", kernelRelease(), "/kernel/fs/",
                           filesystem == "overlay" ? "overlayfs" : filesystem));
}

Finding checkFilesystems(bool kernelMountsImages) {
    for (const std::string filesystem : {"overlay", "squashfs"}) {
        if ((filesystem == "overlay" || kernelMountsImages) && !isFilesystemKnown(filesystem)) {
            return {"filesystems", Grade::error, cat("the kernel does not know ", filesystem),
                    cat("modprobe ", filesystem, " (as root)")};
        }
    }
    return {"filesystems", Grade::ok, kernelMountsImages ? "overlay, squashfs" : "overlay"};
}

Finding checkLoopDevices() {
    struct stat status {};
    if (::stat("/dev/loop-control", &status) != 0 || !S_ISCHR(status.st_mode)) {
        return {"loop devices", Grade::error, "there is no /dev/loop-control", "modprobe loop (as root)"};
    }
    return {"loop devices", Grade::ok, "/dev/loop-control is there"};
}

Finding checkCgroups() {
    switch (node::detectCgroupLayout()) {
        case node::CgroupLayout::unified:
            return {"cgroups", Grade::ok, "version 2"};
        case node::CgroupLayout::hybrid:
            return {"cgroups", Grade::ok, "version 1, and version 2 without controllers"};
        case node::CgroupLayout::legacy:
            return {"cgroups", Grade::ok, "version 1"};
        case node::CgroupLayout::none:
            break;
    }
    return {"cgroups", Grade::warning, "none are mounted: the rules for devices have no effect",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup (as root)"};
}

}  // namespace

std::vector<Finding> checkNode(const Patient& patient) {
    const bool isPrivileged = patient.isPrivileged;
    const bool kernelMounts = isPrivileged && patient.config.imageMount != engine::ImageMountPolicy::fuse;
    std::vector<Finding> all{
        checkKernel(isPrivileged),
        doctor::checkUserNamespaces(isPrivileged ? Grade::note : Grade::error),
        doctor::checkFuse(kernelMounts ? Grade::note : Grade::error),
        checkFilesystems(kernelMounts),
    };
    if (kernelMounts) {
        all.push_back(checkLoopDevices());
    }
    all.push_back(checkCgroups());
    const auto settings = checkKernelSettings(isPrivileged);
    all.insert(all.end(), settings.begin(), settings.end());
    all.push_back(doctor::checkCdi(patient.config.cdiSpecDirs, "sarus run --device"));
    return all;
}

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
