#include "image/import/import.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/import/space.hpp"
#include "image/import/store_image.hpp"
#include "image/store/import_session.hpp"
#include "image/store/pull_lock.hpp"
#include "image/transfer/file_policy.hpp"
#include "image/transfer/image_download.hpp"
#include "image/transfer/pull_failure.hpp"
#include "oci/image/image_manifest.hpp"

namespace sarus::image {

namespace {

std::string blobPath(const std::string& layout, const oci::Digest& digest) {
    return cat(layout, "/blobs/", digest.blobName());
}

bool blobIsIntact(const std::string& path, const oci::Digest& digest) {
    const auto fd = openFile(path, O_RDONLY);
    // sha512 is too rare to justify a second implementation here; the builder verifies it.
    return digest.algorithm() != "sha256" || sha256HexOfFile(fd.get(), path) == digest.hex();
}

/// Removes blobs of the layout's image that do not match their names; returns whether there were any.
bool removeDamagedBlobs(const std::string& layout) {
    bool removed = false;
    const auto check = [&](const oci::Digest& digest) {
        const auto path = blobPath(layout, digest);
        if (pathExists(path) && !blobIsIntact(path, digest)) {
            logWarn("ImageManager", cat("Removing damaged file \"", printable(path), "\" from the cache"));
            removed = ::unlink(path.c_str()) == 0 || removed;
        }
        return pathExists(path);
    };
    for (const auto& entry : oci::parseImageIndex(readFile(cat(layout, "/index.json"))).manifests) {
        if (!check(entry.digest)) {
            continue;
        }
        const auto manifest = oci::parseImageManifest(readFile(blobPath(layout, entry.digest)));
        check(manifest.config.digest);
        for (const auto& layer : manifest.layers) {
            check(layer.digest);
        }
    }
    return removed;
}

/// An import from a registry.
struct Pull {
    Pull(Repository& repository, const ImportSettings& settings)
        : import(repository, settings), skopeo(settings.skopeo, import.session.workDirectory()) {}

    /// Creates the squashfs file from a layout with one image, and publishes it.
    void store(const std::string& layout, const Destination& destination) const {
        const BuildSource source{.path = layout};
        storeImage(import, source, destination, tryToDescribe(import.settings, source));
    }

    Import import;
    Skopeo skopeo;
};

std::string policyTransport(const PullRequest& request) {
    return request.fromContainersStorage ? "containers-storage" : "docker";
}

std::string pullTransport(const PullRequest& request) {
    return cat(policyTransport(request), request.fromContainersStorage ? ":" : "://");
}

std::string pullFailure(const PullRequest& request) {
    return cat("Failed to pull image '", request.reference.full(), "'");
}

/// The signature policy in effect. Throws Error if there is none.
std::string policyFileOf(const Pull& pull) {
    return policyFile(pull.import.settings.skopeo.policy, hostVariable("HOME").value_or(""));
}

Error pullError(const Pull& pull, const PullRequest& request, const ToolResult& result) {
    const bool credentialsGiven =
        request.login.login || request.login.passwordStdin || request.login.username.has_value();
    return Error(pullFailure(request), join(explainPullFailure(result.err, request.reference.server,
                                                               credentialsGiven, policyFileOf(pull)),
                                            "\n"));
}

ImageSource pullSource(const PullRequest& request, const ImageReference& reference,
                       const std::optional<std::string>& authentication) {
    return {.name = cat(pullTransport(request), reference.full()),
            .authenticationFile = authentication,
            .server = request.fromContainersStorage ? "" : request.reference.server,
            .image = request.reference.full()};
}

/// The manifest in the registry under a name. Throws Error.
std::string manifestInRegistry(const Pull& pull, const PullRequest& request, const ImageReference& reference,
                               const std::optional<std::string>& authentication) {
    const auto result = pull.skopeo.inspectRaw(pullSource(request, reference, authentication));
    if (!result.status.ok()) {
        throw pullError(pull, request, result);
    }
    return result.out;
}

/// The digest of the index's entry for this platform.
std::string digestForPlatform(const Pull& pull, const PullRequest& request, const oci::ImageIndex& index) {
    const auto platform = pull.import.settings.skopeo.platform.value_or(oci::hostPlatform());
    if (const auto* entry = oci::selectPlatform(index, platform)) {
        return entry->digest.text();
    }
    std::vector<std::string> available;
    for (const auto& entry : index.manifests) {
        available.push_back(entry.platform ? printable(oci::toString(*entry.platform)) : "unknown");
    }
    throw Error(pullFailure(request),
                cat("The image does not exist for ",
                    pull.import.settings.skopeo.platform ? "the platform (" : "this machine (",
                    oci::toString(platform), "), only for: ", join(available, ", ")));
}

/// Throws what the user should see of an error about the kind of an image.
void checkKind(const PullRequest& request, const std::function<void()>& check) {
    try {
        check();
    } catch (const Error& error) {
        throw Error(pullFailure(request), cat(error.what(), error.hint().empty() ? "" : "\n", error.hint()));
    }
}

/// The registry's information about an image before the download.
struct RemoteImage {
    std::string digest;      ///< of the manifest for this platform; "" if its kind is unknown
    std::string manifest{};  ///< its text; "" if it was not requested
    bool isGiven = false;    ///< the digest is the user's, and may be that of an index
};

RemoteImage imageInRegistry(const Pull& pull, const PullRequest& request,
                            const std::optional<std::string>& authentication) {
    const auto text = manifestInRegistry(pull, request, request.reference, authentication);
    checkKind(request, [&] { oci::checkMayBeImage(text); });
    switch (oci::manifestKind(text)) {
        case oci::ManifestKind::imageManifest:
            return {cat("sha256:", sha256Hex(text)), text};
        case oci::ManifestKind::imageIndex:
            return {digestForPlatform(pull, request, oci::parseImageIndex(text))};
        case oci::ManifestKind::unknown:
            break;
    }
    logWarn("ImageManager", "The registry has a manifest of unknown type: its digest is not recorded");
    return {""};
}

/// Whether an image of the repository has a digest in a registry.
bool isStoredUnderAnyName(const Pull& pull, const std::string& registryDigest) {
    const auto images = pull.import.repository.list();
    return std::any_of(images.begin(), images.end(),
                       [&](const ImageRecord& image) { return image.registryDigest == registryDigest; });
}

/// The manifest of the coming download; nullopt if unknown. Asks the registry only if free space may be
/// short, or if the download may be unnecessary: some registries count each request as a pull, and a disk
/// with enough space holds any image.
std::optional<oci::ImageManifest> expectedManifest(const Pull& pull, const PullRequest& request,
                                                   const RemoteImage& image,
                                                   const std::optional<std::string>& authentication) {
    constexpr std::uint64_t plenty = std::uint64_t{256} << 30U;
    auto text = image.manifest;
    if (text.empty() && !image.digest.empty() && !request.fromContainersStorage &&
        (availableSpace(pull.import.repository.paths().cache()).value_or(plenty) < plenty ||
         (image.isGiven && isStoredUnderAnyName(pull, image.digest)))) {
        auto reference = request.reference;
        reference.tag.clear();
        reference.digest = image.digest;
        text = manifestInRegistry(pull, request, reference, authentication);
    }
    if (image.digest != cat("sha256:", sha256Hex(text))) {
        return std::nullopt;  // skopeo will report it
    }
    try {
        if (!text.empty() && oci::manifestKind(text) == oci::ManifestKind::imageManifest) {
            return oci::parseImageManifest(text);
        }
    } catch (const Error& error) {
        logInfo("ImageManager",
                cat("Manifest that is not understood: ", error.what()));  // copying the image will report it
    }
    return std::nullopt;
}

void printPullHeader(const Pull& pull, const ImageReference& reference) {
    const auto& paths = pull.import.repository.paths();
    pull.import.say(cat("# image            : ", reference.full()));
    pull.import.say(cat("# cache directory  : \"", paths.cache(), '"'));
    pull.import.say(cat("# temp directory   : \"", pull.import.settings.tempDir, '"'));
    pull.import.say(cat("# images directory : \"", paths.images(), '"'));
}

/// Whether the signature policy accepts what a registry offers without skopeo's check.
bool policyNeedsNothing(const Pull& pull, const PullRequest& request) {
    try {
        return policyAcceptsAll(readFile(policyFileOf(pull)), policyTransport(request));
    } catch (const Error& error) {
        logInfo("ImageManager", error.what());  // skopeo reports it
        return false;
    }
}

/// Stores the image without a download, if another one has the same content. Skopeo checks the signatures of
/// what it downloads, and the builder its platform if the user names one: both then need the download.
bool storeWithoutDownload(const Pull& pull, const PullRequest& request, const RemoteImage& image,
                          const std::optional<oci::ImageManifest>& manifest) {
    const ImageContent content{.layersId = {},
                               .id = manifest ? std::string(manifest->config.digest.hex()) : std::string(),
                               .registryDigest = image.isGiven ? std::string() : image.digest};
    if (pull.import.settings.builder.platform || !policyNeedsNothing(pull, request)) {
        return false;
    }
    return storeAsEqual(pull.import, {request.reference.normalized(), image.digest}, content, std::nullopt);
}

/// What the user should see of an error during a download.
Error downloadError(const PullRequest& request, const Error& error) {
    const auto* const known = error.errnum() == ENOSPC   ? "no space left on device"
                              : error.errnum() == EDQUOT ? "disk quota exceeded"
                                                         : nullptr;
    return known != nullptr ? Error(pullFailure(request), join(explainPullFailure(known, "", false), "\n"))
                            : error;
}

/// Converts while layers arrive. False if that needs skopeo's copy first: the proxy or the registry failed,
/// the cache was damaged, or the builder does not understand the image.
bool storeWhileDownloading(const Pull& pull, const PullRequest& request, const ImageSource& source,
                           const std::string& layout, const Destination& destination) {
    ImageDownload download(pull.skopeo, source, layout);
    try {
        download.fetchDocuments();
        const BuildSource growing{.path = layout, .download = &download};
        const auto description = tryToDescribe(pull.import.settings, growing);
        if (description) {
            storeImage(pull.import, growing, destination, description);
        }
        return description.has_value();
    } catch (const Error& error) {
        throwIfInterrupted();
        logInfo("ImageManager", error.what());
        if (!download.hasFailed()) {
            if (!removeDamagedBlobs(layout)) {
                throw;
            }
        } else if (download.refusal().empty()) {
            throw downloadError(request, error);
        }
        return false;
    }
}

void copyAndStore(const Pull& pull, const PullRequest& request,
                  const std::optional<std::string>& authentication, const RemoteImage& image,
                  const std::optional<oci::ImageManifest>& manifest) {
    auto reference = request.reference.normalized();
    if (!image.digest.empty()) {
        reference.tag.clear();
        reference.digest = image.digest;
    }
    const Destination destination{request.reference.normalized(), image.digest};
    const auto layout = pull.import.session.cachedLayout();
    const auto& paths = pull.import.repository.paths();
    if (manifest) {
        checkSpaceForPull(paths, *manifest, pullFailure(request));
    }
    const auto source = pullSource(request, reference, authentication);
    if (!request.fromContainersStorage && policyNeedsNothing(pull, request)) {
        if (storeWhileDownloading(pull, request, source, layout, destination)) {
            return;
        }
        ::unlink(cat(layout, "/index.json").c_str());  // skopeo would add a second image
    }
    const auto copy = [&] {
        const auto missing = manifest ? missingBytes(paths, *manifest) : 0;
        const auto result = pull.skopeo.copy(source, layout, missing);
        if (!result.status.ok()) {
            throw pullError(pull, request, result);
        }
    };
    copy();
    try {
        pull.store(layout, destination);
    } catch (const Error&) {
        // Skopeo trusts the names in the cache. If a file there is damaged, a second download helps.
        throwIfInterrupted();
        if (!removeDamagedBlobs(layout)) {
            throw;
        }
        copy();
        pull.store(layout, destination);
    }
}

}  // namespace

void pullImage(Repository& repository, const ImportSettings& settings, const PullRequest& request) {
    const InterruptScope interruptible;
    forgetForeignHome();
    checkTemporaryDirectory(settings.tempDir);
    const auto credentials = obtainCredentials(request.login, STDIN_FILENO, STDOUT_FILENO);
    const Pull pull(repository, settings);
    if (!request.fromContainersStorage) {
        warnAboutUnsafeCredentials();
    }
    printPullHeader(pull, request.reference);
    if (const auto& platform = settings.skopeo.platform) {
        pull.import.say(cat("# platform         : ", oci::toString(*platform)));
    }
    std::optional<AuthenticationFile> authentication;
    std::optional<std::string> authenticationPath;
    if (credentials) {
        authentication.emplace(authenticationDirectory(repository.paths()), pull.import.session.suffix(),
                               request.reference, *credentials);
        authenticationPath = authentication->path();
    }
    const auto wanted = request.reference.normalized();
    const auto image = wanted.digest.empty() ? imageInRegistry(pull, request, authenticationPath)
                                             : RemoteImage{.digest = wanted.digest, .isGiven = true};
    pull.import.say(cat("# image digest     : ", image.digest));
    const auto isUpToDate = [&] {
        const auto stored = repository.find(wanted);
        return stored && !image.digest.empty() && stored->registryDigest == image.digest;
    };
    std::optional<PullLock> lock;
    if (!isUpToDate()) {
        lock.emplace(repository.paths(), image.digest.empty() ? wanted.full() : image.digest,
                     [&] { pull.import.say("> waiting for another process that pulls this image"); });
    }
    if (isUpToDate()) {
        pull.import.say(cat("Image for ", request.reference.full(), " is already available and up to date"));
        return;
    }
    const auto manifest = expectedManifest(pull, request, image, authenticationPath);
    if (manifest) {
        checkKind(request, [&] { oci::checkIsImage(*manifest); });
    }
    if (!storeWithoutDownload(pull, request, image, manifest)) {
        copyAndStore(pull, request, authenticationPath, image, manifest);
    }
}

}  // namespace sarus::image
