#include "engine/late_rules.hpp"

#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "engine/mount_rules.hpp"
#include "engine/run_options.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::engine {

namespace {

constexpr mode_t defaultMode = 0666;

bool isUsualDevice(const struct stat& status) {
    const auto& usual = oci::usualDeviceNumbers;
    const std::pair number(major(status.st_rdev), minor(status.st_rdev));
    return S_ISCHR(status.st_mode) && std::find(usual.begin(), usual.end(), number) != usual.end();
}

dev_t numberOf(std::int64_t majorNumber, std::int64_t minorNumber) {
    return makedev(static_cast<unsigned>(majorNumber), static_cast<unsigned>(minorNumber));
}

/// Always a new node.
DeviceNode fifo(const oci::DeviceNodeEdit& wanted, const NodeOwner& owner) {
    return {.mode = S_IFIFO | wanted.fileMode.value_or(defaultMode),
            .uid = owner.privileged ? wanted.uid.value_or(owner.uid) : owner.uid,
            .gid = owner.privileged ? wanted.gid.value_or(owner.gid) : owner.gid,
            .isNew = true};
}

/// A node that the host does not have.
DeviceNode newNode(const oci::DeviceNodeEdit& wanted) {
    return {.mode = (wanted.type == "b" ? S_IFBLK : S_IFCHR) | wanted.fileMode.value_or(defaultMode),
            .number = numberOf(*wanted.major, *wanted.minor),
            .uid = wanted.uid.value_or(0),
            .gid = wanted.gid.value_or(0),
            .isNew = true};
}

/// The source, or a changed copy if the file asks for other attributes and they can be provided.
DeviceNode sourceOrCopy(const PlannedDevice& device, const struct stat& status, const NodeOwner& owner,
                        bool isNumbered) {
    const DeviceNode source{
        .mode = status.st_mode, .number = status.st_rdev, .uid = status.st_uid, .gid = status.st_gid};
    if (!device.node) {
        return source;
    }
    const auto& wanted = *device.node;
    if (!wanted.type.empty() && (wanted.type == "b") != S_ISBLK(status.st_mode)) {
        throw Error(cat("\"", printable(device.source), "\" is not a device of type '", wanted.type, "'"));
    }
    const mode_t ownPermissions = status.st_mode & ~static_cast<mode_t>(S_IFMT);
    const DeviceNode copy{.mode = (status.st_mode & S_IFMT) | wanted.fileMode.value_or(ownPermissions),
                          .number = numberOf(wanted.major.value_or(major(status.st_rdev)),
                                             wanted.minor.value_or(minor(status.st_rdev))),
                          .uid = wanted.uid.value_or(status.st_uid),
                          .gid = wanted.gid.value_or(status.st_gid),
                          .isNew = true,
                          .mustBeHosts = !isNumbered};
    const bool hasNumber = copy.number == source.number;
    if (!owner.privileged && !hasNumber) {
        throw Error(cat("the numbers of \"", printable(device.source), "\" are not those of its CDI file"),
                    "Without privileges only nodes of the host can be provided; generate the file again");
    }
    const bool isSame =
        hasNumber && copy.mode == source.mode && copy.uid == source.uid && copy.gid == source.gid;
    return isSame || !owner.privileged ? source : copy;
}

}  // namespace

bool isLookedUpAsUser(MountOrigin origin) {
    return origin != MountOrigin::site;
}

bool mayBeMissing(MountOrigin origin) {
    return origin == MountOrigin::workloadManager;
}

bool isNodev(const PlannedMount& mount, const struct stat& source) {
    return mount.origin == MountOrigin::cdi ? mount.nodev
                                            : mount.origin != MountOrigin::site && !isUsualDevice(source);
}

std::optional<std::string> whyNotMountedOn(std::string_view resolved, std::string_view destination,
                                           MountOrigin origin, const UserMountRules& rules) {
    if (resolved == "/") {
        return "the root directory cannot be a mount destination";
    }
    const bool followedNoLink = resolved == normalizePath(destination);
    if (origin == MountOrigin::site || (origin == MountOrigin::workloadManager && followedNoLink)) {
        return whyEnginesOwn(resolved);
    }
    return whyNotMountable(origin == MountOrigin::cdi ? UserMountRules{} : rules, resolved);
}

std::vector<std::string> findHiddenMounts(const std::vector<PlannedMount>& mounts,
                                          const std::vector<std::string>& places) {
    std::vector<std::string> warnings;
    for (std::size_t hidden = 0; hidden < mounts.size(); ++hidden) {
        for (std::size_t later = hidden + 1;
             mounts[hidden].origin == MountOrigin::user && later < mounts.size(); ++later) {
            const auto& cover = mounts[later];
            const bool isSame = places[later] == places[hidden] && cover.source == mounts[hidden].source &&
                                cover.readonly == mounts[hidden].readonly && !cover.tmpfsSize;
            if (!places[later].empty() && isSameOrBelow(places[hidden], places[later]) && !isSame) {
                warnings.push_back(cat("The mount request '", printable(cover.request), "' hides '",
                                       printable(mounts[hidden].request), "', which precedes it"));
                break;
            }
        }
    }
    return warnings;
}

bool isWorkdirOfRuntime(std::string_view workdir) {
    return workdir != "/" && workdir != "/dev" && whyEnginesOwn(workdir);
}

void checkResolvedWorkdir(std::string_view resolved) {
    checkWorkdir(resolved);
    if (oci::isRuntimeDevice(resolved)) {
        throw Error(cat(resolved, " is a device of the container"));
    }
}

DeviceNode decideNode(const PlannedDevice& device, const FoundSource& found, const NodeOwner& owner) {
    const auto& wanted = device.node;
    if (wanted && wanted->type == "p") {
        return fifo(*wanted, owner);
    }
    const bool isNumbered = wanted && !wanted->type.empty() && wanted->major && wanted->minor;
    if (found.status == nullptr) {
        if (isNumbered && owner.privileged) {
            return newNode(*wanted);
        }
        throw Error::fromErrno(
            cat("Failed to check if file \"", printable(device.source), "\" is a device file. Stat failed"),
            found.error);
    }
    const auto node = sourceOrCopy(device, *found.status, owner, isNumbered);
    if (!S_ISCHR(node.mode) && !S_ISBLK(node.mode)) {
        throw Error(cat("Source path \"", printable(device.source), "\" is not a device file"));
    }
    return node;
}

}  // namespace sarus::engine
