#include "cli/repository_access.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "image/repository_location.hpp"

namespace sarus::cli {

image::Repository openRepository(Context& context, const Arguments& arguments, image::RepositoryAccess access) {
    const bool centralized = arguments.has("centralized-repository");
    auto directory = context.repositoryDirectory(centralized);
    if (centralized) {
        if (access == image::RepositoryAccess::write && ::geteuid() != 0) {
            logWarn("CLI", "The centralized repository is meant to be changed by root only");
        }
        ::umask(022);  // everybody reads it
    } else {
        image::ensureUserDirectory(directory, cat(context.prefix(), "/libexec/sarus-starter"));
    }
    logInfo("ImageStore", cat("Repository ", printable(directory)));
    return {std::move(directory), access, {context.config().lockTimeoutMs, context.config().lockWarningMs}};
}

image::ImportSettings importSettings(Context& context, const Arguments& arguments) {
    const auto& config = context.config();
    image::ImportSettings settings{
        .skopeo = {.path = config.skopeoPath, .policy = std::nullopt, .registriesDPath = config.containersRegistriesDPath},
        .builder = {.path = cat(context.prefix(), "/libexec/sarus-image-builder"),
                    .mksquashfsOptions = config.mksquashfsOptions,
                    .maxUnpackedSize = config.imageLimits.maxUnpackedSize,
                    .maxEntries = config.imageLimits.maxEntries},
        .tempDir = arguments.has("temp-dir") ? arguments.value("temp-dir") : config.tempDir};
    settings.skopeo.timings = {config.registryTimeoutMs, config.registryWarningMs};
    if (config.containersPolicy) {
        settings.skopeo.policy = image::PolicyChoice{config.containersPolicy->path, config.containersPolicy->enforce};
    }
    settings.quiet = settings.skopeo.quiet = settings.builder.quiet = arguments.has("quiet");
    if (arguments.has("platform")) {
        settings.skopeo.platform = oci::parsePlatformName(arguments.value("platform"));
        settings.builder.platform = oci::toString(*settings.skopeo.platform);
    }
    return settings;
}

Option centralizedRepositoryOption() {
    return {.longName = "centralized-repository", .help = "Use centralized repository instead of the local one"};
}

Option platformOption() {
    return {.longName = "platform",
            .takesValue = true,
            .help = "Platform of the image to choose, as OS/ARCH[/VARIANT]. Default: this machine's"};
}

Option quietOption() {
    return {.longName = "quiet", .shortName = 'q', .help = "Print nothing but warnings and errors"};
}

Option temporaryDirectoryOption() {
    return {.longName = "temp-dir", .takesValue = true, .help = "Temporary directory where the image is unpacked"};
}

}  // namespace sarus::cli
