#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "cli/stored_images.hpp"
#include "engine/run_options.hpp"
#include "image/store/image_file.hpp"
#include "image/store/index.hpp"
#include "image/store/lookup.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/stored_image.hpp"
#include "oci/image/image_metadata.hpp"
#include "squashfs/identity.hpp"

namespace sarus::cli {

namespace {

std::string outputPath(const Arguments& arguments) {
    const auto& words = arguments.positionals();
    if (words.size() == (arguments.has("output") ? 2 : 1)) {
        throw arguments.has("output") ? tooManyArguments("save")
                                      : usageError("Too few arguments for command 'save'", "save");
    }
    auto path = arguments.has("output") ? arguments.value("output") : words[1];
    if (path == "-") {
        throw Error("'sarus save' cannot write to standard output", "Name a file: sarus save IMAGE FILE");
    }
    if (path.ends_with('/') || isDirectory(path)) {
        throw Error(cat("Failed to create ", printable(path), ": it is a directory"),
                    "Name a file: sarus save IMAGE FILE");
    }
    for (const std::string_view ending : {".tar", ".tar.gz", ".tgz", ".oci"}) {
        if (path.ends_with(ending)) {
            throw Error(
                cat("'", printable(path), "' would not be an archive: sarus save writes a squashfs file"),
                "Name it FILE.squashfs (sarus save IMAGE FILE); for an archive: skopeo copy docker://IMAGE "
                "oci-archive:FILE");
        }
    }
    return path;
}

image::Existing whatExists(const Arguments& arguments) {
    return arguments.has("force") ? image::Existing::replace : image::Existing::keep;
}

void sayWritten(const std::string& what, std::uint64_t size, const std::string& path) {
    const auto shown = image::isImageFile(path) ? path : cat("./", path);
    printLine(cat("saved ", what, " (", formatSize(size), "). Run it with: sarus run ", printable(shown)));
}

/// A container that was kept, and what it was made from.
struct Kept {
    std::string name;
    std::string content;
    std::string image;
};

std::string callersJob() {
    return hostVariable("SLURM_JOB_ID").value_or("");
}

/// nullopt if no container has the name. Throws Error.
std::optional<Kept> findKept(Context& context, const std::string& name) {
    try {
        engine::checkContainerName(name);
    } catch (const Error&) {
        return std::nullopt;
    }
    const auto answer = askStarter(context, engine::SaveRequest{.job = callersJob(), .name = name});
    const auto end = answer.find('\n');
    if (end == std::string::npos) {
        return std::nullopt;
    }
    return Kept{name, answer.substr(0, end), answer.substr(end + 1, answer.size() - end - 2)};
}

/// What a container was made from.
struct Base {
    UniqueFd file;
    oci::ImageMetadata metadata;
};

bool isBaseOf(const Kept& kept, const UniqueFd& file, const std::string& path) {
    return squashfs::contentOf(file.get(), printable(path)) == kept.content;
}

std::optional<Base> findBase(Context& context, const Kept& kept) {
    if (image::isImageFile(kept.image)) {
        auto file = image::openImageFile(kept.image);
        auto metadata = image::metadataOfImageFile(kept.image, file.get());
        return isBaseOf(kept, file, kept.image) ? std::optional(Base{std::move(file), std::move(metadata)})
                                                : std::nullopt;
    }
    const auto reference = referenceArgument(kept.image, "save").normalized();
    for (const bool isCentralized : {false, true}) {
        if (isCentralized && !context.config().centralizedRepositoryDir) {
            continue;
        }
        auto found = image::openImage(context.repositoryDirectory(isCentralized), reference);
        if (found && isBaseOf(kept, found->file, found->path)) {
            return Base{std::move(found->file), std::move(found->metadata)};
        }
    }
    return std::nullopt;
}

Base openBase(Context& context, const Kept& kept) {
    const auto failure =
        cat("Failed to save the container '", kept.name, "': the image that it was made from, ",
            printable(kept.image), ", is gone or was replaced");
    constexpr const char* hint =
        "The container has only its changes. Copy what you need out of it: sarus run --name, with a mount";
    try {
        if (auto base = findBase(context, kept)) {
            return std::move(*base);
        }
    } catch (const Error& error) {
        throw Error(failure, cat(error.what(), '\n', hint));
    }
    throw Error(failure, hint);
}

int saveContainer(Context& context, const Arguments& arguments, const Kept& kept, const std::string& path) {
    const auto base = openBase(context, kept);
    const InterruptScope interruptible;
    image::ImageFileDraft file(path, whatExists(arguments));
    const auto status = runStarter(
        context,
        engine::SaveRequest{
            .job = callersJob(), .name = kept.name, .content = kept.content, .imageFd = base.file.get()},
        file.fd());
    if (!status.ok()) {
        return status.code;  // the user has the message
    }
    file.publish(oci::serializeImageMetadata(base.metadata));
    sayWritten(cat("container ", kept.name), image::checkImageFile(file.fd(), path), path);
    return 0;
}

std::optional<image::StoredImage> findImage(Context& context, const Arguments& arguments,
                                            const image::ImageReference& reference) {
    const image::RepositoryPaths paths{context.repositoryDirectory(arguments.has("centralized-repository"))};
    return image::openStoredImage(paths, reference);
}

int saveImage(const Arguments& arguments, const image::ImageReference& reference,
              const image::StoredImage& stored, const std::string& path) {
    const InterruptScope interruptible;
    image::writeImageFile(stored.file.get(), stored.metadata, path, whatExists(arguments));
    sayWritten(cat("image ", reference.full()), stored.size, path);
    return 0;
}

/// A stored image is meant before a container of the same name.
int runSave(Context& context, const Arguments& arguments) {
    const auto path = outputPath(arguments);
    const auto& name = arguments.positionals().front();
    if (arguments.has("container") && arguments.has("centralized-repository")) {
        throw usageError("The option '--container' cannot be used with '--centralized-repository'", "save");
    }
    std::optional<Error> problem;  // matters only if there is no image of the name
    std::optional<Kept> kept;
    if (!arguments.has("centralized-repository")) {
        try {
            kept = findKept(context, name);
        } catch (const Error& error) {
            problem = error;
        }
    }
    if (arguments.has("container")) {
        if (problem) {
            throw Error(*problem);
        }
        if (!kept) {
            throw Error(cat("No container with the name '", printable(name), "' was kept"),
                        "'sarus ps --all' lists them");
        }
        return saveContainer(context, arguments, *kept, path);
    }
    std::optional<image::ImageReference> reference;
    try {
        reference = storedReference(context, arguments, name, "save");
    } catch (const Error&) {
        if (!kept) {
            throw;
        }
    }
    if (const auto stored = reference ? findImage(context, arguments, *reference) : std::nullopt) {
        const int status = saveImage(arguments, *reference, *stored, path);
        if (kept) {
            printLine(
                cat("The container of this name was not saved: sarus save --container ", name, " FILE"));
        }
        return status;
    }
    if (kept) {
        return saveContainer(context, arguments, *kept, path);
    }
    throw problem ? *problem
                  : Error(cat("Cannot find image '", reference->full(), "'"),
                          "'sarus images' lists the stored images, 'sarus ps --all' the containers");
}

}  // namespace

Subcommand saveCommand() {
    return {.name = "save",
            .usage = "sarus save [OPTIONS] REPOSITORY[:TAG]|CONTAINER FILE",
            .description = "Write an image or a container to a file that can run elsewhere",
            .note =
                "Note: FILE is a squashfs file with the image's command, entrypoint, variables and\n"
                "      directory in it: \"sarus run ./FILE\". CONTAINER is one that was kept (\"sarus run\n"
                "      --keep\") and does not run: its image and its changes. A stored image of the same\n"
                "      name comes first.",
            .options = {centralizedRepositoryOption(),
                        {.longName = "container", .help = "Save a container, even if an image has its name"},
                        {.longName = "force", .shortName = 'f', .help = "Replace FILE if it exists"},
                        {.longName = "output",
                         .shortName = 'o',
                         .takesValue = true,
                         .help = "FILE, as in Docker",
                         .completion = Completion::files}},
            .minPositionals = 1,
            .maxPositionals = 2,
            .completions = {Completion::images, Completion::containers, Completion::files},
            .aliases = {"image save"},
            .run = runSave};
}

}  // namespace sarus::cli
