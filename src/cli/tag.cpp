#include "image/tag.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    const auto source = image::parseReference(arguments.positionals()[0]).normalized();
    const auto target = image::parseReference(arguments.positionals()[1]).normalized();
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    image::tagImage(repository, context.config().tempDir, source, target);
    printLine(cat("tagged image ", source.full(), " as ", target.full()));
    return 0;
}

}  // namespace

Command tagCommand() {
    return {.name = "tag",
            .usage = "sarus tag [OPTIONS] SOURCE[:TAG] TARGET[:TAG]",
            .description = "Give a further name to a stored image",
            .note = {},
            .options = {centralizedRepositoryOption()},
            .minPositionals = 2,
            .maxPositionals = 2,
            .run = run};
}

}  // namespace sarus::cli
