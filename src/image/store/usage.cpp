#include "image/store/usage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "image/store/prune.hpp"

namespace sarus::image {

namespace {

std::uint64_t diskSpace(const struct stat& status) {
    constexpr std::uint64_t blockSize = 512;  // of st_blocks, on every filesystem
    return static_cast<std::uint64_t>(status.st_blocks) * blockSize;
}

/// 0 if there is no such file.
std::time_t modificationTime(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

/// The disk space of a directory tree. Follows no links, and counts nothing that it may not read.
std::uint64_t treeSpace(Directory entries, const std::string& path, int depth) {
    constexpr int deepest = 256;
    std::uint64_t bytes = 0;
    while (const char* name = entries.next()) {
        struct stat status {};
        if (::fstatat(entries.fd(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        bytes += diskSpace(status);
        if (S_ISDIR(status.st_mode) && depth < deepest) {
            const auto below = cat(path, '/', name);
            if (::faccessat(entries.fd(), name, R_OK | X_OK, AT_EACCESS) == 0) {
                bytes += treeSpace(Directory(entries.fd(), name, below, Missing::isEmpty), below, depth + 1);
            }
        }
    }
    return bytes;
}

}  // namespace

void recordUse(const std::string& squashfs) noexcept {
    const auto path = cat(squashfs.substr(0, squashfs.find_last_of('.')), ".used");
    if (modificationTime(path) + useAccuracy > std::time(nullptr)) {
        return;
    }
    if (::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        constexpr mode_t mode = 0644;
        UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    }
}

std::time_t recordedUse(const RepositoryPaths& paths, const ImageReference& reference) noexcept {
    const auto stored = modificationTime(paths.metadata(reference));
    return stored == 0 ? 0 : std::max(stored, modificationTime(paths.lastUse(reference)));
}

std::vector<ImageUsage> imageUsage(const RepositoryPaths& paths, const std::vector<ImageRecord>& images) {
    std::vector<ImageUsage> all;
    for (const auto& image : images) {
        const auto path = paths.squashfs(image.reference);
        struct stat squashfs {};
        const auto lastUse = recordedUse(paths, image.reference);
        if (lastUse != 0 && ::stat(path.c_str(), &squashfs) == 0) {
            all.push_back({.reference = image.reference,
                           .path = path,
                           .file = {squashfs.st_dev, squashfs.st_ino},
                           .links = squashfs.st_nlink,
                           .bytes = diskSpace(squashfs),
                           .lastUse = lastUse});
        }
    }
    return all;
}

std::vector<BlobUsage> blobUsage(const RepositoryPaths& paths) {
    std::vector<BlobUsage> all;
    Directory algorithms(paths.blobs(), Missing::isEmpty);
    while (const char* algorithm = algorithms.next()) {
        if (!algorithms.isAtDirectory()) {
            continue;
        }
        const auto path = cat(paths.blobs(), '/', algorithm);
        Directory entries(algorithms.fd(), algorithm, path, Missing::isEmpty);
        while (const char* name = entries.next()) {
            struct stat status {};
            if (::fstatat(entries.fd(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                !S_ISDIR(status.st_mode)) {
                all.push_back({cat(path, '/', name), diskSpace(status), status.st_mtime});
            }
        }
    }
    return all;
}

UnpackedUsage unpackedUsage(const std::string& tempDir) {
    const auto cache = unpackedImagesDirectory(tempDir);
    if (!cache) {
        return {};
    }
    UnpackedUsage usage;
    Directory entries(*cache, Missing::isEmpty);
    while (const char* name = entries.next()) {
        if (entries.isAtDirectory()) {
            ++usage.copies;
            const auto path = cat(*cache, '/', name);
            usage.bytes += treeSpace(Directory(path, Missing::isEmpty), path, 0);
        }
    }
    return usage;
}

}  // namespace sarus::image
