#include "image/store/link_image.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

bool hasNames(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

/// Links the open file itself, whatever happens to its path meanwhile. False if there can be no link.
bool linkFile(int file, const std::string& path) {
    const auto opened = descriptorPath(file);
    constexpr int attempts = 100;
    for (int attempt = 1;; ++attempt) {
        createDirectories(directoryOf(path));
        if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) {
            return true;
        }
        if (errno != ENOENT || !hasNames(file) || attempt == attempts) {
            break;  // otherwise another process has just removed the empty directory
        }
    }
    // EPERM: hard links are not supported, or the file belongs to another user (fs.protected_hardlinks).
    // ENOENT: its last name has just been removed.
    constexpr std::array linkless{EPERM, EACCES, EXDEV, EMLINK, EOPNOTSUPP, ENOSYS, ENOENT};
    if (std::find(linkless.begin(), linkless.end(), errno) == linkless.end()) {
        throwErrno(cat("Failed to create ", printable(path)));
    }
    return false;
}

}  // namespace

void publishLink(Repository& repository, int squashfs, const NewImage& image) {
    const auto draft = repository.draftOf(image.reference, image.suffix);
    try {
        if (!linkFile(squashfs, draft)) {
            // The empty file keeps others from removing the directory.
            const auto copy = repository.reserveDraft(image.reference, image.suffix);
            const auto file = openFile(copy, O_WRONLY | O_TRUNC | O_NOFOLLOW);
            copyContent(squashfs, file.get(), printable(copy));
        }
        repository.publish(image);
    } catch (...) {
        repository.dropDraft(draft);
        throw;
    }
}

}  // namespace sarus::image
