#include "image/store/lookup.hpp"

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/stored_image.hpp"

namespace sarus::image {

std::optional<FoundImage> openImage(const std::string& repository, const ImageReference& reference) {
    const RepositoryPaths paths{repository};
    auto stored = openStoredImage(paths, reference);
    if (!stored) {
        return std::nullopt;
    }
    try {
        return FoundImage{reference, std::move(stored->file), paths.squashfs(reference),
                          oci::parseImageMetadata(stored->metadata), std::move(stored->info)};
    } catch (Error& error) {
        throw error.addContext(cat("Failed to read \"", printable(paths.metadata(reference)), "\""));
    }
}

FoundImage findImage(const std::string& repository, const ImageReference& reference) {
    if (auto found = openImage(repository, reference)) {
        return std::move(*found);
    }
    auto missing = reference;
    if (reference.server == "docker.io") {
        printError(cat("Image ", reference.full(),
                       " is not available. Attempting to look for equivalent image in index.docker.io server "
                       "repositories"));
        missing.server = "index.docker.io";
        if (auto found = openImage(repository, missing)) {
            return std::move(*found);
        }
    }
    throw Error(cat("Image ", missing.full(), " is not available"),
                "'sarus images' lists the available images, 'sarus pull' gets more");
}

}  // namespace sarus::image
