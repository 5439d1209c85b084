#include <unistd.h>

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "cli/stored_images.hpp"
#include "image/store/listing.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::cli {

namespace {

/// nullopt if no stored image has this name, or none can have it.
std::optional<image::ImageDetails> findImage(Context& context, const Arguments& arguments,
                                             const image::RepositoryPaths& paths, const std::string& name,
                                             bool mustBeReference) {
    image::ImageReference reference;
    try {
        reference = storedReference(context, arguments, name, "inspect");
    } catch (const Error&) {
        if (mustBeReference) {
            throw;
        }
        return std::nullopt;  // a container's name
    }
    auto found = image::inspectImage(paths, reference);
    if (!found && reference.server == "docker.io") {
        reference.server = "index.docker.io";
        found = image::inspectImage(paths, reference);
    }
    return found;
}

/// The details of one name. Those of the last one may come from the starter in place of this program.
std::string details(Context& context, const Arguments& arguments, const std::string& name, bool isOnly) {
    const auto type = arguments.value("type");
    if (type != "container") {
        const image::RepositoryPaths paths{
            context.repositoryDirectory(arguments.has("centralized-repository"))};
        if (const auto found = findImage(context, arguments, paths, name, type == "image")) {
            return arguments.has("json") ? image::formatImageDetailsJson(*found)
                                         : image::formatImageDetails(*found);
        }
        if (type == "image" || arguments.has("centralized-repository")) {
            throw Error(cat("Cannot find image '", printable(name), "'"),
                        "'sarus images' lists the stored images");
        }
    }
    const engine::InspectRequest request{
        .sessionDirectory = sessionDirectory(), .name = name, .json = arguments.has("json")};
    if (isOnly) {
        execStarter(context, request);
    }
    return askStarter(context, request);
}

int runInspect(Context& context, const Arguments& arguments) {
    const auto& names = arguments.positionals();
    const auto type = arguments.value("type");
    if (arguments.has("type") && type != "image" && type != "container") {
        throw Error(cat("Incorrect value provided for --type option: '", printable(type),
                        "'. Supported values: 'container', 'image'."));
    }
    const bool isOnly = names.size() == 1;
    const bool isList = arguments.has("json") && !isOnly;
    std::vector<std::string> all;
    for (const auto& name : names) {
        all.push_back(details(context, arguments, name, isOnly));
        if (isList) {
            all.back().pop_back();  // the newline
        }
    }
    writeAll(STDOUT_FILENO, isList ? cat("[\n", join(all, ",\n"), "\n]\n") : join(all, "\n"),
             "standard output");
    return 0;
}

}  // namespace

Subcommand inspectCommand() {
    return {
        .name = "inspect",
        .usage = "sarus inspect [OPTIONS] NAME",
        .description = "Show the details of an image or a container",
        .note =
            "Note: NAME is an image as displayed by the \"sarus images\" command,\n"
            "      otherwise the name of a running container (\"sarus ps\"). Several may be named.",
        .options = {centralizedRepositoryOption(),
                    jsonOption(),
                    {.longName = "type", .takesValue = true, .help = "Kind of NAME: 'image' or 'container'"}},
        .minPositionals = 1,
        .maxPositionals = anyNumber,
        .completions = {Completion::images, Completion::containers},
        .aliases = {"image inspect", "container inspect"},
        .run = runInspect};
}

}  // namespace sarus::cli
