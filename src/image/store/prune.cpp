#include "image/store/prune.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string_view>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/store/import_session.hpp"

namespace sarus::image {

namespace {

/// But those that are held: broadcasts take them without the cache.
void removePullLocks(const std::string& directory) {
    Directory entries(directory, Missing::isEmpty);
    while (const char* name = entries.next()) {
        const UniqueFd file(
            ::openat(entries.fd(), name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        const auto shown = cat(directory, '/', name);
        if (file && requestLock(file.get(), LockMode::exclusive, shown) != LockResult::busy) {
            ::unlinkat(entries.fd(), name, 0);
        }
    }
    ::rmdir(directory.c_str());
}

/// False if an import is running. Waits for other processes that prune.
bool lockCache(int lock, const std::string& path) {
    constexpr int attempts = 5;  // one that prunes may just have ended, or look for the same reason
    int shared = 0;
    while (!tryLockOrWarn(lock, LockMode::exclusive, path,
                          "a 'sarus pull' at the same time may lose what it has downloaded, and fail")) {
        shared =
            requestLock(lock, LockMode::shared, path) == LockResult::held ? shared + 1 : 0;  // as imports do
        if (shared == attempts) {
            return false;
        }
        ::flock(lock, LOCK_UN);
        const timespec pause{.tv_sec = 0, .tv_nsec = 5'000'000 + ::getpid() % 16 * 1'000'000L};
        ::nanosleep(&pause, nullptr);
        throwIfInterrupted();
    }
    return true;
}

/// Removes what killed imports left, and keeps new ones from starting; nullopt if one is running.
std::optional<UniqueFd> lockCleanCache(Repository& repository, const std::string& tempDir) {
    const auto& paths = repository.paths();
    repository.recover();
    removeAbandonedImports(paths, tempDir);  // before the lock, by which it tells whether an import runs
    auto lock = openFile(paths.cacheLock(), O_RDWR | O_CREAT, 0644);
    if (!lockCache(lock.get(), paths.cacheLock()) || importRunsElsewhere(paths)) {
        return std::nullopt;
    }
    removePullLocks(paths.pullLocks());
    return lock;
}

void removeBlob(const BlobUsage& blob) {
    if (::unlink(blob.path.c_str()) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", printable(blob.path)));
    }
}

}  // namespace

Error cacheInUse() {
    return Error("The cache is in use by 'sarus pull' or 'sarus load'", "Try again when that has ended");
}

PruneResult pruneCache(Repository& repository, const std::string& tempDir, bool dryRun) {
    const auto lock = dryRun ? std::nullopt : lockCleanCache(repository, tempDir);
    if (!dryRun && !lock) {
        throw cacheInUse();
    }
    PruneResult result;
    for (const auto& blob : blobUsage(repository.paths())) {
        if (!dryRun) {
            removeBlob(blob);
        }
        ++result.files;
        result.bytes += blob.bytes;
    }
    return result;
}

std::optional<PrunePlan> pruneToLimits(Repository& repository, const std::string& tempDir,
                                       const PruneLimits& limits, const std::set<std::string>& kept,
                                       bool dryRun) {
    const auto& paths = repository.paths();
    const auto lock = dryRun ? std::nullopt : lockCleanCache(repository, tempDir);
    if (!dryRun && !lock) {
        return std::nullopt;
    }
    auto plan =
        planPrune(imageUsage(paths, repository.list()), blobUsage(paths), limits, kept, std::time(nullptr));
    if (!dryRun) {
        std::for_each(plan.blobs.begin(), plan.blobs.end(), removeBlob);
        std::vector<ImageUsage> removed;
        for (auto& image : plan.images) {
            const bool isUnused = recordedUse(paths, image.reference) == image.lastUse;
            if (isUnused && repository.remove(image.reference)) {
                removed.push_back(std::move(image));
            }
        }
        plan.images = std::move(removed);
    }
    return plan;
}

std::optional<std::string> unpackedImagesDirectory(const std::string& tempDir) {
    const auto owned = cat(tempDir, "/sarus-", ::geteuid());
    auto cache = cat(owned, "/unpacked");
    for (const auto& directory : {owned, cache}) {
        struct stat status {};
        if (::lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != ::geteuid()) {
            return std::nullopt;
        }
    }
    return cache;
}

std::uint64_t pruneUnpackedImages(const std::string& tempDir, bool dryRun) {
    const auto directory = unpackedImagesDirectory(tempDir);
    if (!directory) {
        return 0;
    }
    const auto& cache = *directory;
    constexpr std::string_view ending = ".lock";
    std::uint64_t count = 0;
    Directory entries(cache, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        const std::string name = entry;
        if (!name.ends_with(ending)) {
            continue;
        }
        const auto lockPath = cat(cache, '/', name);
        const auto copy = lockPath.substr(0, lockPath.size() - ending.size());
        const auto lock = openFile(lockPath, O_RDWR | O_NOFOLLOW);
        const auto result = requestLock(lock.get(), LockMode::exclusive, lockPath);
        if (result == LockResult::unsupported) {
            logWarn(
                "Flock",
                cat("The filesystem of \"", printable(lockPath),
                    "\" has no file locks: the unpacked image stays, because a container may be using it"));
        }
        if (result != LockResult::held) {
            continue;
        }
        count += pathExists(copy) ? 1 : 0;
        if (!dryRun) {
            removeTree(copy);
            removeTree(cat(copy, ".partial"));
            removeTree(cat(copy, ".unpacking"));
            // Last: a process that waits for the lock looks up the name again once it has it.
            removeTree(lockPath);
        }
    }
    return count;
}

}  // namespace sarus::image
