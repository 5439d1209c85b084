#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/images_in_use.hpp"
#include "cli/repository_access.hpp"
#include "cli/stored_images.hpp"

namespace sarus::cli {

namespace {

std::map<std::string, std::vector<std::string>> knownContainers(Context& context) {
    try {
        return containersByImage(context);
    } catch (const std::exception&) {
        return {};  // removing needs no working starter
    }
}

int run(Context& context, const Arguments& arguments) {
    std::vector<image::ImageReference> references;
    for (const auto& name : arguments.positionals()) {
        references.push_back(storedReference(context, arguments, name, "rmi"));
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    const auto inUse = knownContainers(context);
    std::optional<Error> missing;
    for (const auto& reference : references) {
        if (repository.remove(reference)) {
            printLine(cat("removed image ", reference.full()));
            if (const auto users = inUse.find(reference.full()); users != inUse.end()) {
                printLine(
                    cat("running containers keep it until they end: ", printable(join(users->second, ", "))));
            }
            continue;
        }
        if (missing) {
            printError(*missing);
        }
        missing.emplace(cat("Cannot find image '", reference.full(), "'"));
    }
    if (missing) {
        throw *missing;
    }
    return 0;
}

}  // namespace

Subcommand rmiCommand() {
    auto centralized = centralizedRepositoryOption();
    centralized.hidden = true;
    return {
        .name = "rmi",
        .usage = "sarus rmi REPOSITORY[:TAG]",
        .description = "Remove an image",
        .note =
            "Note: REPOSITORY[:TAG] has to be specified as\n      displayed by the \"sarus images\" command. "
            "Several images may be named.\n      A container that runs keeps its image until it ends.",
        .options = {centralized},
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .usesRepository = true,
        .completions = {Completion::images},
        .aliases = {"rm", "image rm", "image remove"},
        .run = run};
}

}  // namespace sarus::cli
