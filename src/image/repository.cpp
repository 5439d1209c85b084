#include "image/repository.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/import_session.hpp"
#include "image/repository_scan.hpp"

namespace sarus::image {

namespace {

std::string directoryOf(const std::string& path) {
    return path.substr(0, path.find_last_of('/'));
}

void renameFile(const std::string& from, const std::string& to) {
    checkErrno(::rename(from.c_str(), to.c_str()), cat("Failed to store ", printable(to)));
}

void removeFile(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", printable(path)));
    }
}

/// Like Sarus 1.7, whose look-ups lock it too; the lock moves from the old file to the new one.
UniqueFd writeDraft(const std::string& path, std::string_view data) {
    auto fd = openFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    try {
        writeAll(fd.get(), data, printable(path));
        checkErrno(::fsync(fd.get()), cat("Failed to flush ", printable(path)));
    } catch (...) {
        ::unlink(path.c_str());
        throw;
    }
    return fd;
}

void flushDirectory(const std::string& path) {
    const auto directory = openFile(path, O_RDONLY | O_DIRECTORY);
    checkErrno(::fsync(directory.get()), cat("Failed to flush directory ", printable(path)));
}

bool sameRecord(const ImageRecord& a, const ImageRecord& b) {
    return a.reference == b.reference && a.registryDigest == b.registryDigest && a.id == b.id && a.size == b.size &&
           a.created == b.created;
}

void eraseKey(std::vector<ImageRecord>& images, const std::string& key) {
    std::erase_if(images, [&](const ImageRecord& record) { return record.reference.uniqueKey() == key; });
}

/// Removes the drafts unless they have been released.
class Drafts {
public:
    explicit Drafts(std::vector<std::string> paths) : files(std::move(paths)) {}
    Drafts(const Drafts&) = delete;
    Drafts& operator=(const Drafts&) = delete;
    ~Drafts() {
        for (const auto& file : files) {
            ::unlink(file.c_str());
        }
    }

private:
    std::vector<std::string> files;
};

}  // namespace

Repository::Repository(std::string directory, RepositoryAccess access, const LockTimings& lockTimings)
    : names{std::move(directory)}, timings(lockTimings) {
    try {
        createMissing();
    } catch (Error& error) {
        if (access == RepositoryAccess::write) {
            error.addContext(cat("Cannot write to the image repository \"", printable(names.root), "\""));
            throw;
        }
        logDebug("ImageStore", cat("The repository is used read-only: ", error.what()));
    }
}

void Repository::createMissing() const {
    createDirectories(names.images());
    createDirectories(names.blobs());
    createDirectories(names.layouts());
    createIndexIfMissing();
    if (const int errnum = obstacle(); errnum != 0) {
        throw Error::fromErrno(cat("Failed to write in ", printable(names.root)), errnum);
    }
}

void Repository::createIndexIfMissing() const {
    if (pathExists(names.index())) {
        return;
    }
    // Complete from the first moment, and never over an index that somebody else creates at the same time.
    const auto draft = cat(names.index(), '-', randomLetters());
    const Drafts drafts({draft});
    writeDraft(draft, serializeIndex({}, names.images()));
    if (::link(draft.c_str(), names.index().c_str()) != 0 && errno != EEXIST) {
        renameFile(draft, names.index());  // a filesystem without hard links
    }
}

int Repository::obstacle() const {
    const bool free = ::access(names.root.c_str(), W_OK | X_OK) == 0 && ::access(names.images().c_str(), W_OK | X_OK) == 0;
    return free ? 0 : errno;
}

/// Reads the index; one that is damaged is kept beside (if possible), never overwritten.
Index Repository::load() {
    Index index;
    try {
        index = parseIndex(readFile(names.index(), 256U << 20U));
    } catch (const Error& error) {
        if (error.errnum() != ENOENT) {
            throw;
        }
        index.damaged = true;
        return index;
    }
    if (index.damaged) {
        const auto kept = cat(names.index(), ".damaged-", formatLocalTime(std::time(nullptr)));
        const bool moved = writable() && ::link(names.index().c_str(), kept.c_str()) == 0;
        logWarn("ImageStore", cat("The index \"", printable(names.index()), "\" is damaged: it is rebuilt from the images",
                                  moved ? cat("; the old one is kept as \"", printable(kept), "\"") : std::string()));
    }
    return index;
}

void Repository::writeIndex(const std::vector<ImageRecord>& images, UniqueFd& lock) const {
    const auto draft = cat(names.index(), '-', randomLetters());
    const Drafts drafts({draft});
    auto newLock = writeDraft(draft, serializeIndex(images, names.images()));
    try {
        tryLock(newLock.get(), LockMode::exclusive);
    } catch (const Error& error) {
        if (!isLockUnsupported(error.errnum())) {
            throw;
        }
    }
    renameFile(draft, names.index());
    flushDirectory(names.root);
    lock = std::move(newLock);
}

/// The known images whose files exist, in their order, and then those which are only on disk. Both files of an image that
/// lacks one of them go. Drafts of dead imports are published, if their squashfs file was, or removed.
std::vector<ImageRecord> Repository::reconciled(const std::vector<ImageRecord>& known, bool refreshAll) {
    auto scan = scanImages(names);
    const bool change = writable();
    for (const auto& draft : scan.temporaries) {
        if (!change || !isAbandoned(names, draft.suffix, draft.modified)) {
            continue;
        }
        const auto squashfsDraft = [&] {
            return cat(draft.finalPath.substr(0, draft.finalPath.size() - 5), ".squashfs-", draft.suffix);
        };
        if (draft.metadata && !pathExists(squashfsDraft())) {
            renameFile(draft.path, draft.finalPath);
            const auto key = draft.finalPath.substr(names.images().size() + 1);
            scan.images[key.substr(0, key.size() - 5)].metadata = true;
            refreshAll = true;
        }
    }
    for (const auto& draft : scan.temporaries) {
        if (change && pathExists(draft.path) && isAbandoned(names, draft.suffix, draft.modified)) {
            removeFile(draft.path);
        }
    }
    std::vector<ImageRecord> images;
    const auto keep = [&](const ImageRecord& record) {
        if (!refreshAll) {
            return record;
        }
        auto fresh = recordOfFiles(names, record.reference);
        const bool unchanged = fresh.size == record.size && (fresh.id.empty() || fresh.id == record.id);
        return unchanged ? record : fresh;
    };
    for (const auto& record : known) {
        const auto found = scan.images.find(record.reference.uniqueKey());
        if (found != scan.images.end() && found->second.complete()) {
            images.push_back(keep(record));
            scan.images.erase(found);
        } else if (found != scan.images.end() && change) {
            logInfo("ImageStore", cat("Removing incomplete image ", record.reference.full()));
            removeFile(names.squashfs(record.reference));
            removeFile(names.metadata(record.reference));
        }
    }
    for (const auto& [key, files] : scan.images) {
        if (files.complete()) {
            images.push_back(recordOfFiles(names, *referenceOfKey(key)));
        }
    }
    return images;
}

UniqueFd Repository::lockAndRepair(std::vector<ImageRecord>& images) {
    createIndexIfMissing();
    auto lock = lockFile(names.index(), LockMode::exclusive, timings);
    const auto index = load();
    images = reconciled(index.images, !deadImports(names).empty());
    if (index.damaged || !std::equal(images.begin(), images.end(), index.images.begin(), index.images.end(), sameRecord)) {
        writeIndex(images, lock);
    }
    return lock;
}

std::vector<ImageRecord> Repository::list() {
    if (!writable()) {
        return isDirectory(names.images()) ? reconciled(load().images, false) : std::vector<ImageRecord>{};
    }
    std::vector<ImageRecord> images;
    lockAndRepair(images);
    return images;
}

void Repository::recover() {
    if (writable() && !deadImports(names).empty()) {
        std::vector<ImageRecord> images;
        lockAndRepair(images);
    }
}

std::optional<ImageRecord> Repository::find(const ImageReference& reference) {
    const auto key = reference.uniqueKey();
    const auto lock = lockFile(names.index(), LockMode::shared, timings);
    const auto index = parseIndex(readFile(names.index(), 256U << 20U));
    for (const auto& record : index.images) {
        if (record.reference.uniqueKey() == key && pathExists(names.squashfs(reference)) &&
            pathExists(names.metadata(reference))) {
            return record;
        }
    }
    return std::nullopt;
}

std::string Repository::draftOf(const ImageReference& reference, const std::string& suffix) const {
    auto path = cat(names.squashfs(reference), '-', suffix);
    createDirectories(directoryOf(path));
    return path;
}

std::string Repository::reserveDraft(const ImageReference& reference, const std::string& suffix) const {
    constexpr int attempts = 100;
    for (int attempt = 1;; ++attempt) {
        try {
            auto path = draftOf(reference, suffix);
            openFile(path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644);
            return path;
        } catch (const Error& error) {  // somebody else has just removed a directory, which was empty
            if (error.errnum() != ENOENT || attempt == attempts) {
                throw;
            }
        }
    }
}

void Repository::dropDraft(const std::string& draft) const noexcept {
    ::unlink(draft.c_str());
    removeEmptyDirectories(draft);
}

void Repository::removeEmptyDirectories(const std::string& path) const {
    const auto top = names.images();
    for (auto directory = directoryOf(path); directory.size() > top.size() && directory.starts_with(top);
         directory = directoryOf(directory)) {
        if (::rmdir(directory.c_str()) != 0) {
            return;
        }
    }
}

void Repository::publish(const NewImage& image) {
    const auto squashfsDraft = draftOf(image.reference, image.suffix);
    const auto metadataDraft = cat(names.metadata(image.reference), '-', image.suffix);
    const auto indexDraft = cat(names.index(), '-', image.suffix);
    const auto directory = directoryOf(squashfsDraft);
    const Drafts drafts({metadataDraft, squashfsDraft, indexDraft});
    ImageRecord record{image.reference, image.info.registryDigest, image.info.id, formatSize(image.info.squashfsSize),
                       formatLocalTime(std::time(nullptr))};

    std::vector<ImageRecord> images;
    const auto lock = lockAndRepair(images);
    eraseKey(images, image.reference.uniqueKey());
    images.push_back(record);
    // Whatever needs space comes before the first rename, so that a full disk cannot leave half of an image.
    writeDraft(metadataDraft, serializeStoredMetadata(image.metadata, image.info));
    const auto newLock = writeDraft(indexDraft, serializeIndex(images, names.images()));
    checkErrno(::fsync(openFile(squashfsDraft, O_RDONLY).get()), cat("Failed to flush ", printable(squashfsDraft)));
    try {
        tryLock(newLock.get(), LockMode::exclusive);
    } catch (const Error& error) {
        if (!isLockUnsupported(error.errnum())) {
            throw;
        }
    }
    renameFile(squashfsDraft, names.squashfs(image.reference));
    renameFile(metadataDraft, names.metadata(image.reference));
    flushDirectory(directory);
    renameFile(indexDraft, names.index());
    flushDirectory(names.root);
}

bool Repository::remove(const ImageReference& reference) {
    std::vector<ImageRecord> images;
    auto lock = lockAndRepair(images);
    const auto key = reference.uniqueKey();
    const auto isMeant = [&](const ImageRecord& record) { return record.reference.uniqueKey() == key; };
    if (std::none_of(images.begin(), images.end(), isMeant)) {
        return false;
    }
    removeFile(names.squashfs(reference));
    removeFile(names.metadata(reference));
    removeEmptyDirectories(names.squashfs(reference));
    eraseKey(images, key);
    writeIndex(images, lock);
    return true;
}

}  // namespace sarus::image
