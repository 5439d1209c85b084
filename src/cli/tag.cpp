#include "image/store/tag.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "cli/stored_images.hpp"

namespace sarus::cli {

namespace {

int runTag(Context& context, const Arguments& arguments) {
    const auto source = storedReference(context, arguments, arguments.positionals()[0], "tag");
    const auto target = referenceArgument(arguments.positionals()[1], "tag").normalized();
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    image::tagImage(repository, context.config().tempDir, source, target);
    printLine(cat("tagged image ", source.full(), " as ", target.full()));
    return 0;
}

}  // namespace

Subcommand tagCommand() {
    return {.name = "tag",
            .usage = "sarus tag [OPTIONS] SOURCE[:TAG] TARGET[:TAG]",
            .description = "Add another name for a stored image",
            .options = {centralizedRepositoryOption()},
            .minPositionals = 2,
            .maxPositionals = 2,
            .usesRepository = true,
            .completions = {Completion::images},
            .aliases = {"image tag"},
            .run = runTag};
}

}  // namespace sarus::cli
