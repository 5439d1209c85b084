#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    const auto reference = image::parseReference(arguments.positionals().front()).normalized();
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    if (!repository.remove(reference)) {
        throw Error(cat("Cannot find image '", reference.full(), "'"));
    }
    printLine(cat("removed image ", reference.full()));
    return 0;
}

}  // namespace

Command rmiCommand() {
    auto centralized = centralizedRepositoryOption();
    centralized.hidden = true;
    return {.name = "rmi",
            .usage = "sarus rmi REPOSITORY[:TAG]",
            .description = "Remove an image",
            .note = "Note: REPOSITORY[:TAG] has to be specified as\n      displayed by the \"sarus images\" command.",
            .options = {centralized},
            .minPositionals = 1,
            .maxPositionals = 1,
            .run = run};
}

}  // namespace sarus::cli
