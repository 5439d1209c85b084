#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "image/import.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    const image::LoadRequest request{.file = arguments.positionals()[0],
                                     .reference = image::parseLoadReference(arguments.positionals()[1]),
                                     .sourceFormat = arguments.value("source-format")};
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    image::loadImage(repository, importSettings(context, arguments), request);
    return 0;
}

}  // namespace

Command loadCommand() {
    return {
        .name = "load",
        .usage = "sarus load [OPTIONS] FILE NAME[:TAG]",
        .description = "Load the contents of a tarball to create a filesystem image",
        .note = {},
        .options = {centralizedRepositoryOption(),
                    platformOption(),
                    quietOption(),
                    {.longName = "source-format",
                     .takesValue = true,
                     .hidden = true,
                     .help = "Format of the file: docker-archive, oci-archive, oci or sif. Default: found out from the content"},
                    temporaryDirectoryOption()},
        .minPositionals = 2,
        .maxPositionals = 2,
        .run = run};
}

}  // namespace sarus::cli
