#include "image/store/import_session.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/process_tree.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::string_view workPrefix = "sarus-import-";
constexpr std::string_view lockName = "lock";
constexpr std::string_view lockDraftName = "lock-new";
constexpr std::time_t oneDay = std::time_t{24} * 3600;
constexpr std::time_t oneWeek = 7 * oneDay;

/// The suffixes S for which `directory` has an entry prefix + S + ending.
std::vector<std::string> suffixesIn(const std::string& directory, std::string_view prefix,
                                    std::string_view ending) {
    std::vector<std::string> suffixes;
    Directory entries(directory, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        std::string_view name = entry;
        if (name.size() > prefix.size() + ending.size() && name.starts_with(prefix) &&
            name.ends_with(ending)) {
            name.remove_prefix(prefix.size());
            name.remove_suffix(ending.size());
            if (isSuffix(name)) {
                suffixes.emplace_back(name);
            }
        }
    }
    return suffixes;
}

enum class ImportState { unknown, alive, dead };

/// Whether nobody holds the lock file `path`; unknown where there are no locks.
ImportState stateOfHolder(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) {
        return ImportState::unknown;
    }
    try {
        const auto result = requestLock(fd.get(), LockMode::exclusive, path);
        return result == LockResult::held   ? ImportState::dead
               : result == LockResult::busy ? ImportState::alive
                                            : ImportState::unknown;  // no locks here: age decides
    } catch (const Error&) {
        return ImportState::unknown;
    }
}

/// Whether an import of another node has this lock file, in a file system with locks of each node: that it is
/// free here means nothing.
bool isOfAnotherNode(const std::string& lock) {
    constexpr std::size_t largest = 64;
    try {
        const auto text = readFile(lock, largest);
        return !text.empty() && text != bootId();
    } catch (const Error&) {
        return false;
    }
}

/// Whether `marker` is as an import leaves it that is killed before it has its lock, or after it has removed
/// that. Layouts of other programs have files.
bool isBareMarker(const std::string& marker) {
    try {
        Directory entries(AT_FDCWD, marker.c_str(), marker, Missing::isError);
        const char* entry = entries.next();
        while (entry != nullptr && entry == lockDraftName) {
            entry = entries.next();
        }
        return entry == nullptr;
    } catch (const Error&) {
        return false;
    }
}

ImportState stateOf(const RepositoryPaths& paths, const std::string& suffix) {
    // The lock file gets its name only once it is locked: an unlocked file has lost its owner.
    const auto lock = cat(paths.layout(suffix), '/', lockName);
    auto state = stateOfHolder(lock);
    if (state == ImportState::dead && isOfAnotherNode(lock)) {
        state = ImportState::unknown;
    }
    if (state == ImportState::unknown && isBareMarker(paths.layout(suffix)) &&
        stateOfHolder(paths.cacheLock()) == ImportState::dead) {
        return ImportState::dead;  // no import runs at all
    }
    return state;
}

bool isAbandonedPath(const RepositoryPaths& paths, const std::string& suffix, const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
           isAbandoned(paths, suffix, status.st_mtime);
}

std::string workLink(const std::string& marker) {
    return cat(marker, "/work");
}

std::string absolutePath(const std::string& path) {
    if (path.starts_with('/')) {
        return path;
    }
    const std::unique_ptr<char, decltype(&::free)> directory(::getcwd(nullptr, 0), &::free);
    if (!directory) {
        throwErrno("Failed to find the working directory");
    }
    return cat(directory.get(), '/', path);
}

void removeQuietly(const std::string& path) noexcept {
    try {
        removeTree(path);
    } catch (const std::exception& error) {
        logInfo("ImageStore", error.what());  // only leftovers stay; the next command tries again
    }
}

/// The lock last: without it, what is left would be taken for another program's layout.
void removeMarker(const std::string& marker) noexcept {
    try {
        Directory entries(AT_FDCWD, marker.c_str(), marker, Missing::isEmpty);
        while (const char* entry = entries.next()) {
            if (entry != lockName) {
                removeTree(cat(marker, '/', entry));
            }
        }
        removeTree(marker);
    } catch (const std::exception& error) {
        logInfo("ImageStore", error.what());
    }
}

}  // namespace

void checkTemporaryDirectory(const std::string& tempDir) {
    if (!isDirectory(tempDir)) {
        throw Error(cat("Invalid temporary directory \"", printable(tempDir), "\""));
    }
}

ImportSession::ImportSession(const RepositoryPaths& paths, const std::string& tempDir,
                             const LockTimings& timings)
    : letters(randomLetters()), marker(paths.layout(letters)), work(cat(tempDir, '/', workPrefix, letters)) {
    checkTemporaryDirectory(tempDir);
    try {
        create(paths, tempDir, timings);
    } catch (...) {
        removeAll();
        throw;
    }
}

void ImportSession::create(const RepositoryPaths& paths, const std::string& tempDir,
                           const LockTimings& timings) {
    const auto cacheLock = paths.cacheLock();
    openFile(cacheLock, O_RDWR | O_CREAT, 0644);
    cacheInUse = lockFile(cacheLock, LockMode::shared, timings);
    checkErrno(::mkdir(marker.c_str(), 0700), cat("Failed to create directory ", printable(marker)));
    const auto lock = cat(marker, '/', lockName);
    const auto lockDraft = cat(marker, '/', lockDraftName);
    markerLock = openFile(lockDraft, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (hasLocksOfNode(marker)) {
        writeAll(markerLock.get(), bootId(), lockDraft);
    }
    if (requestLock(markerLock.get(), LockMode::exclusive, lockDraft) == LockResult::held) {
        checkErrno(::rename(lockDraft.c_str(), lock.c_str()), cat("Failed to create ", printable(lock)));
    }
    checkErrno(::symlink("../../blobs", cat(marker, "/blobs").c_str()),
               cat("Failed to create a link in ", printable(marker)));
    // Link first, directory second: the command that cleans up may use another temporary directory.
    checkErrno(::symlink(absolutePath(work).c_str(), workLink(marker).c_str()),
               cat("Failed to create a link in ", printable(marker)));
    checkErrno(::mkdir(work.c_str(), 0700),
               cat("Failed to create a directory in the temporary directory \"", printable(tempDir), "\""));
}

ImportSession::~ImportSession() {
    removeAll();
}

void ImportSession::removeAll() noexcept {
    if (!work.empty()) {
        removeQuietly(work);
    }
    markerLock.reset();  // NFS renames open files instead of removing them, so their directory would stay
    if (!marker.empty()) {
        removeMarker(marker);
    }
}

std::string ImportSession::privateLayout() const {
    return cat(work, "/layout");
}

std::vector<std::string> deadImports(const RepositoryPaths& paths) {
    std::vector<std::string> dead;
    for (const auto& suffix : suffixesIn(paths.layouts(), "image-", "")) {
        if (isAbandonedPath(paths, suffix, paths.layout(suffix))) {
            dead.push_back(suffix);
        }
    }
    return dead;
}

bool importRunsElsewhere(const RepositoryPaths& paths) {
    const auto suffixes = suffixesIn(paths.layouts(), "image-", "");
    return std::any_of(suffixes.begin(), suffixes.end(), [&](const auto& suffix) {
        const auto marker = paths.layout(suffix);
        return isOfAnotherNode(cat(marker, '/', lockName)) && !isAbandonedPath(paths, suffix, marker);
    });
}

bool isAbandoned(const RepositoryPaths& paths, const std::string& suffix, std::time_t modified) {
    const auto state = stateOf(paths, suffix);
    return state == ImportState::dead ||
           (state == ImportState::unknown && modified < std::time(nullptr) - oneDay);
}

void leaveDeadImport(const RepositoryPaths& paths) noexcept {
    try {
        const auto marker = paths.layout(randomLetters());
        createDirectories(marker, 0700);
        openFile(cat(marker, '/', lockName), O_RDWR | O_CREAT | O_EXCL, 0600);
    } catch (const std::exception& error) {
        logInfo("ImageStore", error.what());
    }
}

namespace {

/// The directory for an import's temporary files, wherever it is.
void removeWorkDirectory(const RepositoryPaths& paths, const std::string& suffix) {
    std::string path(PATH_MAX, '\0');
    const auto size = ::readlink(workLink(paths.layout(suffix)).c_str(), path.data(), path.size());
    path.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    struct stat status {};
    if (path.starts_with('/') && path.ends_with(cat('/', workPrefix, suffix)) &&
        ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid()) {
        removeQuietly(path);
    }
}

void removeOldDamagedIndices(const RepositoryPaths& paths) {
    Directory entries(paths.root, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        const auto path = cat(paths.root, '/', entry);
        struct stat status {};
        if (path.starts_with(paths.damagedIndex()) && ::lstat(path.c_str(), &status) == 0 &&
            S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
            status.st_mtime < std::time(nullptr) - oneWeek) {
            removeQuietly(path);
        }
    }
}

}  // namespace

void removeAbandonedImports(const RepositoryPaths& paths, const std::string& tempDir) {
    const auto removeIfAbandoned = [&](const std::string& directory, std::string_view prefix,
                                       std::string_view ending) {
        try {
            for (const auto& suffix : suffixesIn(directory, prefix, ending)) {
                const auto path = cat(directory, '/', prefix, suffix, ending);
                if (isAbandonedPath(paths, suffix, path)) {
                    removeQuietly(path);
                }
            }
        } catch (const Error& error) {
            logInfo("ImageStore", error.what());  // users may be unable to list the temporary directory
        }
    };
    for (const auto& suffix : deadImports(paths)) {
        removeWorkDirectory(paths, suffix);
    }
    removeOldDamagedIndices(paths);
    removeIfAbandoned(tempDir, workPrefix, "");
    removeIfAbandoned(paths.root, "metadata.json-", "");
    removeIfAbandoned(paths.root, "sarus-auth-", ".json");
    if (const auto directory = authenticationDirectory(paths); directory != paths.root) {
        removeIfAbandoned(directory, "sarus-auth-", ".json");
    }
    // Last: as long as a layout exists, it marks its import as dead.
    for (const auto& suffix : deadImports(paths)) {
        removeMarker(paths.layout(suffix));
    }
}

std::string authenticationDirectory(const RepositoryPaths& paths) {
    const auto runtimeDirectory = hostVariable("XDG_RUNTIME_DIR").value_or("");
    if (runtimeDirectory.starts_with('/') && isDirectory(runtimeDirectory)) {
        return cat(runtimeDirectory, "/sarus");
    }
    return paths.root;
}

}  // namespace sarus::image
