#include "image/import.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "image/import_session.hpp"
#include "image/interrupt.hpp"
#include "image/source_format.hpp"
#include "image/space.hpp"
#include "oci/image_manifest.hpp"

namespace sarus::image {

namespace {

std::string blobPath(const std::string& layout, const std::string& digest) {
    auto path = digest;
    path[path.find(':')] = '/';
    return cat(layout, "/blobs/", path);
}

bool blobIsIntact(const std::string& path, const std::string& digest) {
    const auto fd = openFile(path, O_RDONLY);
    // sha512 is too rare to be worth a second implementation here; the builder verifies it.
    return !digest.starts_with("sha256:") || cat("sha256:", sha256HexOfFile(fd.get(), path)) == digest;
}

std::string readVerifiedBlob(const std::string& layout, const std::string& digest) {
    const auto path = blobPath(layout, digest);
    if (!blobIsIntact(path, digest)) {
        throw Error(cat("The file \"", printable(path), "\" does not have the digest ", digest));
    }
    return readFile(path);
}

/// Removes those blobs of the layout's image which are not what their names say; returns whether there were any.
bool removeDamagedBlobs(const std::string& layout) {
    bool removed = false;
    const auto check = [&](const std::string& digest) {
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

/// One pull or load from here to its end in the repository.
class Import {
public:
    Import(Repository& theRepository, const ImportSettings& theSettings)
        : repository(theRepository),
          settings(theSettings),
          session((repository.recover(), removeAbandonedImports(repository.paths(), settings.tempDir), repository.paths()),
                  settings.tempDir, repository.lockTimings()),
          skopeo(settings.skopeo, session.workDirectory()) {}

    /// One of the lines of standard output which tell what is being done.
    void say(const std::string& line) const {
        if (!settings.quiet) {
            printLine(line);
        }
    }

    /// Makes the squashfs file out of a layout which holds one image, and publishes it.
    void store(const std::string& layout, const ImageReference& reference, const std::string& registryDigest) {
        say("> unpacking OCI image");
        say(cat("> making squashfs image: \"", repository.paths().squashfs(reference), '"'));
        const auto draft = repository.reserveDraft(reference, session.suffix());
        try {
            const auto built = buildSquashfs(settings.builder, layout, draft);
            const auto metadata = oci::parseImageConfig(readVerifiedBlob(layout, built.configDigest));
            const auto id = built.configDigest.substr(built.configDigest.find(':') + 1);
            throwIfInterrupted();
            repository.publish({reference,
                                session.suffix(),
                                metadata,
                                {registryDigest, id, built.squashfsDigest, built.squashfsSize,
                                 BuildRecord{settings.builder.mksquashfsOptions, built.owner, built.builder, built.compressor}}});
        } catch (...) {
            repository.dropDraft(draft);
            throw;
        }
    }

    Repository& repository;
    const ImportSettings& settings;
    ImportSession session;
    Skopeo skopeo;
};

std::string pullTransport(const PullRequest& request) {
    return request.fromContainersStorage ? "containers-storage:" : "docker://";
}

std::string pullFailure(const PullRequest& request) {
    return cat("Failed to pull image '", request.reference.full(), "'");
}

Error pullError(const PullRequest& request, const ToolResult& result) {
    const bool credentialsGiven = request.login.login || request.login.passwordStdin || request.login.username.has_value();
    return Error(pullFailure(request), join(explainPullFailure(result.err, request.reference.server, credentialsGiven), "\n"));
}

ImageSource pullSource(const PullRequest& request, const ImageReference& reference,
                       const std::optional<std::string>& authentication) {
    return {.name = cat(pullTransport(request), reference.full()),
            .authenticationFile = authentication,
            .server = request.fromContainersStorage ? "" : request.reference.server,
            .image = request.reference.full()};
}

/// The manifest that the registry has under a name. Throws Error.
std::string manifestInRegistry(const Import& import, const PullRequest& request, const ImageReference& reference,
                               const std::optional<std::string>& authentication) {
    const auto result = import.skopeo.inspectRaw(pullSource(request, reference, authentication));
    if (!result.status.ok()) {
        throw pullError(request, result);
    }
    return result.out;
}

/// The digest of the index's entry for this platform.
std::string digestForPlatform(const Import& import, const PullRequest& request, const oci::ImageIndex& index) {
    const auto platform = import.settings.skopeo.platform.value_or(oci::hostPlatform());
    if (const auto* entry = oci::selectPlatform(index, platform)) {
        return entry->digest;
    }
    std::vector<std::string> available;
    for (const auto& entry : index.manifests) {
        available.push_back(entry.platform ? printable(oci::toString(*entry.platform)) : "unknown");
    }
    throw Error(pullFailure(request),
                cat("The image does not exist for ", import.settings.skopeo.platform ? "the platform (" : "this machine (",
                    oci::toString(platform), "), only for: ", join(available, ", ")));
}

/// What the registry says about an image before it is downloaded.
struct RegistryImage {
    std::string digest;      ///< of the manifest for this platform; "" where it is of a kind that we do not know
    std::string manifest{};  ///< its text; "" if it was not asked for
};

RegistryImage imageInRegistry(const Import& import, const PullRequest& request,
                              const std::optional<std::string>& authentication) {
    const auto text = manifestInRegistry(import, request, request.reference, authentication);
    switch (oci::manifestKind(text)) {
        case oci::ManifestKind::imageManifest:
            return {cat("sha256:", sha256Hex(text)), text};
        case oci::ManifestKind::imageIndex:
            return {digestForPlatform(import, request, oci::parseImageIndex(text))};
        case oci::ManifestKind::unknown:
            break;
    }
    logWarn("ImageManager", "The registry has a manifest of unknown type: its digest is not recorded");
    return {""};
}

/// The manifest that a download will follow; nullopt if it is not known before. The registry is asked for it only where it
/// matters: each question counts as a pull at some registries, and a disk with so much space holds any image.
std::optional<oci::ImageManifest> expectedManifest(const Import& import, const PullRequest& request, const RegistryImage& image,
                                                   const std::optional<std::string>& authentication) {
    constexpr std::uint64_t plenty = std::uint64_t{256} << 30U;
    auto text = image.manifest;
    if (text.empty() && !image.digest.empty() && !request.fromContainersStorage &&
        availableSpace(import.repository.paths().cache()).value_or(plenty) < plenty) {
        auto reference = request.reference;
        reference.tag.clear();
        reference.digest = image.digest;
        text = manifestInRegistry(import, request, reference, authentication);
    }
    try {
        if (!text.empty() && oci::manifestKind(text) == oci::ManifestKind::imageManifest) {
            return oci::parseImageManifest(text);
        }
    } catch (const Error& error) {
        logInfo("ImageManager", cat("Manifest that is not understood: ", error.what()));  // who copies the image will say it
    }
    return std::nullopt;
}

void printPullHeader(const Import& import, const ImageReference& reference) {
    const auto& paths = import.repository.paths();
    import.say(cat("# image            : ", reference.full()));
    import.say(cat("# cache directory  : \"", paths.cache(), '"'));
    import.say(cat("# temp directory   : \"", import.settings.tempDir, '"'));
    import.say(cat("# images directory : \"", paths.images(), '"'));
}

void copyAndStore(Import& import, const PullRequest& request, const std::optional<std::string>& authentication,
                  const RegistryImage& image) {
    auto reference = request.reference.normalized();
    if (!image.digest.empty()) {
        reference.tag.clear();
        reference.digest = image.digest;
    }
    const auto layout = import.session.cachedLayout();
    const auto& paths = import.repository.paths();
    const auto manifest = expectedManifest(import, request, image, authentication);
    if (manifest) {
        checkSpaceForPull(paths, *manifest, pullFailure(request));
    }
    const auto copy = [&] {
        const auto missing = manifest ? missingBytes(paths, *manifest) : 0;
        const auto result = import.skopeo.copy(pullSource(request, reference, authentication), layout, missing);
        if (!result.status.ok()) {
            throw pullError(request, result);
        }
    };
    copy();
    try {
        import.store(layout, request.reference.normalized(), image.digest);
    } catch (const Error&) {
        // Skopeo trusts the names in the cache. Where one of the files there is damaged, a second download helps.
        throwIfInterrupted();
        if (!removeDamagedBlobs(layout)) {
            throw;
        }
        copy();
        import.store(layout, request.reference.normalized(), image.digest);
    }
}

}  // namespace

void pullImage(Repository& repository, const ImportSettings& settings, const PullRequest& request) {
    const InterruptScope interruptible;
    checkTemporaryDirectory(settings.tempDir);
    const auto credentials = obtainCredentials(request.login, STDIN_FILENO, STDOUT_FILENO);
    Import import(repository, settings);
    printPullHeader(import, request.reference);
    std::optional<AuthenticationFile> authentication;
    std::optional<std::string> authenticationPath;
    if (credentials) {
        authentication.emplace(authenticationDirectory(repository.paths()), import.session.suffix(), request.reference,
                               *credentials);
        authenticationPath = authentication->path();
    }
    const auto wanted = request.reference.normalized();
    const auto image =
        wanted.digest.empty() ? imageInRegistry(import, request, authenticationPath) : RegistryImage{wanted.digest};
    import.say(cat("# image digest     : ", image.digest));
    const auto stored = repository.find(wanted);
    if (stored && !image.digest.empty() && stored->registryDigest == image.digest) {
        import.say(cat("Image for ", request.reference.full(), " is already available and up to date"));
        return;
    }
    copyAndStore(import, request, authenticationPath, image);
}

namespace {

std::string loadFailure(const LoadRequest& request) {
    return cat("Failed to load image '", printable(request.file), "'");
}

/// 0 for what is no regular file.
std::uint64_t regularSize(int file) {
    struct stat status {};
    return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// The file itself, or a decompressed copy in the work directory: not all versions of skopeo can read compressed archives.
UniqueFd openUncompressed(const LoadRequest& request, const std::string& workDirectory) {
    const auto& file = request.file;
    const auto decompressor = decompressorOf(file);
    auto source = openFile(file, O_RDONLY | O_NONBLOCK);
    if (!decompressor) {
        return source;
    }
    // What is unpacked here, and what skopeo makes of it, is not smaller than the archive.
    checkSpaceForSpooling(workDirectory, 2 * regularSize(source.get()), loadFailure(request));
    const auto copyPath = cat(workDirectory, "/archive");
    auto copy = openFile(copyPath, O_RDWR | O_CREAT | O_EXCL, 0600);
    const Command command{.path = findProgram(*decompressor).value_or(cat("/usr/bin/", *decompressor)),
                          .args = {*decompressor, "-dc"},
                          .stdinFd = source.get(),
                          .stdoutFd = copy.get()};
    const auto package = *decompressor == "xz" ? "xz-utils" : *decompressor;
    const auto result = runTool(command, ToolStreams::captureErrors, package);
    if (!result.status.ok()) {
        throw Error(cat("Failed to decompress '", printable(file), "': ", printable(trim(result.err))));
    }
    return copy;
}

}  // namespace

void loadImage(Repository& repository, const ImportSettings& settings, const LoadRequest& request) {
    constexpr std::array<std::string_view, 4> known{"docker-archive", "oci-archive", "oci", "sif"};
    if (!request.sourceFormat.empty() && std::find(known.begin(), known.end(), request.sourceFormat) == known.end()) {
        throw Error(cat("Invalid source format '", printable(request.sourceFormat), "'"),
                    "Supported formats: docker-archive, oci-archive, oci, sif");
    }
    if (!decompressorOf(request.file) && request.sourceFormat.empty()) {
        transportOf(request.file, request.file);  // what is no image is refused before anything is made for it
    }
    const InterruptScope interruptible;
    Import import(repository, settings);
    // Skopeo gets the file by descriptor: a colon in the path would mean something else to it.
    const auto file = openUncompressed(request, import.session.workDirectory());
    const auto opened = cat("/proc/self/fd/", file.get());
    const auto transport = request.sourceFormat.empty() ? transportOf(opened, request.file) : request.sourceFormat;
    const auto size = regularSize(file.get());
    checkSpaceForSpooling(import.session.workDirectory(), size, loadFailure(request));
    const auto layout = import.session.privateLayout();
    createDirectories(layout, 0700);
    const bool plainLayers = transport == "docker-archive";
    const auto result =
        import.skopeo.copy({cat(transport, ':', opened), std::nullopt, file.get(), plainLayers}, layout, plainLayers ? size : 0);
    if (!result.status.ok()) {
        throw Error(loadFailure(request), skopeoMessage(result.err));
    }
    import.store(layout, request.reference, "");
}

}  // namespace sarus::image
