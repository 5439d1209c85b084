#include "image/lookup.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/index.hpp"
#include "image/repository_paths.hpp"

namespace sarus::image {

namespace {

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

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

bool belongsTo(const std::string& metadata, std::uint64_t squashfsSize) {
    const auto info = parseStoreInfo(metadata);
    return !info || info->squashfsSize == squashfsSize;  // Sarus 1.7 records nothing
}

/// The draft of a `.meta` file whose squashfs file has already been put in place, by an import that is just finishing or that was
/// killed at this point.
std::optional<std::string> metadataFromDraft(const std::string& metadataPath, std::uint64_t squashfsSize) {
    const auto slash = metadataPath.find_last_of('/');
    const auto prefix = cat(metadataPath.substr(slash + 1), '-');
    const std::unique_ptr<DIR, CloseDir> directory(::opendir(metadataPath.substr(0, slash).c_str()));
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
        const std::string_view name = entry->d_name;
        if (!name.starts_with(prefix) || !isSuffix(name.substr(prefix.size()))) {
            continue;
        }
        auto fd = openIfExists(cat(metadataPath.substr(0, slash), '/', name));
        if (!fd) {
            continue;
        }
        auto text = readAll(fd->get(), 16U << 20U, name);
        const auto info = parseStoreInfo(text);
        if (info && info->squashfsSize == squashfsSize) {
            return text;
        }
    }
    return std::nullopt;
}

std::optional<FoundImage> open(const RepositoryPaths& paths, const ImageReference& reference) {
    constexpr int attempts = 20;
    constexpr timespec pause{0, 10'000'000};
    const auto path = paths.squashfs(reference);
    const auto metadataPath = paths.metadata(reference);
    for (int attempt = 1;; ++attempt) {
        auto file = openIfExists(path);
        auto metadataFile = file ? openIfExists(metadataPath) : std::nullopt;
        if (!file || !metadataFile) {
            return std::nullopt;
        }
        const auto size = checkImageFile(file->get(), path);
        auto text = readAll(metadataFile->get(), 16U << 20U, printable(metadataPath));
        if (text.empty()) {  // only then is it worth to ask a shared filesystem once more: no FIFO has anything to read
            checkImageFile(metadataFile->get(), metadataPath);
        }
        if (!belongsTo(text, size)) {
            // Between the two renames of a publication. The pair below is right whichever way that ends.
            if (auto draft = metadataFromDraft(metadataPath, size)) {
                text = std::move(*draft);
            } else if (attempt < attempts) {
                ::nanosleep(&pause, nullptr);
                continue;
            } else {
                throw Error(cat("The files of image ", reference.full(), " do not belong together"),
                            "One of them was replaced; remove the image with 'sarus rmi' and pull it again");
            }
        }
        try {
            return FoundImage{reference, std::move(*file), path, oci::parseImageMetadata(text)};
        } catch (Error& error) {
            throw error.addContext(cat("Failed to read \"", printable(metadataPath), "\""));
        }
    }
}

}  // namespace

FoundImage findImage(const std::string& repository, const ImageReference& reference) {
    const RepositoryPaths paths{repository};
    if (auto found = open(paths, reference)) {
        return std::move(*found);
    }
    auto missing = reference;
    if (reference.server == "docker.io") {
        printError(cat("Image ", reference.full(),
                       " is not available. Attempting to look for equivalent image in index.docker.io server repositories"));
        missing.server = "index.docker.io";
        if (auto found = open(paths, missing)) {
            return std::move(*found);
        }
    }
    throw Error(cat("Image ", missing.full(), " is not available"),
                "'sarus images' lists the available images, 'sarus pull' gets more");
}

}  // namespace sarus::image
