#include <string>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/edf.hpp"
#include "cli/edf_access.hpp"
#include "cli/prune_limits.hpp"
#include "cli/repository_access.hpp"
#include "image/import/import.hpp"
#include "image/import/store_image.hpp"
#include "image/store/image_file.hpp"
#include "image/store/listing.hpp"
#include "image/store/lookup.hpp"

namespace sarus::cli {

namespace {

std::string imageArgument(Context& context, const Arguments& arguments) {
    if (!arguments.has("edf")) {
        return arguments.positionals().front();
    }
    if (!arguments.positionals().empty()) {
        throw usageError("The option '--edf' cannot be used with the name of an image", "pull");
    }
    const auto name = arguments.value("edf");
    const auto image = edfImage(readEdf(context, name), hostVariable);
    if (!image) {
        throw Error(cat("The environment definition '", printable(name), "' names no image"));
    }
    return *image;
}

bool isStored(const std::string& repository, const image::ImageReference& reference) {
    try {
        image::findImage(repository, reference.normalized());
        return true;
    } catch (const Error&) {
        return false;  // also a damaged one, which the pull replaces
    }
}

int finish(const image::RepositoryPaths& paths, const image::ImageReference& reference, bool json) {
    if (json) {
        printLine(
            trim(image::formatImageDetailsJson(image::inspectImage(paths, reference.normalized()).value())));
    }
    return 0;
}

int runPull(Context& context, const Arguments& givenArguments) {
    auto arguments = givenArguments;
    const bool json = arguments.has("json");
    if (json) {
        arguments.set("quiet");
    }
    const auto name = imageArgument(context, arguments);
    if (arguments.has("edf") && image::isImageFile(name)) {
        logInfo("CLI", cat(printable(name), " is a file: there is nothing to pull"));
        return 0;
    }
    image::PullRequest request{
        .reference = referenceArgument(name, "pull"),
        .login = {.login = arguments.has("login"), .passwordStdin = arguments.has("password-stdin")},
        .fromContainersStorage = arguments.has("containers-storage")};
    if (arguments.has("username")) {
        request.login.username = arguments.value("username");
    }
    image::checkLoginOptions(request.login);
    const image::RepositoryPaths paths{context.repositoryDirectory(arguments.has("centralized-repository"))};
    if (arguments.has("missing") && isStored(paths.root, request.reference)) {
        return finish(paths, request.reference, json);
    }
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    try {
        image::pullImage(repository, importSettings(context, arguments), request);
    } catch (Error& error) {
        image::noteInterruption(error);
        throw;
    }
    if (!arguments.has("centralized-repository")) {
        pruneAfterPull(context, repository, request.reference.normalized(), arguments.has("quiet"));
    }
    return finish(paths, request.reference, json);
}

}  // namespace

Subcommand pullCommand() {
    return {.name = "pull",
            .usage = "sarus pull [OPTIONS] REPOSITORY[:TAG]",
            .description = "Pull an image from a registry",
            .options = {centralizedRepositoryOption(),
                        {.longName = "containers-storage",
                         .hidden = true,
                         .help = "Get the image from Podman's storage on this machine"},
                        {.longName = "edf",
                         .takesValue = true,
                         .help = "Get the image that an environment definition file names",
                         .aliases = {"environment"},
                         .completion = Completion::definitions},
                        {.longName = "json",
                         .help = "Print the stored image as JSON, for programs, and no progress"},
                        {.longName = "login", .help = "Enter user credentials for a private repository"},
                        {.longName = "missing", .help = "Do nothing if the repository has the image"},
                        {.longName = "password-stdin",
                         .help = "Read the password for a private repository from standard input"},
                        platformOption(),
                        quietOption(),
                        temporaryDirectoryOption(),
                        {.longName = "username",
                         .shortName = 'u',
                         .takesValue = true,
                         .help = "User name for a private repository",
                         .aliases = {"user"}}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .optionForPositionals = "edf",
            .usesRepository = true,
            .aliases = {"image pull"},
            .run = runPull};
}

}  // namespace sarus::cli
