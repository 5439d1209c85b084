#include "starter/image/image_digest.hpp"

#include <fcntl.h>
#include <linux/fsverity.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/fsverity.hpp"
#include "base/hex.hpp"
#include "base/private_directory.hpp"
#include "base/text.hpp"
#include "squashfs/superblock.hpp"
#include "starter/image/image_mount.hpp"

namespace sarus::starter {

namespace {

constexpr const char* cacheDirectory = "/run/sarus/digests";
/// For another start that reads the same image: a user may have frozen it.
constexpr int patienceSeconds = 20;
constexpr std::size_t digestSize = fsverity::digestPrefix.size() + 2 * sizeof(fsverity::Hash);

std::optional<std::string> digestOfKernel(int fd) {
    alignas(fsverity_digest) std::array<unsigned char, sizeof(fsverity_digest) + sizeof(fsverity::Hash)>
        space{};
    auto* const digest = reinterpret_cast<fsverity_digest*>(space.data());
    digest->digest_size = sizeof(fsverity::Hash);
    if (::ioctl(fd, FS_IOC_MEASURE_VERITY, digest) != 0 ||
        digest->digest_algorithm != FS_VERITY_HASH_ALG_SHA256 ||
        digest->digest_size != sizeof(fsverity::Hash)) {
        return std::nullopt;
    }
    return cat(fsverity::digestPrefix, hexOf(std::span(space).subspan(sizeof(fsverity_digest))));
}

/// All signals are blocked here: a user who has enough of waiting ends the start all the same.
void throwIfInterrupted() {
    sigset_t pending;
    ::sigpending(&pending);
    for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
        if (::sigismember(&pending, number) == 1) {
            throw Error("The start was ended while the digest of the image was computed")
                .setExitStatus(128 + number);
        }
    }
}

std::string computeDigest(int fd, std::uint64_t size, const std::string& imagePath) {
    const auto name = cat("image ", printable(imagePath));
    fsverity::Leaves leaves;
    leaves.resizeFor(size);
    fsverity::FileBlocks blocks(fd, size, name);
    for (std::uint64_t first = 0; first < leaves.count(); first += fsverity::FileBlocks::atOnce) {
        throwIfInterrupted();
        blocks.hash(first, leaves);
    }
    return leaves.digest(size);
}

UniqueFd openCache() {
    const auto run = openFile("/run", O_PATH | O_DIRECTORY);
    const auto base = makePrivateDirectory(run.get(), "sarus", "/run/sarus", 0755, 0);
    return makePrivateDirectory(base.get(), "digests", cacheDirectory, 0700, 0);
}

/// Only squashfs files of root's come here, but they may be replaced often.
void emptyIfFull(int cache) {
    constexpr std::size_t many = 256;
    std::vector<std::string> found;
    auto entries = Directory::of(cache, cacheDirectory);
    while (const char* entry = entries.next()) {
        found.emplace_back(entry);
    }
    if (found.size() > many) {
        for (const auto& entry : found) {
            ::unlinkat(cache, entry.c_str(), 0);
        }
    }
}

/// All ranks of a job ask at once: one reads the image, and the others wait for it or for whoever is tired of
/// waiting.
std::string cachedDigest(int fd, const struct stat& image, const std::string& imagePath) {
    const auto cache = openCache();
    emptyIfFull(cache.get());
    const auto name = fileVersion(image);
    const auto entry = openFileAt(cache.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    std::string known;
    const auto isKnown = [&] {
        checkErrno(::lseek(entry.get(), 0, SEEK_SET), "Failed to read the digest of the image");
        known = readAll(entry.get(), 2 * digestSize, cacheDirectory);
        return fsverity::isDigest(known);
    };
    const auto isBusy = [&] {
        constexpr int second = 1000;
        return lockWithin(entry.get(), second) == LockResult::busy;
    };
    for (int waited = 0; waited < patienceSeconds && !isKnown() && isBusy(); ++waited) {
        throwIfInterrupted();
    }
    if (isKnown()) {
        return known;
    }
    auto digest = computeDigest(fd, static_cast<std::uint64_t>(image.st_size), imagePath);
    struct stat after {};
    checkErrno(::fstat(fd, &after), cat("Failed to inspect image ", printable(imagePath)));
    if (fileVersion(after) != name) {
        throw Error(cat("Image ", printable(imagePath), " changes while it is read"));
    }
    [[maybe_unused]] const auto written = ::pwrite(entry.get(), digest.data(), digest.size(), 0);
    return digest;
}

}  // namespace

std::optional<std::string> fixedDigest(int imageFd, const std::string& imagePath) {
    if (auto digest = digestOfKernel(imageFd)) {
        return digest;
    }
    if (!isRootOwnedImage(imageFd)) {
        return std::nullopt;
    }
    // The users choose among all files of root's: others than images would fill the memory.
    const auto image = squashfs::readSquashfsSuperblock(imageFd, imagePath).file;
    return cachedDigest(imageFd, image, imagePath);
}

}  // namespace sarus::starter
