#include "cli/repository_access.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/edf.hpp"
#include "cli/place/repository_place.hpp"
#include "cli/starter_call.hpp"
#include "image/store/image_file.hpp"

namespace sarus::cli {

namespace {

/// Once: from then on, the chosen place has an index.
void mentionLeftImages(const RepositoryPlace& place) {
    if (place.leavesImages() && !pathExists(image::RepositoryPaths{place.directory}.index())) {
        logWarn("ImageStore",
                cat("The images in ", printable(place.usual), " are not used: ", place.chosenBy, " names ",
                    printable(place.directory), ". To move them: ", place.moveCommand()));
    }
}

/// Other engines name a registry's images so.
std::string withoutTransport(const std::string& text) {
    constexpr std::string_view registry = "docker://";
    return text.starts_with(registry) ? text.substr(registry.size()) : text;
}

/// Images in files and in stores of other programs (containers-transports(5)).
void refuseOtherPlaces(const std::string& text) {
    const auto colon = text.find(':');
    if (colon == std::string::npos || text.compare(colon, 3, "://") == 0) {
        return;
    }
    const auto place = text.substr(0, colon);
    const auto rest = text.substr(colon + 1);
    if (place == "docker-archive" || place == "oci-archive") {
        throw Error(cat("'", printable(text), "' is a file, not an image of a registry"),
                    cat("Store it as an image: sarus load ", rest.empty() ? "FILE" : shellWord(rest)));
    }
    if (place == "docker-daemon" || place == "containers-storage") {
        throw Error(cat("'", printable(text), "' is an image in the store of another program"),
                    "Write it to a file with its command 'save', and store that: sarus load FILE");
    }
}

}  // namespace

image::Repository openRepository(Context& context, const Arguments& arguments,
                                 image::RepositoryAccess access) {
    const bool centralized = arguments.has("centralized-repository");
    auto directory = context.repositoryDirectory(centralized);
    if (centralized) {
        if (access == image::RepositoryAccess::write && ::geteuid() != 0) {
            logWarn("CLI", "Only root should change the centralized repository");
        }
    } else {
        ensureUserDirectory(context, directory);
        mentionLeftImages(findRepositoryPlace(context.config()));
    }
    logInfo("ImageStore", cat("Repository ", printable(directory)));
    return {std::move(directory), access, {context.config().lockTimeoutMs, context.config().lockWarningMs}};
}

image::ImportSettings importSettings(Context& context, const Arguments& arguments) {
    const auto& config = context.config();
    image::ImportSettings settings{
        .skopeo = {.path = config.skopeoPath,
                   .policy = std::nullopt,
                   .registriesDPath = config.containersRegistriesDPath},
        .builder = {.path = cat(context.prefix(), "/libexec/sarus-image-builder"),
                    .mksquashfsOptions = config.mksquashfsOptions,
                    .maxUnpackedSize = config.imageLimits.maxUnpackedSize,
                    .maxEntries = config.imageLimits.maxEntries},
        .tempDir = arguments.has("temp-dir") ? arguments.value("temp-dir") : config.tempDir};
    settings.skopeo.timings = {config.registryTimeoutMs, config.registryWarningMs};
    if (config.containersPolicy) {
        settings.skopeo.policy =
            image::PolicyChoice{config.containersPolicy->path, config.containersPolicy->enforce};
    }
    settings.quiet = settings.skopeo.quiet = settings.builder.quiet = arguments.has("quiet");
    if (arguments.has("platform")) {
        settings.skopeo.platform = oci::parsePlatformName(arguments.value("platform"));
        settings.builder.platform = oci::toString(*settings.skopeo.platform);
    }
    return settings;
}

image::ImageReference referenceArgument(const std::string& text, const std::string& command) {
    try {
        refuseOtherPlaces(text);
        return command == "load" ? image::parseLoadReference(text)
                                 : image::parseReference(withoutRegistryMark(withoutTransport(text)));
    } catch (Error& error) {
        if (command == "load" && error.hint().empty() && image::isImageFile(text) && pathExists(text)) {
            error.setHint("FILE comes first: sarus load FILE NAME[:TAG]");
        }
        if (command == "run" && !image::isImageFile(text) && pathExists(text) && !isDirectory(text)) {
            error.setHint(cat("To run the file: sarus run ./", printable(text)));
        }
        const auto see = seeHelp(command);
        throw error.hint() == see ? error : error.addUsage(see);
    }
}

Option centralizedRepositoryOption() {
    return {.longName = "centralized-repository",
            .help = "Use the centralized repository instead of the local one"};
}

Option platformOption() {
    return {.longName = "platform",
            .takesValue = true,
            .help = "Platform of the image, as OS/ARCH[/VARIANT]. Default: that of this machine"};
}

Option quietOption() {
    return {.longName = "quiet", .shortName = 'q', .help = "Print only warnings and errors"};
}

Option temporaryDirectoryOption() {
    return {.longName = "temp-dir",
            .takesValue = true,
            .help = "Directory for temporary files",
            .completion = Completion::files};
}

}  // namespace sarus::cli
