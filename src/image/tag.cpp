#include "image/tag.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/import_session.hpp"
#include "image/interrupt.hpp"
#include "image/lookup.hpp"
#include "image/repository_scan.hpp"

namespace sarus::image {

namespace {

void copyFile(int from, const std::string& to) {
    constexpr std::size_t bufferSize = 1U << 20U;
    const auto target = openFile(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    std::string buffer(bufferSize, '\0');
    off_t done = 0;
    for (;;) {
        const auto count = ::pread(from, buffer.data(), buffer.size(), done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (checkErrno(count, "Failed to read the image") == 0) {
            return;
        }
        throwIfInterrupted();
        writeAll(target.get(), std::string_view(buffer).substr(0, static_cast<std::size_t>(count)), printable(to));
        done += count;
    }
}

/// The opened file itself gets the name, whatever happens to its path meanwhile.
void linkOrCopy(int file, const std::string& draft) {
    const auto opened = cat("/proc/self/fd/", file);
    if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, draft.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        return;
    }
    // EPERM: the filesystem has none, or the file belongs to somebody else (fs.protected_hardlinks)
    constexpr std::array linkless{EPERM, EACCES, EXDEV, EMLINK, EOPNOTSUPP, ENOSYS};
    if (std::find(linkless.begin(), linkless.end(), errno) == linkless.end()) {
        throwErrno(cat("Failed to create ", printable(draft)));
    }
    copyFile(file, draft);
}

/// What is known of the image; Sarus 1.7 recorded nothing but the index.
StoreInfo storeInfo(Repository& repository, const FoundImage& image) {
    if (auto info = parseStoreInfo(readStoredMetadata(repository.paths().metadata(image.reference)))) {
        return *info;
    }
    StoreInfo info;
    if (const auto record = repository.find(image.reference)) {
        info.registryDigest = record->registryDigest;
        info.id = record->id;
    }
    struct stat status {};
    checkErrno(::fstat(image.file.get(), &status), cat("Failed to examine ", printable(image.path)));
    info.squashfsSize = static_cast<std::uint64_t>(status.st_size);
    return info;
}

}  // namespace

void tagImage(Repository& repository, const std::string& tempDir, const ImageReference& source, const ImageReference& target) {
    if (!target.digest.empty()) {
        throw Error(cat("Cannot tag an image as '", target.full(), "': a digest is no name that can be given"),
                    "Name the target like NAME:TAG");
    }
    const InterruptScope interruptible;
    repository.recover();
    const auto image = findImage(repository.paths().root, source);
    if (image.reference == target) {
        return;
    }
    const auto info = storeInfo(repository, image);
    const ImportSession session(repository.paths(), tempDir, repository.lockTimings());
    const auto draft = repository.draftOf(target, session.suffix());
    try {
        linkOrCopy(image.file.get(), draft);
        repository.publish({target, session.suffix(), image.metadata, info});
    } catch (...) {
        repository.dropDraft(draft);
        throw;
    }
}

}  // namespace sarus::image
