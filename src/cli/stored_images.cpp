#include "cli/stored_images.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/hex.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/place/repository_place.hpp"
#include "cli/repository_access.hpp"
#include "image/store/image_file.hpp"
#include "image/store/index.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::cli {

namespace {

using image::ImageReference;

/// As `sarus images` shows a name and as people type it.
std::string shortName(const ImageReference& reference) {
    const bool isDocker = reference.server == "docker.io";
    const bool isLibrary = isDocker && reference.imageNamespace == "library";
    auto name = isLibrary  ? reference.image
                : isDocker ? cat(reference.imageNamespace, '/', reference.image)
                           : reference.repository();
    if (!reference.tag.empty() && reference.tag != "latest") {
        name += cat(':', reference.tag);
    }
    return reference.digest.empty() ? name : cat(name, '@', reference.digest);
}

/// The index, without a lock. It is a cache: what it names may be gone.
std::vector<image::ImageRecord> records(const std::string& repository) {
    try {
        return image::parseIndex(readFile(image::RepositoryPaths{repository}.index())).images;
    } catch (const Error&) {
        return {};  // there is no repository yet
    }
}

bool isBareName(const ImageReference& reference) {
    return reference.server == "docker.io" && reference.imageNamespace == "library";
}

/// The name that `load` gives to an image with this bare name.
ImageReference loadedUnder(ImageReference reference) {
    reference.server = "load";
    return reference;
}

bool mayBeId(const ImageReference& reference) {
    constexpr std::size_t shortest = 4;
    constexpr std::size_t longest = 64;
    const auto& text = reference.image == "sha256" ? reference.tag : reference.image;
    return isBareName(reference) && reference.digest.empty() && text.size() >= shortest &&
           text.size() <= longest && isHex(text) &&
           (reference.image == "sha256" || reference.tag == "latest");
}

/// The names of the images whose ID begins so. Several names of one image are one.
std::vector<ImageReference> findById(const std::string& repository, const ImageReference& reference) {
    std::vector<ImageReference> found;
    if (!mayBeId(reference)) {
        return found;
    }
    const auto& id = reference.image == "sha256" ? reference.tag : reference.image;
    std::string first;
    for (const auto& record : records(repository)) {
        if (!record.id.starts_with(id)) {
            continue;
        }
        if (!first.empty() && record.id != first) {
            throw Error(cat("Several images have an ID that begins with '", id, "'"),
                        "Write more of the ID (sarus images), or the name");
        }
        first = record.id;
        found.push_back(record.reference);
    }
    return found;
}

/// A line about an image that is in the usual repository, though another one is chosen; "" if there is none.
std::string leftImage(Context& context, const ImageReference& reference) {
    const auto place = findRepositoryPlace(context.config());
    try {
        if (place.leavesImages() && image::openImage(place.usual, reference)) {
            return cat("The image is in ", printable(place.usual), ", but ", place.chosenBy, " names ",
                       printable(place.directory));
        }
    } catch (const Error&) {
        // A damaged image does not help.
    }
    return {};
}

/// Whether a squashfs file of this name is in the working directory.
bool isFileHere(const std::string& name) {
    try {
        image::openImageFile(cat("./", name));
        return true;
    } catch (const Error&) {
        return false;
    }
}

/// What a person, and each task of a job step, should read in one line. Scripts know the lines of 1.7.
bool isForPeople() {
    return ::isatty(STDERR_FILENO) == 1 || hostVariable("SLURM_PROCID");
}

/// What may have been meant, or what to do; "" for the lines of 1.7.
std::string suggestion(Context& context, const Arguments& arguments, const ImageReference& reference) {
    const auto name = shortName(reference);
    if (isFileHere(name)) {
        return cat("to run the file: 'sarus run ./", name, "'");
    }
    const auto pull = reference.server == "load" ? "" : cat("'sarus pull ", name, '\'');
    const bool centralized = arguments.has("centralized-repository");
    if (auto left = centralized ? std::string() : leftImage(context, reference); !left.empty()) {
        return left;
    }
    std::vector<std::string> names;
    for (const auto& record : records(context.repositoryDirectory(centralized))) {
        const bool isSimilar = record.reference.image == reference.image ||
                               closestMatch(reference.image, {&record.reference.image, 1});
        if (isSimilar && record.reference.full() != reference.full()) {  // the index may name what is gone
            names.push_back(cat('\'', printable(shortName(record.reference)), '\''));
        }
    }
    constexpr std::size_t most = 3;
    names.resize(std::min(names.size(), most));
    if (!centralized && context.config().centralizedRepositoryDir) {
        try {
            if (image::openImage(context.repositoryDirectory(true), reference)) {
                names.push_back(cat("'--centralized-repository ", name, '\''));
            }
        } catch (const Error&) {
            // A damaged image is no suggestion.
        }
    }
    if (!names.empty()) {
        return cat("did you mean ", join(names, ", "), '?', pull.empty() ? "" : " Or ", pull);
    }
    return isForPeople() ? cat("'sarus images' lists the stored ones", pull.empty() ? "" : ", ", pull,
                               pull.empty() ? "" : " gets it")
                         : std::string();
}

}  // namespace

image::FoundImage findStoredImage(Context& context, const Arguments& arguments,
                                  const ImageReference& reference) {
    const auto repository = context.repositoryDirectory(arguments.has("centralized-repository"));
    if (auto found = image::openImage(repository, reference)) {
        return std::move(*found);
    }
    auto legacy = reference;
    legacy.server = "index.docker.io";
    if (reference.server == "docker.io" && image::openImage(repository, legacy)) {
        return image::findImage(repository, reference);  // which says so
    }
    if (isBareName(reference)) {
        if (auto found = image::openImage(repository, loadedUnder(reference))) {
            return std::move(*found);
        }
        for (const auto& candidate : findById(repository, reference)) {
            if (auto found = image::openImage(repository, candidate)) {
                return std::move(*found);
            }
        }
    }
    if (const auto line = suggestion(context, arguments, reference); !line.empty()) {
        throw Error(
            cat("Image ", reference.full(), " is not available; ", line));  // the sentence of 1.7 first
    }
    return image::findImage(repository, reference);
}

std::vector<ImageReference> storedReferences(Context& context, const Arguments& arguments,
                                             const std::string& text, const std::string& command) {
    auto reference = referenceArgument(text, command).normalized();
    const auto repository = context.repositoryDirectory(arguments.has("centralized-repository"));
    const image::RepositoryPaths paths{repository};
    const auto isStored = [&](const ImageReference& name) { return pathExists(paths.squashfs(name)); };
    if (!isBareName(reference) || isStored(reference)) {
        return {reference};
    }
    if (auto loaded = loadedUnder(reference); isStored(loaded)) {
        return {loaded};
    }
    auto found = findById(repository, reference);
    return found.empty() ? std::vector{reference} : found;
}

ImageReference storedReference(Context& context, const Arguments& arguments, const std::string& text,
                               const std::string& command) {
    return storedReferences(context, arguments, text, command).front();
}

}  // namespace sarus::cli
