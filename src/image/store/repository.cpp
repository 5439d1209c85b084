#include "image/store/repository.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/store/import_session.hpp"
#include "image/store/repository_scan.hpp"
#include "image/store/stored_image.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image {

namespace {

void renameFile(const std::string& from, const std::string& to) {
    checkErrno(::rename(from.c_str(), to.c_str()), cat("Failed to store ", printable(to)));
}

void removeFile(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        throwErrno(cat("Failed to remove ", printable(path)));
    }
}

/// Locked as in Sarus 1.7, whose look-ups lock it too; the lock moves from the old file to the new one.
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

void warnIfWritableByAll(const std::string& directory) {
    struct stat status {};
    if (::stat(directory.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0) {
        logWarn("ImageStore", cat("Every user can change the images in \"", printable(directory),
                                  "\": run 'chmod o-w ", printable(directory), "'"));
    }
}

/// True also if unknown.
bool isFile(const std::string& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? !S_ISDIR(status.st_mode) : errno != ENOENT;
}

/// A rename over a directory fails, and we create no directory there.
void refuseDirectory(const std::string& path) {
    if (isDirectory(path)) {
        throw Error(cat("\"", printable(path), "\" is a directory"),
                    "Remove it: a file of an image belongs there");
    }
}

Index readIndex(const std::string& path) {
    const auto file = openFile(path, O_RDONLY | O_NONBLOCK);  // a FIFO must not block
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", printable(path)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("\"", printable(path), "\" is not a regular file"),
                    "Remove it; it is made anew from the images");
    }
    return parseIndex(readAll(file.get(), 256U << 20U, printable(path)));
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
    void keep(const std::string& path) { std::erase(files, path); }
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
    warnIfWritableByAll(names.root);
    warnIfWritableByAll(names.images());
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
    // Complete from the start, and never over an index that another process creates at the same time.
    const auto draft = cat(names.index(), '-', randomLetters());
    const Drafts drafts({draft});
    writeDraft(draft, serializeIndex({}, names.images()));
    if (::link(draft.c_str(), names.index().c_str()) != 0 && errno != EEXIST) {
        renameFile(draft, names.index());  // a filesystem without hard links
    }
}

int Repository::obstacle() const {
    const bool free =
        ::access(names.root.c_str(), W_OK | X_OK) == 0 && ::access(names.images().c_str(), W_OK | X_OK) == 0;
    return free ? 0 : errno;
}

/// A missing index counts as damaged.
Index Repository::load() const {
    try {
        return readIndex(names.index());
    } catch (const Error& error) {
        if (error.errnum() != ENOENT) {
            throw;
        }
        return {.images = {}, .damaged = true};
    }
}

/// Keeps a damaged index under another name (if possible), which is removed after a week.
void Repository::reportDamage() const {
    if (pathExists(names.index())) {
        const auto kept = cat(names.damagedIndex(), formatLocalTime(std::time(nullptr)));
        const bool moved = writable() && ::link(names.index().c_str(), kept.c_str()) == 0;
        if (moved) {
            ::utimensat(AT_FDCWD, kept.c_str(), nullptr, 0);  // the time when the damage was found
        }
        logWarn("ImageStore",
                cat("The index \"", printable(names.index()), "\" is damaged: it is rebuilt from the images",
                    moved ? cat("; the old one is kept as \"", printable(kept), "\"") : std::string()));
    }
}

void Repository::writeIndex(const std::vector<ImageRecord>& images, UniqueFd& lock) const {
    const auto draft = cat(names.index(), '-', randomLetters());
    const Drafts drafts({draft});
    auto newLock = writeDraft(draft, serializeIndex(images, names.images()));
    requestLock(newLock.get(), LockMode::exclusive, draft);  // who waits for the old file looks again
    renameFile(draft, names.index());
    flushDirectory(names.root);
    lock = std::move(newLock);
}

/// Completes publications interrupted between the two renames, if the squashfs file is in place and its
/// `.meta` draft is not renamed yet. Removes the drafts of dead imports.
void Repository::settleDrafts(RepositoryScan& scan) const {
    for (const auto& draft : scan.temporaries) {
        if (draft.metadata && completesImage(draft)) {
            renameFile(draft.path, draft.finalPath);
            scan.images[draft.key(names)].metadata = true;
        }
    }
    for (const auto& draft : scan.temporaries) {
        // We create drafts of metadata, for a moment only: without their import they are useless.
        const bool forgotten = draft.metadata && !pathExists(names.layout(draft.suffix));
        if (forgotten || isAbandoned(names, draft.suffix, draft.modified)) {
            removeFile(draft.path);
        }
    }
}

/// Removes the rest of an image that lacks one of its files.
void Repository::removeIncomplete(const ImageReference& reference) const {
    logInfo("ImageStore", cat("Removing incomplete image ", reference.full()));
    try {
        refuseDirectory(names.squashfs(reference));
        refuseDirectory(names.metadata(reference));
        removeFile(names.squashfs(reference));
        removeFile(names.metadata(reference));
        removeFile(names.lastUse(reference));
    } catch (const Error& error) {
        logWarn("ImageStore", cat("The image ", reference.full(), " is incomplete: ", error.what()));
    }
}

/// The known images whose files exist, in their order, and then those that exist only on disk.
std::vector<ImageRecord> Repository::reconciled(const std::vector<ImageRecord>& known, RepositoryScan scan,
                                                Repair repair, bool refreshAll) const {
    std::vector<ImageRecord> images;
    const auto keep = [&](const ImageRecord& record) {
        if (!refreshAll) {
            return record;
        }
        auto fresh = recordOfFiles(names, record.reference);
        const bool unchanged =
            fresh.size.empty() ||
            (fresh.size == record.size && (fresh.id.empty() || fresh.id == record.id) &&
             (fresh.platform.empty() || fresh.platform == record.platform) &&
             (fresh.registryDigest.empty() || fresh.registryDigest == record.registryDigest));
        return unchanged ? record : fresh;
    };
    for (const auto& record : known) {
        const auto found = scan.images.find(record.reference.uniqueKey());
        if (found != scan.images.end() && found->second.complete()) {
            images.push_back(keep(record));
            scan.images.erase(found);
        } else if (found != scan.images.end() && repair == Repair::yes) {
            // The listing of a shared directory may be out of date.
            if (isFile(names.squashfs(record.reference)) && isFile(names.metadata(record.reference))) {
                images.push_back(record);
            } else {
                removeIncomplete(record.reference);
            }
        }
    }
    for (const auto& [key, files] : scan.images) {
        if (files.complete()) {
            images.push_back(recordOfFiles(names, *referenceOfKey(key)));
        }
    }
    return images;
}

std::vector<ImageRecord> Repository::repair(UniqueFd& lock) {
    const auto index = load();
    if (index.damaged) {
        reportDamage();
    }
    auto scan = scanImages(names);
    const bool interrupted = wasInterrupted(scan);
    settleDrafts(scan);
    auto images = reconciled(index.images, std::move(scan), Repair::yes, interrupted);
    if (index.damaged || images != index.images) {
        writeIndex(images, lock);
    }
    return images;
}

/// Whether the index may be out of date: drafts of metadata exist only for a moment, while the lock is held.
bool Repository::wasInterrupted(const RepositoryScan& scan) const {
    return !deadImports(names).empty() ||
           std::any_of(scan.temporaries.begin(), scan.temporaries.end(),
                       [](const TemporaryFile& draft) { return draft.metadata; });
}

UniqueFd Repository::lockAndRepair(std::vector<ImageRecord>& images) {
    createIndexIfMissing();
    auto lock = lockFile(names.index(), LockMode::exclusive, timings);
    images = repair(lock);
    return lock;
}

std::vector<ImageRecord> Repository::list() {
    if (!isDirectory(names.images())) {
        return {};
    }
    const auto index = load();
    const auto scan = scanImages(names);
    const bool interrupted = wasInterrupted(scan);
    auto images = reconciled(index.images, scan, Repair::no, interrupted);
    if (!writable()) {
        if (index.damaged) {
            reportDamage();
        }
        return images;
    }
    const bool rubbish = std::any_of(
        scan.temporaries.begin(), scan.temporaries.end(),
        [&](const TemporaryFile& draft) { return isAbandoned(names, draft.suffix, draft.modified); });
    if (!index.damaged && !interrupted && !rubbish && images == index.images) {
        return images;
    }
    // The holder of the lock is changing the repository, and has repaired it before: no need to wait.
    createIndexIfMissing();
    if (auto lock = tryLockFile(names.index(), LockMode::exclusive)) {
        return repair(*lock);
    }
    settled = false;
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
    std::optional<StoredImage> image;
    try {
        image = openStoredImage(names, reference);
    } catch (const Error& error) {
        logInfo("ImageStore", error.what());  // a damaged image will be replaced
    }
    if (!image) {
        return std::nullopt;
    }
    for (auto& record : readIndex(names.index()).images) {
        if (record.reference.uniqueKey() == key) {
            if (image->info) {  // the index may be out of date
                update(record, *image->info);
            }
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
        } catch (const Error& error) {  // another process has just removed the empty directory
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
    Drafts drafts({metadataDraft, squashfsDraft, indexDraft});
    ImageRecord record{image.reference, "", "", formatSize(image.info.squashfsSize),
                       formatLocalTime(std::time(nullptr))};
    update(record, image.info);

    auto info = image.info;
    {
        const auto squashfs = openFile(squashfsDraft, O_RDONLY);
        info.identity = squashfs::squashfsIdentity(squashfs.get(), printable(squashfsDraft));
        // It may take minutes, so others must not wait for it.
        checkErrno(::fsync(squashfs.get()), cat("Failed to flush ", printable(squashfsDraft)));
    }

    std::vector<ImageRecord> images;
    const auto lock = lockAndRepair(images);
    eraseKey(images, image.reference.uniqueKey());
    images.push_back(record);
    refuseDirectory(names.squashfs(image.reference));
    refuseDirectory(names.metadata(image.reference));
    // Everything that needs space comes before the first rename, so that a full disk cannot leave half an
    // image.
    const auto metadata = serializeStoredMetadata(image.metadata, info);
    writeDraft(metadataDraft, metadata);
    const auto newLock = writeDraft(indexDraft, serializeIndex(images, names.images()));
    requestLock(newLock.get(), LockMode::exclusive, indexDraft);
    renameFile(squashfsDraft, names.squashfs(image.reference));
    // From here on readers find the new image, if necessary with the draft of its metadata.
    try {
        renameFile(metadataDraft, names.metadata(image.reference));
        flushDirectory(directory);
        renameFile(indexDraft, names.index());
        flushDirectory(names.root);
    } catch (const Error& error) {
        if (!isInForce(image.reference, metadata)) {
            throw;
        }
        drafts.keep(metadataDraft);
        leaveDeadImport(names);
        logWarn("ImageStore", cat("The image ", image.reference.full(),
                                  " is stored, but not yet completely: ", error.what(),
                                  ". The next command that changes the repository completes it"));
    }
}

/// After a failure following the first rename. False only if the previous squashfs file has the same bytes
/// and still matches its own metadata.
bool Repository::isInForce(const ImageReference& reference, const std::string& metadata) const {
    try {
        const auto image = openStoredImage(names, reference);
        return !image || image->metadata == metadata;
    } catch (const Error&) {
        return true;  // other readers fail in the same way, and the files stay
    }
}

bool Repository::completesImage(const TemporaryFile& draft) const {
    const auto reference = referenceOfKey(draft.key(names));
    if (!reference) {
        return false;
    }
    try {
        const auto image = openStoredImage(names, *reference);
        return image && image->draft == draft.path;
    } catch (const Error& error) {
        logInfo("ImageStore", error.what());  // the image is damaged: its users get the error
        return false;
    }
}

bool Repository::remove(const ImageReference& reference) {
    std::vector<ImageRecord> images;
    auto lock = lockAndRepair(images);
    const auto key = reference.uniqueKey();
    const auto isMeant = [&](const ImageRecord& record) { return record.reference.uniqueKey() == key; };
    if (std::none_of(images.begin(), images.end(), isMeant)) {
        refuseDirectory(names.squashfs(reference));
        return false;
    }
    removeFile(names.squashfs(reference));
    // The image no longer exists, whatever happens next.
    try {
        removeFile(names.metadata(reference));
        removeFile(names.lastUse(reference));
        removeEmptyDirectories(names.squashfs(reference));
        eraseKey(images, key);
        writeIndex(images, lock);
    } catch (const Error& error) {
        logWarn("ImageStore",
                cat("The image ", reference.full(), " is removed, but not yet completely: ", error.what(),
                    ". The next command that changes the repository completes it"));
    }
    return true;
}

}  // namespace sarus::image
