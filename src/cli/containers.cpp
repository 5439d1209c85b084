#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"

namespace sarus::cli {

namespace {

/// The runtime's state belongs to the starter, which shows and touches only the caller's containers.
[[noreturn]] void execStarter(Context& context, std::vector<std::string> arguments) {
    auto starter = cat(context.prefix(), "/libexec/sarus-starter");
    arguments.insert(arguments.begin(), starter);
    std::vector<char*> argv;
    for (auto& argument : arguments) {
        argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    char* environment = nullptr;
    ::execve(starter.c_str(), argv.data(), &environment);
    throw Error::fromErrno(cat("Failed to execute ", printable(starter)), errno, "Is the installation complete?");
}

std::string sessionDirectory() {
    const char* directory = std::getenv("XDG_RUNTIME_DIR");
    return directory == nullptr ? "" : directory;
}

int ps(Context& context, const Arguments&) {
    execStarter(context, {"ps", sessionDirectory()});
}

int kill(Context& context, const Arguments& arguments) {
    const auto signal = arguments.has("signal") ? arguments.value("signal") : "SIGHUP";
    execStarter(context, {"kill", sessionDirectory(), signal, arguments.positionals().front()});
}

}  // namespace

Command psCommand() {
    return {.name = "ps",
            .usage = "sarus ps",
            .description = "List running containers",
            .note = {},
            .options = {},
            .minPositionals = 0,
            .maxPositionals = anyNumber,  // ignored, as they always were
            .run = ps};
}

Command killCommand() {
    return {.name = "kill",
            .usage = "sarus kill [OPTIONS] NAME",
            .description = "Send a signal to a running container",
            .note = {},
            .options = {{.longName = "signal",
                         .shortName = 's',
                         .takesValue = true,
                         .help = "Signal to send, by name or number. Default: SIGHUP"}},
            .minPositionals = 1,
            .maxPositionals = 1,
            .run = kill};
}

}  // namespace sarus::cli
