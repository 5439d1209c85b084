#pragma once

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "image/store/index_lock.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::image {

/// Throws Error 'Invalid temporary directory "<dir>"' if it is not a directory.
void checkTemporaryDirectory(const std::string& tempDir);

/// The temporary files of one pull or load. While it lives, `cache/ociImages/image-SUFFIX/lock` is locked, so
/// that other commands can tell a running import from leftovers of a killed one. The destructor removes all
/// of it.
class ImportSession {
public:
    /// Throws Error as checkTemporaryDirectory does.
    ImportSession(const RepositoryPaths& paths, const std::string& tempDir, const LockTimings& timings);
    ~ImportSession();
    ImportSession(const ImportSession&) = delete;
    ImportSession& operator=(const ImportSession&) = delete;

    const std::string& suffix() const noexcept { return letters; }
    std::chrono::steady_clock::time_point begin() const noexcept { return started; }
    /// For temporary files: private, below tempDir.
    const std::string& workDirectory() const noexcept { return work; }
    /// An OCI layout that shares its blobs with all pulls of the repository.
    std::string cachedLayout() const { return marker; }
    /// An OCI layout of its own, below tempDir.
    std::string privateLayout() const;

private:
    void create(const RepositoryPaths& paths, const std::string& tempDir, const LockTimings& timings);
    void removeAll() noexcept;

    std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
    std::string letters;
    std::string marker;
    std::string work;
    UniqueFd cacheInUse;
    UniqueFd markerLock;
};

/// Leaves the traces of a killed import, so that the next command examines all images again: the index may be
/// out of date. Ignores failures.
void leaveDeadImport(const RepositoryPaths& paths) noexcept;

/// The suffixes of imports that were killed.
std::vector<std::string> deadImports(const RepositoryPaths& paths);

/// Whether a temporary entry with `suffix` can be removed: its import is dead, or the import is unknown and
/// the entry is older than a day (other programs' files do not show whether they are still needed).
bool isAbandoned(const RepositoryPaths& paths, const std::string& suffix, std::time_t modified);

/// Whether an import of another node may be running, where locks are those of each node.
bool importRunsElsewhere(const RepositoryPaths& paths);

/// Removes leftovers of killed imports outside the images directory: layouts, their work directories (and
/// others below `tempDir`), authentication files, index drafts; and damaged indices older than a week. Handle
/// the files in the images directory first.
void removeAbandonedImports(const RepositoryPaths& paths, const std::string& tempDir);

/// The directory for authentication files: `$XDG_RUNTIME_DIR/sarus` if that variable names a directory,
/// otherwise the repository.
std::string authenticationDirectory(const RepositoryPaths& paths);

}  // namespace sarus::image
