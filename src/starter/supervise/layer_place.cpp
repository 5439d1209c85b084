#include "starter/supervise/layer_place.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr const char* hint =
    "Set SARUS_CONTAINER_DIR to a directory of yours on a local filesystem such as ext4 or XFS, or unset it";

Error unusable(const std::string& directory, const std::string& why) {
    return Error(cat("Failed to keep the container in ", printable(directory), ": ", why), hint);
}

/// The user's directory (O_PATH), never through links such as /proc/self/fd/3, which would lead to what the
/// starter has open. To be called as the user: a file server of the user need not answer.
UniqueFd openChosen(const std::string& directory, struct stat& status) {
    const auto host = openFile("/", O_PATH | O_DIRECTORY);
    auto opened = tryOpenInRoot(host.get(), directory);
    struct statfs filesystem {};
    if (!opened || ::fstat(opened.get(), &status) != 0 || ::fstatfs(opened.get(), &filesystem) != 0) {
        throw Error::fromErrno(cat("Failed to open ", printable(directory)), errno, hint);
    }
    if (!S_ISDIR(status.st_mode)) {
        throw unusable(directory, "it is not a directory");
    }
    if (filesystem.f_type == FUSE_SUPER_MAGIC) {
        throw unusable(directory, "it is on a FUSE filesystem");
    }
    return opened;
}

/// As the user. What is mounted on the entry can only be the user's.
UniqueFd openEntry(int parent, const struct stat& parentStatus, const LayerPlace& place,
                   struct stat& status) {
    auto entry = openFileAt(parent, place.name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    checkErrno(::fstat(entry.get(), &status), cat("Failed to examine ", printable(place.path())));
    if (status.st_dev != parentStatus.st_dev) {
        throw unusable(place.directory, cat(printable(place.name), " there is a mount"));
    }
    return entry;
}

void give(int entry, const LayerPlace& place, uid_t owner, gid_t group) {
    checkErrno(::fchownat(entry, "", owner, group, AT_EMPTY_PATH),
               cat("Failed to keep the container in ", printable(place.path())));
}

}  // namespace

std::string LayerPlace::path() const {
    return cat(directory, '/', name);
}

LayerPlace chooseLayerPlace(const Credentials& credentials, const std::string& directory,
                            const std::string& container) {
    struct stat status {};
    credentials.asUser([&] { openChosen(directory, status); });
    if (status.st_uid != credentials.ownerUid()) {
        throw unusable(directory, "it is not yours");
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw unusable(directory, "others can write to it");
    }
    return {.directory = directory, .name = cat("sarus-", container, '-', randomLetters())};
}

UniqueFd makeLayerPlace(const Credentials& credentials, LayerPlace& place) {
    struct stat status {};
    auto entry = credentials.asUser([&] {
        struct stat parentStatus {};
        const auto parent = openChosen(place.directory, parentStatus);
        if (::mkdirat(parent.get(), place.name.c_str(), 0700) != 0) {
            throw Error::fromErrno(cat("Failed to create ", printable(place.path())), errno, hint);
        }
        return openEntry(parent.get(), parentStatus, place, status);
    });
    if (credentials.privileged()) {
        // The user may have put another directory in its place, or something into it, until now.
        give(entry.get(), place, 0, 0);
        auto entries = Directory(openFileAt(entry.get(), ".", O_RDONLY | O_DIRECTORY), place.path());
        checkErrno(::fchmod(entries.fd(), 0700), cat("Failed to close ", printable(place.path())));
        if (entries.next() != nullptr) {
            give(entry.get(), place, credentials.uid(), credentials.gid());
            throw unusable(place.directory, cat(printable(place.name), " there has been replaced"));
        }
    }
    place.inode = status.st_ino;
    return entry;
}

UniqueFd openLayerPlace(const Credentials& credentials, const LayerPlace& place) {
    struct stat status {};
    auto entry = credentials.asUser([&] {
        struct stat parentStatus {};
        const auto parent = openChosen(place.directory, parentStatus);
        return openEntry(parent.get(), parentStatus, place, status);
    });
    const uid_t owner = credentials.privileged() ? 0 : credentials.ownerUid();
    if (status.st_ino != place.inode || status.st_uid != owner || (status.st_mode & 077) != 0) {
        throw Error::fromErrno(cat("Failed to open ", printable(place.path())), ENOENT);
    }
    return entry;
}

void removeLayerPlace(const Credentials& credentials, const LayerPlace& place) {
    credentials.asUser([&] {
        struct stat status {};
        const auto parent = openChosen(place.directory, status);
        if (::unlinkat(parent.get(), place.name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
            throwErrno(cat("Failed to remove ", printable(place.path())));
        }
    });
}

std::string describeLayerPlace(const LayerPlace& place) {
    return cat(place.inode, '\n', place.name, '\n', place.directory);
}

LayerPlace parseLayerPlace(const std::string& text, const std::string& path) {
    const auto lines = split(text, '\n');
    const auto inode = parseNumber(lines.front());
    if (!inode || lines.size() != 3) {
        throw Error(cat(printable(path), " does not say where the files of the container are"));
    }
    return {.directory = lines[2], .name = lines[1], .inode = *inode};
}

}  // namespace sarus::starter
