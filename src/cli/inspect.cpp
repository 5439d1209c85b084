#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "cli/starter_call.hpp"
#include "image/listing.hpp"
#include "image/repository_paths.hpp"

namespace sarus::cli {

namespace {

constexpr int standardOutput = 1;

/// nullopt if the name is that of no stored image, or cannot be one.
std::optional<image::ImageDetails> findImage(const image::RepositoryPaths& paths, const std::string& name, bool mustBeReference) {
    image::ImageReference reference;
    try {
        reference = image::parseReference(name).normalized();
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

int run(Context& context, const Arguments& arguments) {
    const auto& name = arguments.positionals().front();
    const auto type = arguments.value("type");
    if (arguments.has("type") && type != "image" && type != "container") {
        throw Error(
            cat("Incorrect value provided for --type option: '", printable(type), "'. Supported values: 'container', 'image'."));
    }
    if (type != "container") {
        const image::RepositoryPaths paths{context.repositoryDirectory(arguments.has("centralized-repository"))};
        if (const auto found = findImage(paths, name, type == "image")) {
            writeAll(standardOutput,
                     arguments.has("json") ? image::formatImageDetailsJson(*found) : image::formatImageDetails(*found),
                     "standard output");
            return 0;
        }
        if (type == "image" || arguments.has("centralized-repository")) {
            throw Error(cat("Cannot find image '", printable(name), "'"), "'sarus images' lists the stored images");
        }
    }
    execStarter(context, {"inspect", sessionDirectory(), outputForm(arguments), name});
}

}  // namespace

Command inspectCommand() {
    return {.name = "inspect",
            .usage = "sarus inspect [OPTIONS] NAME",
            .description = "Show the details of an image or of a container",
            .note =
                "Note: NAME is an image as displayed by the \"sarus images\" command,\n"
                "      or else the name of a running container (\"sarus ps\").",
            .options = {centralizedRepositoryOption(),
                        jsonOption(),
                        {.longName = "type", .takesValue = true, .help = "What NAME is: 'image' or 'container'"}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .run = run};
}

}  // namespace sarus::cli
