#include "image/store/stored_image.hpp"

#include <fcntl.h>
#include <time.h>

#include <cerrno>
#include <string_view>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t largestStoredMetadata = 16U << 20U;

std::optional<UniqueFd> openIfExists(const std::string& path) {
    try {
        return openFile(path, O_RDONLY | O_NONBLOCK);  // a FIFO must not block
    } catch (const Error& error) {
        if (error.errnum() == ENOENT || error.errnum() == ENOTDIR) {
            return std::nullopt;
        }
        throw;
    }
}

/// The image, still without its squashfs file, with draft metadata created for this squashfs file.
std::optional<StoredImage> findDraft(const std::string& metadataPath, std::uint64_t squashfsSize,
                                     const std::string& identity) {
    const auto slash = metadataPath.find_last_of('/');
    const auto prefix = cat(metadataPath.substr(slash + 1), '-');
    Directory directory(metadataPath.substr(0, slash), Missing::isEmpty);
    while (const char* entry = directory.next()) {
        const std::string_view name = entry;
        if (!name.starts_with(prefix) || !isSuffix(name.substr(prefix.size()))) {
            continue;
        }
        auto path = cat(metadataPath.substr(0, slash), '/', name);
        const auto fd = openIfExists(path);
        if (!fd) {
            continue;
        }
        auto text = readAll(fd->get(), largestStoredMetadata, name);
        auto info = parseStoreInfo(text);
        if (info && match(info, squashfsSize, identity) == Match::yes) {
            return StoredImage{{}, squashfsSize, std::move(text), std::move(info), std::move(path)};
        }
    }
    return std::nullopt;
}

}  // namespace

Match match(const std::optional<StoreInfo>& info, std::uint64_t squashfsSize, const std::string& identity) {
    if (info &&
        (info->squashfsSize != squashfsSize || (!info->identity.empty() && info->identity != identity))) {
        return Match::no;
    }
    const bool recorded = info && !info->identity.empty();
    return recorded || identity.empty() ? Match::yes : Match::perhaps;
}

std::optional<StoredImage> openStoredImage(const RepositoryPaths& paths, const ImageReference& reference) {
    constexpr int attempts = 20;
    constexpr timespec pause{0, 10'000'000};
    const auto path = paths.squashfs(reference);
    const auto metadataPath = paths.metadata(reference);
    for (int attempt = 1;; ++attempt) {
        auto file = openIfExists(path);
        if (!file) {
            return std::nullopt;
        }
        const auto metadataFile = openIfExists(metadataPath);
        const auto size = checkImageFile(file->get(), path);
        const auto identity = squashfs::squashfsIdentity(file->get(), printable(path));
        std::string text;
        std::optional<StoreInfo> info;
        if (metadataFile) {
            text = readAll(metadataFile->get(), largestStoredMetadata, printable(metadataPath));
            // A FIFO has no data: only then is one more request to a shared filesystem worth its cost.
            if (text.empty()) {
                checkImageFile(metadataFile->get(), metadataPath);
            }
            info = parseStoreInfo(text);
        }
        const auto belongs = metadataFile ? match(info, size, identity) : Match::no;
        if (belongs == Match::yes) {
            return StoredImage{std::move(*file), size, std::move(text), std::move(info)};
        }
        if (auto draft = findDraft(metadataPath, size, identity)) {
            draft->file = std::move(*file);
            return draft;
        }
        // The draft may have become the `.meta` file meanwhile: then the next attempt finds both.
        if (belongs == Match::perhaps && attempt > 1) {
            return StoredImage{std::move(*file), size, std::move(text), std::move(info)};
        }
        if (!metadataFile && attempt > 1) {
            return std::nullopt;
        }
        if (attempt == attempts) {
            throw Error(cat("The files of image ", reference.full(), " do not belong together"),
                        "One of them was replaced; remove the image with 'sarus rmi' and pull it again");
        }
        if (attempt > 1) {
            ::nanosleep(&pause, nullptr);
        }
    }
}

}  // namespace sarus::image
