#include "image/broadcast/local_copy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/fsverity.hpp"
#include "base/log.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "image/import/space.hpp"
#include "image/store/file_digest.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image {

namespace {

constexpr std::string_view partialMark = ".partial-";
constexpr std::string_view abandoned =
    "abandoned";  // in the place of a partial copy's letters, which are more

std::string nameOf(const StoreInfo& info) {
    return cat(info.squashfsDigest.substr(fsverity::digestPrefix.size()), ".squashfs");
}

std::string partialName(const StoreInfo& info, const std::string& suffix) {
    return cat(nameOf(info), partialMark, suffix);
}

/// Opens the directory, never through a link at its end; empty if there is none. Throws Error unless it is
/// the caller's alone.
UniqueFd openDirectory(const std::string& path) {
    UniqueFd directory(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) {
        return directory;
    }
    struct stat status {};
    checkErrno(::fstat(directory.get(), &status), cat("Failed to examine ", printable(path)));
    if (status.st_uid != ::geteuid()) {
        throw Error(cat(printable(path), " belongs to another user (uid ", status.st_uid, ")"));
    }
    if (!S_ISDIR(status.st_mode) || (status.st_mode & 077) != 0) {
        throw Error(cat(printable(path), " is not a private directory"));
    }
    return directory;
}

/// Whether the open file can be taken for one that the caller's broadcast has written.
bool isOwnFile(int fd, std::uint64_t size) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
           status.st_nlink == 1 && (status.st_mode & 022) == 0 &&
           static_cast<std::uint64_t>(status.st_size) == size;
}

UniqueFd openEntry(int directory, const std::string& name) {
    return UniqueFd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

std::optional<LocalCopy> findIn(int directory, const std::string& path, const StoreInfo& info) {
    LocalCopy copy{openEntry(directory, nameOf(info)), cat(path, '/', nameOf(info))};
    if (!copy.file || !isOwnFile(copy.file.get(), info.squashfsSize) ||
        squashfs::squashfsIdentity(copy.file.get(), printable(copy.path)) != info.identity) {
        return std::nullopt;
    }
    return copy;
}

void removePartialCopies(int directory, const std::string& path, const StoreInfo& info) {
    const auto beginning = cat(nameOf(info), partialMark);
    auto entries = Directory::of(directory, path);
    while (const char* name = entries.next()) {
        if (std::string_view(name).starts_with(beginning)) {
            ::unlinkat(directory, name, 0);
        }
    }
}

/// What changes while a copy is written.
std::string progressOf(const std::string& path) {
    std::string text;
    Directory entries(AT_FDCWD, path.c_str(), path, Missing::isEmpty);
    while (const char* name = entries.next()) {
        struct stat status {};
        if (::fstatat(entries.fd(), name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            text += cat(name, ' ', static_cast<std::uint64_t>(status.st_blocks), ' ',
                        static_cast<std::int64_t>(status.st_mtim.tv_sec), '\n');
        }
    }
    return text;
}

struct CopySearch {
    std::optional<LocalCopy> copy{};
    bool mayCome = false;
};

CopySearch look(const std::string& path, const StoreInfo& info) {
    if (!fsverity::isDigest(info.squashfsDigest)) {
        return {};
    }
    try {
        const auto directory = openDirectory(path);
        if (!directory) {
            return {.mayCome = true};
        }
        if (auto copy = findIn(directory.get(), path, info)) {
            return {.copy = std::move(copy)};
        }
        const auto mark = partialName(info, std::string(abandoned));
        return {.mayCome = ::faccessat(directory.get(), mark.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0};
    } catch (const Error& error) {
        logWarn("CLI", cat("Not using copies of images on this node: ", error.what()));
        return {};
    }
}

}  // namespace

std::string copiesDirectory(const std::string& parent, std::uint64_t job) {
    return cat(parent, "/sarus-", ::geteuid(), "-job-", job);
}

void removeCopies(const std::string& directory) {
    if (openDirectory(directory)) {
        removeTree(directory);
    }
}

std::optional<LocalCopy> findLocalCopy(const std::string& directory, const StoreInfo& info) {
    return look(directory, info).copy;
}

bool prepareForCopy(const std::string& directory, const StoreInfo& info) {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        throwErrno(cat("Failed to create ", printable(directory)));
    }
    const auto opened = openDirectory(directory);
    checkErrno(opened.get(), cat("Failed to open ", printable(directory)));
    if (findIn(opened.get(), directory, info)) {
        return false;
    }
    removePartialCopies(opened.get(), directory, info);
    const auto available = availableSpace(descriptorPath(opened.get()));
    if (available && *available < info.squashfsSize) {
        throw Error(cat("Not enough space in ", printable(directory), ": the image has ",
                        formatSize(info.squashfsSize), ", and ", formatSize(*available), " are available"));
    }
    return true;
}

std::string partialCopy(const std::string& directory, const StoreInfo& info, const std::string& suffix) {
    return cat(directory, '/', partialName(info, suffix));
}

void completeCopy(const std::string& directory, const StoreInfo& info, const std::string& suffix) {
    const auto path = partialCopy(directory, info, suffix);
    const auto opened = openDirectory(directory);
    checkErrno(opened.get(), cat("Failed to open ", printable(directory)));
    const auto name = partialName(info, suffix);
    const auto file = openEntry(opened.get(), name);
    checkErrno(file.get(), cat("Failed to open ", printable(path)));
    checkErrno(::fchmod(file.get(), 0400), cat("Failed to change the mode of ", printable(path)));
    if (!isOwnFile(file.get(), info.squashfsSize) ||
        fsverityDigestOfFile(file.get(), printable(path)) != info.squashfsDigest) {
        ::unlinkat(opened.get(), name.c_str(), 0);
        throw Error(cat("The copy ", printable(path), " is not what was recorded for the image"),
                    "'sarus images --verify' checks the image itself");
    }
    checkErrno(::renameat(opened.get(), name.c_str(), opened.get(), nameOf(info).c_str()),
               cat("Failed to rename ", printable(path)));
}

void abandonCopy(const std::string& directory, const StoreInfo& info) {
    const auto opened = openDirectory(directory);
    checkErrno(opened.get(), cat("Failed to open ", printable(directory)));
    removePartialCopies(opened.get(), directory, info);
    openFileAt(opened.get(), partialName(info, std::string(abandoned)), O_WRONLY | O_CREAT | O_NOFOLLOW,
               0600);
}

std::optional<LocalCopy> waitForLocalCopy(const std::string& directory, const StoreInfo& info,
                                          std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds shortest{20};
    constexpr std::chrono::milliseconds longest{500};
    auto pause = shortest;
    auto progress = progressOf(directory);
    auto found = look(directory, info);
    for (auto lastChange = Clock::now(); found.mayCome && Clock::now() - lastChange < patience;) {
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, longest);
        if (auto now = progressOf(directory); now != progress) {
            progress = std::move(now);
            lastChange = Clock::now();
        }
        found = look(directory, info);
    }
    return std::move(found.copy);
}

}  // namespace sarus::image
