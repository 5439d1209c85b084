#include "cli/command.hpp"
#include "cli/repository_access.hpp"
#include "image/import.hpp"

namespace sarus::cli {

namespace {

int run(Context& context, const Arguments& arguments) {
    image::PullRequest request{.reference = image::parseReference(arguments.positionals().front()),
                               .login = {.login = arguments.has("login"), .passwordStdin = arguments.has("password-stdin")},
                               .fromContainersStorage = arguments.has("containers-storage")};
    if (arguments.has("username")) {
        request.login.username = arguments.value("username");
    }
    image::checkLoginOptions(request.login);
    auto repository = openRepository(context, arguments, image::RepositoryAccess::write);
    image::pullImage(repository, importSettings(context, arguments), request);
    return 0;
}

}  // namespace

Command pullCommand() {
    return {.name = "pull",
            .usage = "sarus pull [OPTIONS] REPOSITORY[:TAG]",
            .description = "Pull an image from a registry",
            .note = {},
            .options = {centralizedRepositoryOption(),
                        {.longName = "containers-storage",
                         .hidden = true,
                         .help = "Get the image from Podman's storage on this machine"},
                        {.longName = "login", .help = "Enter user credentials for private repository"},
                        {.longName = "password-stdin", .help = "Read password for private repository from stdin"},
                        platformOption(),
                        quietOption(),
                        temporaryDirectoryOption(),
                        {.longName = "username",
                         .shortName = 'u',
                         .takesValue = true,
                         .help = "Username for private repository",
                         .aliases = {"user"}}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .run = run};
}

}  // namespace sarus::cli
