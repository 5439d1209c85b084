#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "cli/stored_images.hpp"
#include "image/store/image_file.hpp"
#include "image/store/repository_paths.hpp"
#include "image/store/stored_image.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    const auto& words = arguments.positionals();
    if (words.size() == (arguments.has("output") ? 2 : 1)) {
        throw arguments.has("output") ? tooManyArguments("save")
                                      : usageError("Too few arguments for command 'save'", "save");
    }
    const auto path = arguments.has("output") ? arguments.value("output") : words[1];
    if (path == "-") {
        throw Error("'sarus save' cannot write to standard output", "Name a file: sarus save IMAGE FILE");
    }
    for (const std::string_view ending : {".tar", ".tar.gz", ".tgz", ".oci"}) {
        if (path.ends_with(ending)) {
            throw Error(
                cat("'", printable(path), "' would not be an archive: sarus save writes a squashfs file"),
                "Name it FILE.squashfs (sarus save IMAGE FILE); for an archive: skopeo copy docker://IMAGE "
                "oci-archive:FILE");
        }
    }
    const auto reference = storedReference(context, arguments, words[0], "save");
    const image::RepositoryPaths paths{context.repositoryDirectory(arguments.has("centralized-repository"))};
    const auto stored = image::openStoredImage(paths, reference);
    if (!stored) {
        throw Error(cat("Cannot find image '", reference.full(), "'"),
                    "'sarus images' lists the stored images");
    }
    const InterruptScope interruptible;
    image::writeImageFile(stored->file.get(), stored->metadata, path,
                          arguments.has("force") ? image::Existing::replace : image::Existing::keep);
    const auto shown = image::isImageFile(path) ? path : cat("./", path);
    printLine(cat("saved image ", reference.full(), " (", formatSize(stored->size),
                  "). Run it with: sarus run ", printable(shown)));
    return 0;
}

}  // namespace

Subcommand saveCommand() {
    return {.name = "save",
            .usage = "sarus save [OPTIONS] REPOSITORY[:TAG] FILE",
            .description = "Write an image to a file that can run elsewhere",
            .note =
                "Note: FILE is a squashfs file with the image's command, entrypoint, variables and\n"
                "      directory in it: \"sarus run ./FILE\".",
            .options = {centralizedRepositoryOption(),
                        {.longName = "force", .shortName = 'f', .help = "Replace FILE if it exists"},
                        {.longName = "output",
                         .shortName = 'o',
                         .takesValue = true,
                         .help = "FILE, as in Docker",
                         .completion = Completion::files}},
            .minPositionals = 1,
            .maxPositionals = 2,
            .completions = {Completion::images, Completion::files},
            .aliases = {"image save"},
            .run = run};
}

}  // namespace sarus::cli
