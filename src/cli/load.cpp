#include "image/import/load.hpp"

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/repository_access.hpp"
#include "image/import/store_image.hpp"

namespace sarus::cli {

namespace {

int runLoad(Context& context, const Arguments& arguments) {
    auto words = arguments.positionals();
    if (arguments.has("input")) {
        words.insert(words.begin(), arguments.value("input"));
    }
    if (words.size() > 2) {
        throw tooManyArguments("load");
    }
    image::LoadRequest request{.file = words[0], .sourceFormat = arguments.value("source-format")};
    for (const std::string_view format : {"docker-archive", "oci-archive", "oci"}) {
        // As skopeo and Podman name it.
        if (request.sourceFormat.empty() && request.file.starts_with(cat(format, ':')) &&
            !pathExists(request.file)) {
            request.file.erase(0, format.size() + 1);
            request.sourceFormat = format;
        }
    }
    if (words.size() > 1) {
        request.reference = referenceArgument(words[1], "load");
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    try {
        image::loadImage(repository, importSettings(context, arguments), request);
    } catch (Error& error) {
        image::noteInterruption(error);
        throw;
    }
    return 0;
}

}  // namespace

Subcommand loadCommand() {
    return {.name = "load",
            .usage = "sarus load [OPTIONS] FILE [NAME[:TAG]]",
            .description = "Load the contents of a tarball to create a filesystem image",
            .note =
                "Note: FILE is an archive of \"docker save\" or \"podman save\", an OCI archive, or the "
                "directory of\n"
                "      an OCI layout; \"-\" reads an archive from standard input.\n"
                "      Without NAME, the image keeps its name in the archive.",
            .options = {centralizedRepositoryOption(),
                        {.longName = "input",
                         .shortName = 'i',
                         .takesValue = true,
                         .help = "FILE, as in Docker",
                         .completion = Completion::files},
                        platformOption(),
                        quietOption(),
                        {.longName = "source-format",
                         .takesValue = true,
                         .hidden = true,
                         .help = "Format of the file: docker-archive, oci-archive, oci or sif. Default: "
                                 "recognised by the content"},
                        temporaryDirectoryOption()},
            .minPositionals = 1,
            .maxPositionals = 2,
            .optionForPositionals = "input",
            .usesRepository = true,
            .completions = {Completion::files},
            .aliases = {"image load"},
            .run = runLoad};
}

}  // namespace sarus::cli
