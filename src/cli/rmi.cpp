#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/images_in_use.hpp"
#include "cli/repository_access.hpp"
#include "cli/stored_images.hpp"

namespace sarus::cli {

namespace {

std::map<std::string, std::vector<std::string>> knownContainers(Context& context) {
    try {
        return containersByImage(context, Kept::no);
    } catch (const std::exception&) {
        return {};  // removing needs no working starter
    }
}

/// An ID stands for all names of its image if it is given once for each of them, as by `sarus images -q`.
std::vector<image::ImageReference> namedImages(Context& context, const Arguments& arguments) {
    std::vector<image::ImageReference> all;
    const auto& words = arguments.positionals();
    for (const auto& word : words) {
        const auto found = storedReferences(context, arguments, word, "rmi");
        const auto count = static_cast<std::size_t>(std::count(words.begin(), words.end(), word));
        if (count < found.size() && !arguments.has("force")) {
            std::vector<std::string> names(found.size());
            std::transform(found.begin(), found.end(), names.begin(),
                           [](const image::ImageReference& name) { return name.full(); });
            throw Error(cat("The image '", printable(word), "' has several names"),
                        cat("Name those to remove, or all with --force: ", join(names, ", ")));
        }
        for (const auto& name : found) {
            if (std::none_of(all.begin(), all.end(),
                             [&](const auto& known) { return known.full() == name.full(); })) {
                all.push_back(name);
            }
        }
    }
    return all;
}

int runRmi(Context& context, const Arguments& arguments) {
    const bool isAll = arguments.has("all");
    if (isAll && !arguments.positionals().empty()) {
        throw usageError("The option '--all' cannot be used with names of images", "rmi");
    }
    auto references = namedImages(context, arguments);
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    if (isAll) {
        for (const auto& image : repository.list()) {
            references.push_back(image.reference);
        }
    }
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
        .options = {{.longName = "all", .shortName = 'a', .help = "Remove all images"},
                    centralized,
                    {.longName = "force",
                     .shortName = 'f',
                     .help = "Remove all names of an image that is named by its ID"}},
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .optionForPositionals = "all",
        .usesRepository = true,
        .completions = {Completion::images},
        .aliases = {"image rm", "image remove"},
        .run = runRmi};
}

}  // namespace sarus::cli
