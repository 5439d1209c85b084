#include "image/import/store_image.hpp"

#include <unistd.h>

#include <chrono>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/progress_line.hpp"
#include "base/text.hpp"
#include "image/store/conversions.hpp"
#include "image/store/link_image.hpp"
#include "image/store/pull_lock.hpp"
#include "oci/image/image_metadata.hpp"
#include "oci/image/platform.hpp"

namespace sarus::image {

namespace {

ImportSession startSession(Repository& repository, const ImportSettings& settings) {
    repository.recover();
    removeAbandonedImports(repository.paths(), settings.tempDir);
    return {repository.paths(), settings.tempDir, repository.lockTimings()};
}

}  // namespace

Import::Import(Repository& theRepository, const ImportSettings& theSettings)
    : repository(theRepository), settings(theSettings), session(startSession(repository, settings)) {}

void Import::say(const std::string& line) const {
    if (!settings.quiet) {
        printLine(line);
    }
}

void noteInterruption(Error& error) {
    if (error.exitStatus() > 128) {
        if (canRewrite(STDERR_FILENO)) {
            writeAll(STDERR_FILENO, wipedLine, "standard error");  // a progress line of an ended program
        }
        error.setHint("Nothing was stored");
    }
}

namespace {

void sayStored(const Import& import, const ImageReference& reference, std::uint64_t size,
               const std::string& remark) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() -
                                                                          import.session.begin());
    import.say(cat("Stored ", reference.full(), " (", formatSize(size), ") in ", seconds.count(), " s",
                   remark, ". Run it with: sarus run ", reference.full(), " COMMAND"));
}

std::string idOf(const std::string& configDigest) {
    return std::string(oci::Digest(configDigest).hex());
}

/// Of an image configuration; "" if it does not say.
std::string platformText(const std::string& config) {
    const auto platform = oci::platformOfConfig(config);
    return platform.os.empty() || platform.architecture.empty() ? "" : oci::toString(platform);
}

void convert(const Import& import, const BuildSource& source, const Destination& destination,
             const std::string& layersId) {
    auto& repository = import.repository;
    const auto& reference = destination.reference;
    import.say("> unpacking OCI image");
    import.say(cat("> making squashfs image: \"", repository.paths().squashfs(reference), '"'));
    const auto draft = repository.reserveDraft(reference, import.session.suffix());
    try {
        const auto built = buildSquashfs(import.settings.builder, source, draft);
        const auto metadata = oci::parseImageConfig(built.config);
        throwIfInterrupted();
        repository.publish({reference,
                            import.session.suffix(),
                            metadata,
                            {.registryDigest = destination.registryDigest,
                             .id = idOf(built.configDigest),
                             .squashfsDigest = built.squashfsDigest,
                             .squashfsSize = built.squashfsSize,
                             .build = BuildRecord{import.settings.builder.mksquashfsOptions, built.owner,
                                                  built.builder, built.compressor},
                             .layersId = layersId,
                             .platform = platformText(built.config)}});
        noteConversion(Converter::sarus, built.layersId, repository.paths().squashfs(reference));
        sayStored(import, reference, built.squashfsSize, "");
    } catch (...) {
        repository.dropDraft(draft);
        throw;
    }
}

}  // namespace

std::optional<ImageDescription> tryToDescribe(const ImportSettings& settings, const BuildSource& source) {
    try {
        return describeImage(settings.builder, source);
    } catch (const Error& error) {
        throwIfInterrupted();
        logInfo("ImageManager", error.what());
        return std::nullopt;
    }
}

bool storeAsEqual(const Import& import, const Destination& destination, const ImageContent& content,
                  const std::optional<ImageDescription>& description) {
    auto& repository = import.repository;
    const auto equal = findEqualImage(
        repository, content, [&] { return describeConversion(import.settings.builder); },
        [&](const ImageReference& stored) {
            import.say(cat("> checking the stored image ", stored.full(), ", which has the same content"));
        });
    if (!equal) {
        return false;
    }
    NewImage image{destination.reference, import.session.suffix(), equal->metadata, *equal->info};
    image.info.registryDigest = destination.registryDigest;
    if (description) {
        image.metadata = oci::parseImageConfig(description->config);
        image.info.id = idOf(description->configDigest);
        image.info.platform = platformText(description->config);
    }
    publishLink(repository, equal->file.get(), image);
    // With options of the site, podman-hpc may not be able to use the file.
    if (import.settings.builder.mksquashfsOptions.empty()) {
        noteConversion(Converter::sarus, image.info.layersId,
                       repository.paths().squashfs(destination.reference));
    }
    sayStored(import, destination.reference, image.info.squashfsSize, " without conversion");
    return true;
}

namespace {

/// An image for another architecture is welcome where other nodes run it; here it needs a word.
void warnAboutPlatform(const Import& import, const Destination& destination, const std::string& config) {
    const auto platform = oci::platformOfConfig(config);
    const auto here = oci::hostPlatform();
    if (!import.settings.builder.platform && !platform.architecture.empty() &&
        platform.architecture != here.architecture) {
        logWarn("ImageManager",
                cat("The image ", destination.reference.full(), " is for ",
                    printable(oci::toString(platform)), ", and this machine is ", oci::toString(here)));
    }
}

}  // namespace

void storeImage(const Import& import, const BuildSource& source, const Destination& destination,
                const std::optional<ImageDescription>& description) {
    if (description) {
        warnAboutPlatform(import, destination, description->config);
    }
    if (!description || description->layersId.empty()) {
        convert(import, source, destination, "");
        return;
    }
    const PullLock lock(import.repository.paths(), cat("layers ", description->layersId),
                        [&] { import.say("> waiting for another process that converts this image"); });
    const ImageContent content{
        .layersId = description->layersId, .id = idOf(description->configDigest), .registryDigest = {}};
    if (!storeAsEqual(import, destination, content, description)) {
        convert(import, source, destination, description->layersId);
    }
}

}  // namespace sarus::image
