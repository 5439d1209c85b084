#include "image/prune.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/import_session.hpp"

namespace sarus::image {

namespace {

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

/// blobs/<algorithm>/<hex>: the entries of the algorithm's directory.
void pruneDirectory(const std::string& path, bool dryRun, PruneResult& result) {
    const auto fd = openFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const std::unique_ptr<DIR, CloseDir> entries(::fdopendir(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)));
    if (!entries) {
        throwErrno(cat("Failed to list ", printable(path)));
    }
    while (const dirent* entry = ::readdir(entries.get())) {
        struct stat status {};
        if (::fstatat(fd.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(status.st_mode)) {
            continue;
        }
        if (!dryRun && ::unlinkat(fd.get(), entry->d_name, 0) != 0 && errno != ENOENT) {
            throwErrno(cat("Failed to remove ", printable(cat(path, '/', static_cast<const char*>(entry->d_name)))));
        }
        ++result.files;
        result.bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
}

}  // namespace

PruneResult pruneCache(Repository& repository, const std::string& tempDir, bool dryRun) {
    const auto& paths = repository.paths();
    const auto lock = openFile(paths.cacheLock(), O_RDWR | O_CREAT, 0644);
    if (!dryRun && !tryLock(lock.get(), LockMode::exclusive)) {
        throw Error("The cache is in use by 'sarus pull' or 'sarus load'", "Try again when that has ended");
    }
    if (!dryRun) {
        repository.recover();
        removeAbandonedImports(paths, tempDir);
    }
    PruneResult result;
    const std::unique_ptr<DIR, CloseDir> algorithms(::opendir(paths.blobs().c_str()));
    while (const dirent* entry = algorithms ? ::readdir(algorithms.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (name != "." && name != ".." && isDirectory(cat(paths.blobs(), '/', name))) {
            pruneDirectory(cat(paths.blobs(), '/', name), dryRun, result);
        }
    }
    return result;
}

std::uint64_t pruneUnpackedImages(const std::string& tempDir, bool dryRun) {
    const auto owned = cat(tempDir, "/sarus-", ::geteuid());
    const auto cache = cat(owned, "/unpacked");
    for (const auto& directory : {owned, cache}) {
        struct stat status {};
        if (::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) {
            return 0;  // there is none, or it is not ours to touch
        }
    }
    constexpr std::string_view ending = ".lock";
    std::uint64_t count = 0;
    const std::unique_ptr<DIR, CloseDir> entries(::opendir(cache.c_str()));
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        const std::string name = entry->d_name;
        if (!name.ends_with(ending)) {
            continue;
        }
        const auto lockPath = cat(cache, '/', name);
        const auto copy = lockPath.substr(0, lockPath.size() - ending.size());
        const auto lock = openFile(lockPath, O_RDWR | O_NOFOLLOW);
        if (!tryLock(lock.get(), LockMode::exclusive)) {
            continue;
        }
        count += pathExists(copy) ? 1 : 0;
        if (!dryRun) {
            removeTree(copy);
            removeTree(cat(copy, ".partial"));
            removeTree(cat(copy, ".unpacking"));
            removeTree(lockPath);  // last: users of the name look for it again once they have the lock
        }
    }
    return count;
}

}  // namespace sarus::image
