#include "hooks/slurm_global_sync/shared_files.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::hooks::slurm_global_sync {

namespace {

/// Any user of a directory may set it, every shared file system keeps it, and it means nothing here
/// otherwise.
constexpr mode_t markBit = S_ISVTX;
constexpr mode_t privateMode = 0700;
constexpr std::size_t longestText = 64U << 10U;

}  // namespace

DiskFiles::DiskFiles(const std::string& base, const std::string& inside) : name(cat(base, '/', inside)) {
    constexpr int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const auto doing = cat("Failed to open ", printable(name));
    directory.reset(::open(name.c_str(), flags));
    if (!directory && errno == ENOENT) {  // the user's first task makes it, a part at a time
        directory = openFile(base, flags);
        for (const auto& part : split(inside, '/')) {
            if (::mkdirat(directory.get(), part.c_str(), privateMode) != 0 && errno != EEXIST) {
                throwErrno(cat("Failed to create ", printable(name)));
            }
            directory.reset(checkErrno(::openat(directory.get(), part.c_str(), flags), doing));
        }
    }
    if (!directory) {
        throwErrno(doing);
    }
    struct stat status {};
    checkErrno(::fstat(directory.get(), &status), cat("Failed to examine ", printable(name)));
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw Error(cat("The directory ", printable(name),
                        " must belong to the user, and nobody else may write to it"),
                    "Remove it, or correct its owner and mode");
    }
}

std::string DiskFiles::shown(const std::string& path) const {
    return printable(cat(name, '/', path));
}

SharedFiles::Made DiskFiles::made(const std::string& path, bool done) const {
    if (done) {
        return Made::now;
    }
    if (errno != EEXIST && errno != ENOENT) {
        throwErrno(cat("Failed to create ", shown(path)));
    }
    return errno == EEXIST ? Made::before : Made::noParent;
}

SharedFiles::Made DiskFiles::makeDirectory(const std::string& path) {
    return made(path, ::mkdirat(directory.get(), path.c_str(), privateMode) == 0);
}

SharedFiles::Made DiskFiles::makeFile(const std::string& path, std::string_view content) {
    const UniqueFd file(
        ::openat(directory.get(), path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const auto result = made(path, static_cast<bool>(file));
    if (file && !content.empty()) {
        writeAll(file.get(), content, shown(path));
    }
    return result;
}

bool DiskFiles::rename(const std::string& from, const std::string& to) {
    if (::renameat(directory.get(), from.c_str(), directory.get(), to.c_str()) == 0) {
        return true;
    }
    if (errno != ENOENT) {
        throwErrno(cat("Failed to rename ", shown(from)));
    }
    return false;
}

void DiskFiles::remove(const std::string& path) {
    if (::unlinkat(directory.get(), path.c_str(), 0) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", shown(path)));
    }
}

bool DiskFiles::removeDirectory(const std::string& path) {
    if (::unlinkat(directory.get(), path.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return true;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        throwErrno(cat("Failed to remove ", shown(path)));
    }
    return false;
}

void DiskFiles::mark(const std::string& path) {
    if (::fchmodat(directory.get(), path.c_str(), privateMode | markBit, 0) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to change the mode of ", shown(path)));
    }
}

std::optional<SharedFiles::Status> DiskFiles::status(const std::string& path) {
    struct statx status {};
    // Clients of network file systems would answer from a cache that is up to a minute old.
    if (::statx(directory.get(), path.c_str(), AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
                STATX_MODE | STATX_TYPE | STATX_UID | STATX_MTIME, &status) != 0) {
        if (errno == ENOENT) {
            return std::nullopt;
        }
        throwErrno(cat("Failed to examine ", shown(path)));
    }
    if (!S_ISDIR(status.stx_mode) || status.stx_uid != ::geteuid()) {
        throw Error(cat(shown(path), " is not a directory of the user"), "Remove it");
    }
    return Status{(status.stx_mode & markBit) != 0, std::chrono::seconds(status.stx_mtime.tv_sec)};
}

std::vector<std::string> DiskFiles::list(const std::string& path) {
    Directory entries(directory.get(), path.c_str(), shown(path), Missing::isEmpty);
    std::vector<std::string> names;
    while (const char* entry = entries.next()) {
        names.emplace_back(entry);
    }
    return names;
}

std::optional<std::string> DiskFiles::read(const std::string& path) {
    const UniqueFd file(
        ::openat(directory.get(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno != ENOENT) {
        throwErrno(cat("Failed to open ", shown(path)));
    }
    return file ? std::optional(readAll(file.get(), longestText, shown(path))) : std::nullopt;
}

}  // namespace sarus::hooks::slurm_global_sync
