#include "image/store/link_image.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

void copyFile(int from, const std::string& to) {
    constexpr std::size_t bufferSize = 1U << 20U;
    const auto target = openFile(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
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
        writeAll(target.get(), std::string_view(buffer).substr(0, static_cast<std::size_t>(count)),
                 printable(to));
        done += count;
    }
}

/// Links the open file itself, whatever happens to its path meanwhile. False if there can be no link.
bool linkFile(int file, const std::string& path) {
    const auto opened = cat("/proc/self/fd/", file);
    if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        return true;
    }
    // EPERM: hard links are not supported, or the file belongs to another user (fs.protected_hardlinks).
    // ENOENT: its last name has just been removed, or the directory, which then fails again.
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
            copyFile(squashfs, repository.reserveDraft(image.reference, image.suffix));
        }
        repository.publish(image);
    } catch (...) {
        repository.dropDraft(draft);
        throw;
    }
}

}  // namespace sarus::image
