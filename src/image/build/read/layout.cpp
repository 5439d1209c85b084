#include "image/build/read/layout.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/build/read/archive.hpp"
#include "image/build/read/docker_archive.hpp"
#include "image/build/read/image_json.hpp"
#include "image/build/read/image_names.hpp"
#include "oci/image/image_manifest.hpp"

namespace sarus::image::build {

namespace {

constexpr int mostNestedIndexes = 8;
constexpr const char* indexName = "index.json";

std::string blobName(const Digest& digest) {
    return cat("blobs/", digest.blobName());
}

/// Reads a small blob and checks its digest, and its size if known.
std::string readBlob(const SourceFiles& files, const Digest& digest, std::optional<std::uint64_t> size,
                     std::uint64_t limit, const std::string& what) {
    std::string text = readSmallFile(files, blobName(digest), limit);
    if ((size && text.size() != *size) || !(digestOf(digest.algorithm(), text) == digest)) {
        throw Error(
            cat("The content of the ", what, " ", digest.text(), " does not match its digest and size"),
            "The file is damaged: pull the image, or make the archive, again");
    }
    return text;
}

bool isAttestation(const oci::Descriptor& descriptor) {
    const auto& platform = descriptor.platform;
    return descriptor.isAttestation ||
           (platform && (platform->os == "unknown" || platform->architecture == "unknown"));
}

/// The entries of index.json with this name; all if the name is empty.
std::vector<oci::Descriptor> entriesNamed(std::vector<oci::Descriptor> entries, const std::string& wanted) {
    std::vector<oci::Descriptor> named;
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(named), [&](const auto& entry) {
        return !wanted.empty() && !entry.name.empty() &&
               (sameImageName(entry.name, wanted) || (isOnlyTag(entry.name) && entry.name == tagOf(wanted)));
    });
    return named.empty() ? entries : named;
}

/// Throws Error if several different images remain.
void checkUnambiguous(const std::vector<const oci::Descriptor*>& best, const std::string& what) {
    std::set<std::string> digests;
    std::set<std::string> names;
    for (const auto* descriptor : best) {
        digests.insert(descriptor->digest.text());
        if (!descriptor->name.empty()) {
            names.insert(printable(descriptor->name));
        }
    }
    // Among entries for one platform the first is taken, unless they are different images.
    if (digests.size() < 2 || (names.size() < 2 && best.front()->platform)) {
        return;
    }
    if (names.size() < 2) {
        throw Error(cat(what, " names several images"), "Choose one with --manifest-digest");
    }
    throw Error(cat(what, " names several images: ", join(std::vector(names.begin(), names.end()), ", ")),
                "Load one under its own name, and give it another one with 'sarus tag'");
}

/// Selects an entry of an index.
const oci::Descriptor& chooseManifest(const std::vector<oci::Descriptor>& entries,
                                      const oci::Platform& wanted, const std::string& what) {
    std::vector<const oci::Descriptor*> best;
    int bestRank = 0;
    std::string offers;
    for (const auto& descriptor : entries) {
        const auto& platform = descriptor.platform;
        if (isAttestation(descriptor)) {
            continue;
        }
        if (platform) {
            offers += cat(offers.empty() ? "" : ", ", printable(oci::toString(*platform)));
        }
        const int value = platform ? oci::suitability(wanted, *platform) : 0;
        if (value > bestRank) {
            best.clear();
            bestRank = value;
        }
        if (value == bestRank) {
            best.push_back(&descriptor);
        }
    }
    if (best.empty()) {
        throw Error(cat("The image has no variant for platform ", oci::toString(wanted)),
                    offers.empty() ? std::string("The image index is empty") : cat("It offers: ", offers));
    }
    checkUnambiguous(best, what);
    return *best.front();
}

/// The manifest that a descriptor leads to, through any indexes.
struct FoundManifest {
    Digest digest;
    oci::ImageManifest manifest;
    std::string name;  ///< in index.json
};

FoundManifest findManifest(const SourceFiles& files, const ImageSelection& selection,
                           const oci::Platform& wanted) {
    auto digest = selection.manifestDigest;
    std::optional<std::uint64_t> size;
    std::string name;
    const auto descend = [&](const std::vector<oci::Descriptor>& entries, const std::string& what) {
        const auto& chosen = chooseManifest(entries, wanted, what);
        digest = chosen.digest;
        size = chosen.size;
        return chosen.name;
    };
    if (!digest) {
        auto index = oci::parseImageIndex(readSmallFile(files, indexName, largestManifest), indexName);
        name = descend(entriesNamed(std::move(index.manifests), selection.name), indexName);
    }
    for (int level = 0; level < mostNestedIndexes; ++level) {
        const std::string what = cat("manifest ", digest->text());
        const auto text = readBlob(files, *digest, size, largestManifest, "manifest");
        if (oci::manifestKind(text, what) != oci::ManifestKind::imageIndex) {
            oci::checkMayBeImage(text);
            return {*digest, oci::parseImageManifest(text, what), name};
        }
        descend(oci::parseImageIndex(text, what).manifests, what);
    }
    throw Error("The image index is nested too deeply");
}

/// Types of layers whose manifest says where else they are (OCI image specification, "layer.md",
/// non-distributable layers; Docker's "foreign" ones).
bool isForeign(std::string_view mediaType) {
    return mediaType.find("nondistributable") != std::string_view::npos ||
           mediaType.find(".foreign.") != std::string_view::npos;
}

bool isStored(const SourceFiles& files, const std::string& name) {
    try {
        files.open(name);
        return true;
    } catch (const Error& error) {
        return error.errnum() != ENOENT;  // reading it will report anything else
    }
}

std::vector<Layer> describeLayers(const std::shared_ptr<const SourceFiles>& files,
                                  const std::vector<oci::Descriptor>& layers, const Json& config) {
    const auto uncompressed = diffIds(config, layers.size());
    std::vector<Layer> result;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const auto& [mediaType, digest, size, platform, name, attestation] = layers[i];
        if (isForeign(mediaType) && !isStored(*files, blobName(digest))) {
            throw Error(cat("Layer ", digest.text(), " is not among the files of the image (type '",
                            printable(mediaType), "')"),
                        "Registries do not store foreign and non-distributable layers, and Sarus does not "
                        "get them from elsewhere");
        }
        result.push_back({files, blobName(digest), digest, size, uncompressed[i]});
    }
    return result;
}

SourceImage openLayout(const std::shared_ptr<const SourceFiles>& files, const ImageSelection& selection) {
    const oci::Platform wanted = selection.platform.value_or(oci::hostPlatform());
    const auto [digest, manifest, name] = findManifest(*files, selection, wanted);
    oci::checkIsImage(manifest);
    const auto& described = manifest.config;
    auto text = readBlob(*files, described.digest, described.size, largestConfig, "image configuration");
    const Json config = parseJsonObject(text, cat("image configuration ", described.digest.text()));
    checkPlatform(config, selection.platform);
    auto layers = describeLayers(files, manifest.layers, config);
    return {digest, described.digest, std::move(layers), std::move(text), name};
}

/// A directory or file; "-": standard input.
UniqueFd openPath(const std::string& path) {
    if (path == "-") {
        return UniqueFd(
            checkErrno(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), "Failed to duplicate standard input"));
    }
    return openFile(path, O_RDONLY | O_NONBLOCK);
}

}  // namespace

SourceFormat parseSourceFormat(std::string_view text) {
    if (text == "oci") {
        return SourceFormat::layout;
    }
    if (text == "oci-archive") {
        return SourceFormat::ociArchive;
    }
    if (text == "docker-archive") {
        return SourceFormat::dockerArchive;
    }
    throw Error(cat("Invalid source format '", printable(text), "'"),
                "It must be oci, oci-archive or docker-archive");
}

std::string_view toString(SourceFormat format) noexcept {
    return format == SourceFormat::layout       ? "oci"
           : format == SourceFormat::ociArchive ? "oci-archive"
                                                : "docker-archive";
}

SourceImage openImage(const ImageSelection& selection) {
    auto source = openPath(selection.source);
    struct stat status {};
    checkErrno(::fstat(source.get(), &status), "Failed to examine the image's file");
    const bool isDirectory = S_ISDIR(status.st_mode);
    if (!isDirectory && !S_ISREG(status.st_mode)) {
        throw Error("The image is not a regular file or a directory");
    }
    if (selection.format && isDirectory != (*selection.format == SourceFormat::layout)) {
        throw Error(isDirectory ? "The image is a directory, not an archive"
                                : "The image is a file, not an OCI layout");
    }
    if (isDirectory) {
        const auto files = openSourceDirectory(std::move(source), selection.download);
        if (!selection.manifestDigest && !files->contains(indexName)) {
            throw Error(cat("The directory is no OCI image layout: it has no ", indexName),
                        "Make one with 'skopeo copy ... oci:DIRECTORY'");
        }
        return openLayout(files, selection);
    }
    const auto files = openArchive(std::move(source));
    // Recent versions of docker save write both formats at once.
    const bool isDocker = selection.format ? *selection.format == SourceFormat::dockerArchive
                                           : files->contains("manifest.json");
    if (!isDocker && !files->contains(indexName)) {
        throw Error(cat("The file is no image archive: it has neither manifest.json nor ", indexName),
                    "Make one with 'docker save', 'podman save' or 'skopeo copy'");
    }
    auto image = isDocker ? openDockerArchive(files, selection) : openLayout(files, selection);
    image.format = isDocker ? SourceFormat::dockerArchive : SourceFormat::ociArchive;
    return image;
}

}  // namespace sarus::image::build
