#include <fcntl.h>
#include <sys/file.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/place/repository_place.hpp"
#include "doctor/node_checks.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::cli {

namespace {

using Grade = Finding::Grade;

constexpr std::uint64_t littleSpace = 1'000'000'000;  // bytes
constexpr std::uint64_t quotaBlock = 1024;            // bytes

std::string describe(const std::string& path) {
    const auto shared = doctor::sharedFilesystemOf(path);
    return cat(printable(path), shared.empty() ? "" : " on ", shared);
}

/// Whether the filesystem has file locks; tried with the index, or else with a file without a name.
Finding checkLocks(const std::string& repository) {
    const image::RepositoryPaths paths{repository};
    UniqueFd file(::open(paths.index().c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file) {
        file.reset(::open(doctor::existingPart(repository).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    }
    if (!file) {
        return {"locks", Grade::note, "not checked before the repository has an index"};
    }
    if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && isLockUnsupported(errno)) {
        return {
            "locks", Grade::warning,
            cat("the filesystem of ", printable(repository),
                " has no file locks: commands that change the repository at the same time may lose entries"),
            "On Lustre, mount with the option flock; NFS of version 3 needs rpc.statd; or set "
            "localRepositoryBaseDir to another filesystem"};
    }
    return {"locks", Grade::ok, "the repository's filesystem has file locks"};
}

/// The kernel's quota of the caller; nullopt without one, or where only the file server knows.
std::optional<dqblk> findQuota(const std::string& path) {
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    dqblk quota{};
    if (!directory ||
        ::syscall(SYS_quotactl_fd, directory.get(), QCMD(Q_GETQUOTA, USRQUOTA), ::geteuid(), &quota) != 0) {
        return std::nullopt;
    }
    return quota;
}

Finding checkQuota(const std::string& repository) {
    constexpr std::uint64_t percent = 100;
    constexpr std::uint64_t nearlyFull = 90;
    const auto part = doctor::existingPart(repository);
    const auto quota = findQuota(part);
    if (!quota) {
        const auto shared = doctor::sharedFilesystemOf(part);
        return {"quota", Grade::ok,
                shared.empty() ? "none that the kernel knows"
                               : cat("none that the kernel knows; ask the file server: ",
                                     shared == "Lustre" ? "lfs quota " : "quota -s, in ", printable(part))};
    }
    const auto limit =
        (quota->dqb_bsoftlimit != 0 ? quota->dqb_bsoftlimit : quota->dqb_bhardlimit) * quotaBlock;
    const auto used = quota->dqb_curspace;
    if (limit != 0 && used * percent > limit * nearlyFull) {
        return {"quota", Grade::warning,
                cat(formatSize(used), " of ", formatSize(limit), " are used on the filesystem of ",
                    printable(repository)),
                "sarus prune, and sarus rmi IMAGE"};
    }
    return {"quota", Grade::ok,
            limit == 0 ? "no limit" : cat(formatSize(used), " of ", formatSize(limit), " are used")};
}

/// A directory in which the caller creates files.
Finding checkWritable(const std::string& name, const std::string& path, const std::string& cure) {
    const auto part = doctor::existingPart(path);
    if (::access(part.c_str(), W_OK | X_OK) != 0) {
        return {name, Grade::error, cat(printable(part), " is not writable: ", std::strerror(errno)), cure};
    }
    const auto space = doctor::freeSpace(part);
    if (space && *space < littleSpace) {
        return {name, Grade::warning, cat(describe(path), " has only ", formatSize(*space), " free"),
                "sarus prune, and sarus rmi IMAGE"};
    }
    return {name, Grade::ok,
            cat(describe(path), space ? cat(", ", formatSize(*space), " free") : "",
                part == path ? "" : " (not there yet)")};
}

}  // namespace

std::vector<Finding> checkRepository(const Patient& patient) {
    const auto& config = patient.config;
    if (config.localRepositoryBaseDir.empty()) {
        return {};
    }
    RepositoryPlace place;
    try {
        place = findRepositoryPlace(config);
    } catch (const Error& error) {
        return {{"repository", Grade::error, error.what(), error.hint()}};
    }
    const auto& repository = place.directory;
    const auto cure = place.chosenBy.empty()
                          ? cat("Set localRepositoryBaseDir in ", printable(patient.configFile),
                                ", or let root make ", printable(repository), " for the user")
                          : cat("Change ", place.chosenBy);
    if (patient.isPrivileged && place.chosenBy.empty() && !pathExists(repository) &&
        ::access(doctor::existingPart(repository).c_str(), W_OK) != 0) {
        return {
            {"repository", Grade::ok, cat(printable(repository), " (not there yet: the starter makes it)")}};
    }
    std::vector<Finding> all{checkWritable("repository", repository, cure), checkLocks(repository),
                             checkQuota(repository)};
    if (place.leavesImages()) {
        all.push_back({"repository", Grade::note,
                       cat("there are images in ", printable(place.usual),
                           " too, which are not used: ", place.chosenBy, " names ", printable(repository)),
                       place.howToMoveImages()});
    }
    return all;
}

std::vector<Finding> checkCentralRepository(const Patient& patient) {
    const auto& directory = patient.config.centralizedRepositoryDir;
    if (!directory) {
        return {};
    }
    struct stat status {};
    if (::stat(directory->c_str(), &status) != 0) {
        return {
            {"central repository", errno == ENOENT ? Grade::note : Grade::error,
             cat(printable(*directory), ": ", std::strerror(errno)),
             cat("mkdir -p ", printable(*directory), " && chmod 755 ", printable(*directory), " (as root)")}};
    }
    if (::access(directory->c_str(), R_OK | X_OK) != 0) {
        return {{"central repository", Grade::error, cat(printable(*directory), " cannot be read"),
                 cat("chmod 755 ", printable(*directory), " (as root)")}};
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return {{"central repository", Grade::warning,
                 cat(printable(*directory), " is writable by others: they can replace images"),
                 cat("chmod go-w ", printable(*directory), " (as its owner)")}};
    }
    return {{"central repository", Grade::ok, describe(*directory)}};
}

std::vector<Finding> checkTemporaryDirectory(const Patient& patient) {
    const auto& directory = patient.config.tempDir;
    if (directory.empty()) {
        return {};
    }
    const auto mode =
        cat("mkdir -p ", printable(directory), " && chmod 1777 ", printable(directory), " (as root)");
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        return {
            {"temporary files", Grade::error, cat(printable(directory), ": ", std::strerror(errno)), mode}};
    }
    if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
        return {{"temporary files", Grade::warning,
                 cat(printable(directory), " is writable by all and has no sticky bit"), mode}};
    }
    return {checkWritable("temporary files", directory, mode)};
}

}  // namespace sarus::cli
