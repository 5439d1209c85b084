#include <fcntl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"
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

constexpr const char* freeImages = "sarus prune # and: sarus rmi IMAGE";

/// How to get another place, and who has chosen this one.
std::string howToMove(const RepositoryPlace& place, const Patient& patient) {
    if (place.chosenBy == repositoryVariable) {
        return cat("unset ", repositoryVariable, " # or let it name a directory of your own");
    }
    return cat("export ", repositoryVariable, "=$HOME/images # instead of the place that ",
               place.chosenBy.empty() ? cat("localRepositoryBaseDir in ", printable(patient.configFile))
                                      : place.chosenBy,
               " gives you");
}

/// Whether the filesystem has file locks; tried with the index, or else with a file without a name.
Finding checkLocks(const std::string& repository, const std::string& cure) {
    const image::RepositoryPaths paths{repository};
    UniqueFd file(::open(paths.index().c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file) {
        file.reset(::open(doctor::existingPart(repository).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    }
    if (!file) {
        return {"locks", Grade::note, "not checked before the repository has an index"};
    }
    if (tryLock(file.get(), LockMode::shared) == LockResult::unsupported) {
        return {
            "locks", Grade::warning,
            cat("the filesystem of ", printable(repository),
                " has no file locks: commands that change the repository at the same time may lose entries. "
                "Lustre needs the mount option flock, NFS of version 3 rpc.statd"),
            cure};
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
    constexpr std::uint64_t quotaBlock = 1024;  // bytes
    constexpr std::uint64_t percent = 100;
    constexpr std::uint64_t nearlyFull = 90;
    const auto part = doctor::existingPart(repository);
    const auto quota = findQuota(part);
    if (!quota) {
        const auto shared = doctor::sharedFilesystem(doctor::filesystemOf(part));
        return {"quota", Grade::ok,
                shared.empty() ? "none that the kernel knows"
                               : cat("none that the kernel knows; ask the file server: ",
                                     shared == "Lustre" ? "lfs quota " : "quota -s, in ", printable(part))};
    }
    const auto limit =
        (quota->dqb_bsoftlimit != 0 ? quota->dqb_bsoftlimit : quota->dqb_bhardlimit) * quotaBlock;
    const auto used = cat(formatSize(quota->dqb_curspace), " of ", formatSize(limit), " are used");
    if (limit != 0 && quota->dqb_curspace * percent > limit * nearlyFull) {
        return {"quota", Grade::warning, cat(used, " on the filesystem of ", printable(repository)),
                freeImages};
    }
    return {"quota", Grade::ok, limit == 0 ? "no limit" : used};
}

}  // namespace

Findings checkRepository(const Patient& patient) {
    if (patient.config.localRepositoryBaseDir.empty()) {
        return {};
    }
    const auto place = [&] {
        try {
            return findRepositoryPlace(patient.config);
        } catch (Error& error) {
            throw error.hint().empty()
                ? error.setHint(cat("Let ", repositoryVariable, " name a directory of your own"))
                : error;
        }
    }();
    const auto& repository = place.directory;
    const auto part = doctor::existingPart(repository);
    if (patient.isPrivileged && place.chosenBy.empty() && part != repository &&
        ::access(part.c_str(), W_OK) != 0) {
        return {doctor::ok(cat(printable(repository), " (not there yet: the starter makes it)"))};
    }
    const auto cure = howToMove(place, patient);
    Findings all{doctor::checkDirectory({repository, cure, freeImages}), checkLocks(repository, cure),
                 checkQuota(repository)};
    if (place.leavesImages()) {
        all.push_back(
            doctor::note(cat("there are images in ", printable(place.usual),
                             " too, which are not used: ", place.chosenBy, " names ", printable(repository)),
                         place.moveCommand()));
    }
    return all;
}

Findings checkCentralRepository(const Patient& patient) {
    if (!patient.config.centralizedRepositoryDir) {
        return {};
    }
    const auto& directory = *patient.config.centralizedRepositoryDir;
    const auto name = printable(directory);
    const auto word = shellWord(directory);
    const auto chosen =
        cat("as root; centralizedRepositoryDir in ", printable(patient.configFile), " names it");
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        auto missing = Error::fromErrno(name, errno, cat("mkdir -p -m 755 ", word, " # ", chosen));
        if (missing.errnum() != ENOENT) {
            throw std::move(missing);
        }
        return {doctor::note(missing.what(), missing.hint())};
    }
    if (::access(directory.c_str(), R_OK | X_OK) != 0) {
        throw Error(cat(name, " cannot be read"), cat("chmod 755 ", word, " # ", chosen));
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return {doctor::warning(cat(name, " is writable by others: they can replace images"),
                                cat("chmod go-w ", word, " # ", chosen))};
    }
    const auto shared = doctor::sharedFilesystem(doctor::filesystemOf(directory));
    return {doctor::ok(cat(name, shared.empty() ? "" : " on ", shared))};
}

Findings checkTemporaryDirectory(const Patient& patient) {
    const auto& directory = patient.config.tempDir;
    if (directory.empty()) {
        return {};
    }
    const auto word = shellWord(directory);
    const auto cure = cat("mkdir -p ", word, " && chmod 1777 ", word, " # as root; tempDir in ",
                          printable(patient.configFile), " names it");
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        throw Error::fromErrno(printable(directory), errno, cure);
    }
    if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
        return {
            doctor::warning(cat(printable(directory), " is writable by all and has no sticky bit"), cure)};
    }
    return {
        doctor::checkDirectory({directory, cure,
                                cat("du -xsh ", word, "/* # remove what is not needed, or set tempDir in ",
                                    printable(patient.configFile))})};
}

}  // namespace sarus::cli
