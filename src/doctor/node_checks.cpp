#include "doctor/node_checks.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "node/cgroups.hpp"
#include "node/fuse.hpp"
#include "node/user_namespace_error.hpp"
#include "oci/cdi/cdi_spec.hpp"

namespace sarus::doctor {

namespace {

using Grade = Finding::Grade;
using Findings = std::vector<Finding>;

std::string kernelRelease() {
    utsname host{};
    ::uname(&host);
    return static_cast<const char*>(host.release);
}

Findings checkKernel(const NodeNeeds& needs) {
    constexpr std::pair<std::uint64_t, std::uint64_t> recommended{5, 11};
    const auto release = kernelRelease();
    const auto parts = split(release, '.');
    const auto number = [&](std::size_t i) {
        return parts.size() > i ? parseNumber(parts[i]).value_or(0) : 0;
    };
    if (std::pair(number(0), number(1)) >= recommended) {
        return {ok(cat("Linux ", printable(release)))};
    }
    return {{"", needs.hasPrivileges ? Grade::note : Grade::warning,
             cat("Linux ", printable(release), " is older than 5.11: no overlay mounts in user namespaces"),
             "Install a newer kernel, or make sarus-starter set-user-ID root"}};
}

/// 0, or the errno with which the kernel refuses a user namespace.
int tryUserNamespace() {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(::unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    }
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                                   : EAGAIN;
}

Findings checkUserNamespaces(const NodeNeeds& needs) {
    const auto reason = whyNoUserNamespace();
    if (!reason) {
        return {ok("allowed")};
    }
    return {{"", needs.hasPrivileges ? Grade::note : Grade::error, reason->what(), reason->hint()}};
}

Findings checkFuse(const NodeNeeds& needs) {
    const auto device = node::openFuseDevice();
    if (!device.fd) {
        return {{"", needs.kernelMountsImages ? Grade::note : Grade::error, device.whyNot,
                 "modprobe fuse && chmod 0666 /dev/fuse # as root"}};
    }
    return {ok("/dev/fuse can be opened")};
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

Findings checkFilesystems(const NodeNeeds& needs) {
    for (const std::string filesystem : {"overlay", "squashfs"}) {
        if ((filesystem == "overlay" || needs.kernelMountsImages) && !isFilesystemKnown(filesystem)) {
            throw Error(cat("the kernel does not know ", filesystem),
                        cat("modprobe ", filesystem, " # as root"));
        }
    }
    return {ok(needs.kernelMountsImages ? "overlay, squashfs" : "overlay")};
}

Findings checkLoopDevices(const NodeNeeds& needs) {
    struct stat status {};
    if (!needs.kernelMountsImages) {
        return {};
    }
    if (::stat("/dev/loop-control", &status) != 0 || !S_ISCHR(status.st_mode)) {
        throw Error("there is no /dev/loop-control", "modprobe loop # as root");
    }
    return {ok("/dev/loop-control is there")};
}

Findings checkCgroups(const NodeNeeds& /*needs*/) {
    switch (node::detectCgroupLayout()) {
        case node::CgroupLayout::unified:
            return {ok("version 2")};
        case node::CgroupLayout::hybrid:
            return {ok("version 1, and version 2 without controllers")};
        case node::CgroupLayout::legacy:
            return {ok("version 1")};
        case node::CgroupLayout::none:
            break;
    }
    return {warning("none are mounted: the rules for devices have no effect",
                    "mount -t cgroup2 cgroup2 /sys/fs/cgroup # as root")};
}

/// Settings of the kernel that protect programs with the set-user-ID bit.
Findings checkKernelSettings(const NodeNeeds& needs) {
    struct Setting {
        std::string_view name;
        std::string_view bad;
        std::string_view good;
        std::string_view risk;
    };
    Findings all;
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
        if (needs.hasPrivileges && value == bad) {
            all.push_back(
                warning(cat("fs.", name, '=', bad, ": ", risk),
                        cat("sysctl -w fs.", name, '=', good, " # as root; /etc/sysctl.d/ keeps it")));
        }
    }
    return all.empty() ? Findings{ok(seen)} : all;
}

Findings checkCdi(const NodeNeeds& needs) {
    constexpr std::size_t largestFile = 1U << 24U;
    if (needs.cdiDirectories.empty()) {
        return {note("the configuration disables CDI")};
    }
    std::string devices;
    for (const auto& directory : needs.cdiDirectories) {
        for (const auto& file : filesIn(directory, {".json", ".yaml"})) {
            try {
                const auto spec = oci::parseCdiSpec(readFile(file, largestFile), file);
                for (const auto& device : spec.devices) {
                    devices += cat(' ', spec.kind, '=', device.name);
                }
            } catch (const Error& problem) {
                return {warning(problem.what(), cat("nvidia-ctk cdi generate --output=", shellWord(file),
                                                    " # as root; or the tool of the device's vendor"))};
            }
        }
    }
    return {devices.empty() ? note(cat("no CDI file in ", join(needs.cdiDirectories, " or ")))
                            : ok(cat(needs.deviceOption, devices))};
}

struct NodeCheck {
    const char* name;
    unsigned programs;
    Findings (*run)(const NodeNeeds& needs);
};

constexpr unsigned sarus = static_cast<unsigned>(Program::sarus);
constexpr unsigned all = sarus | static_cast<unsigned>(Program::podmanHpc);

constexpr std::array table{
    NodeCheck{"kernel", sarus, checkKernel},
    NodeCheck{"user namespaces", all, checkUserNamespaces},
    NodeCheck{"FUSE", all, checkFuse},
    NodeCheck{"filesystems", sarus, checkFilesystems},
    NodeCheck{"loop devices", sarus, checkLoopDevices},
    NodeCheck{"cgroups", sarus, checkCgroups},
    NodeCheck{"kernel settings", sarus, checkKernelSettings},
    NodeCheck{"CDI devices", all, checkCdi},
};

std::string describe(const std::string& path, const std::string& part) {
    const auto shared = sharedFilesystem(filesystemOf(part));
    return cat(printable(path), shared.empty() ? "" : " on ", shared);
}

}  // namespace

std::vector<Check> nodeChecks(Program program, const std::function<NodeNeeds()>& needs) {
    std::vector<Check> checks;
    for (const auto& [name, programs, run] : table) {
        if ((programs & static_cast<unsigned>(program)) != 0) {
            checks.push_back({name, [needs, work = run] { return work(needs()); }});
        }
    }
    return checks;
}

std::optional<Error> whyNoUserNamespace() {
    const int refused = tryUserNamespace();
    return refused == 0
               ? std::nullopt
               : std::optional(node::userNamespaceError("The kernel refuses a user namespace", refused)
                                   .setHint(node::userNamespaceCure()));
}

std::vector<std::string> filesIn(const std::string& directory,
                                 std::initializer_list<std::string_view> endings) {
    if (!isDirectory(directory)) {
        return {};
    }
    const auto opened = openFile(directory, O_PATH | O_DIRECTORY);
    return listFiles(opened.get(), directory, endings);
}

std::string existingPart(std::string path) {
    while (path.size() > 1 && !pathExists(path)) {
        path.resize(path.rfind('/'));
    }
    return path.empty() ? "/" : path;
}

long filesystemOf(const std::string& path) {
    struct statfs status {};
    return ::statfs(path.c_str(), &status) == 0 ? static_cast<long>(status.f_type) : 0;
}

std::string_view sharedFilesystem(long magic) {
    constexpr std::array<std::pair<long, std::string_view>, 6> kinds{{{0x6969, "NFS"},
                                                                      {0x0BD00BD0, "Lustre"},
                                                                      {0x47504653, "GPFS"},
                                                                      {0x00C36400, "Ceph"},
                                                                      {0x19830326, "BeeGFS"},
                                                                      {0x7461636f, "OCFS2"}}};
    const auto* const found =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == magic; });
    return found == kinds.end() ? std::string_view{} : found->second;
}

Finding checkDirectory(const OwnDirectory& directory) {
    constexpr std::uint64_t littleSpace = 1'000'000'000;  // bytes
    const auto part = existingPart(directory.path);
    if (::access(part.c_str(), W_OK | X_OK) != 0) {
        throw Error(cat(printable(part), " is not writable: ", std::strerror(errno)),
                    directory.cureIfUnusable);
    }
    struct statvfs space {};
    const bool isKnown = !directory.cureIfFull.empty() && ::statvfs(part.c_str(), &space) == 0;
    const auto free = isKnown ? std::uint64_t{space.f_bavail} * space.f_frsize : littleSpace;
    const auto place = describe(directory.path, part);
    if (free < littleSpace) {
        return warning(cat(place, " has only ", formatSize(free), " free"), directory.cureIfFull);
    }
    return ok(cat(place, isKnown ? cat(", ", formatSize(free), " free") : "",
                  part == directory.path ? "" : " (not there yet)"));
}

std::string askVersion(const std::string& program, const std::string& cure) {
    if (::access(program.c_str(), X_OK) != 0) {
        throw Error(cat(printable(program), " cannot be executed"), cure);
    }
    auto answer = runAndCapture({.path = program, .args = {program, "--version"}});
    if (!answer.status.ok()) {
        throw Error(cat(printable(program), " --version fails: ", printable(trim(answer.err))), cure);
    }
    return std::move(answer.out);
}

}  // namespace sarus::doctor
