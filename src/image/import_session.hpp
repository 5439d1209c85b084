#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "image/index_lock.hpp"
#include "image/repository_paths.hpp"

namespace sarus::image {

/// Throws Error 'Invalid temporary directory "<dir>"' if it is no directory.
void checkTemporaryDirectory(const std::string& tempDir);

/// Everything temporary of one pull or load. While it lives, `cache/ociImages/image-SUFFIX/lock` is locked, so that other
/// commands can tell what belongs to a running import from what a killed one has left behind. The destructor removes it all.
class ImportSession {
public:
    /// Throws Error as checkTemporaryDirectory does.
    ImportSession(const RepositoryPaths& paths, const std::string& tempDir, const LockTimings& timings);
    ~ImportSession();
    ImportSession(const ImportSession&) = delete;
    ImportSession& operator=(const ImportSession&) = delete;

    const std::string& suffix() const noexcept { return letters; }
    /// For what is spooled: private, below tempDir.
    const std::string& workDirectory() const noexcept { return work; }
    /// An OCI layout which shares its blobs with all pulls of the repository.
    std::string cachedLayout() const { return marker; }
    /// An OCI layout of its own, below tempDir.
    std::string privateLayout() const;

private:
    void create(const RepositoryPaths& paths, const std::string& tempDir, const LockTimings& timings);
    void removeAll() noexcept;

    std::string letters;
    std::string marker;
    std::string work;
    UniqueFd cacheInUse;
    UniqueFd markerLock;
};

/// The suffixes of imports that were killed.
std::vector<std::string> deadImports(const RepositoryPaths& paths);

/// Whether something temporary which carries `suffix` can be removed: its import is dead, or nobody knows the import and it
/// is older than a day (other programs' files do not say whether they are still needed).
bool isAbandoned(const RepositoryPaths& paths, const std::string& suffix, std::time_t modified);

/// Removes what killed imports left outside of the images directory: layouts, work directories below `tempDir`, authentication
/// files, index drafts. The files in the images directory must have been dealt with before.
void removeAbandonedImports(const RepositoryPaths& paths, const std::string& tempDir);

/// Where authentication files are kept: `$XDG_RUNTIME_DIR/sarus` if that variable names a directory, else the repository.
std::string authenticationDirectory(const RepositoryPaths& paths);

}  // namespace sarus::image
