#include "cli/starter_call.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/place/repository_place.hpp"
#include "image/transfer/run_tool.hpp"

namespace sarus::cli {

namespace {

std::string hintFor(const std::string& starter, int error) {
    struct stat status {};
    const bool executable =
        error == EACCES && ::stat(starter.c_str(), &status) == 0 && (status.st_mode & S_IXGRP) != 0;
    if (executable && (status.st_mode & S_IXOTH) == 0) {
        return cat("Only members of the group ", status.st_gid,
                   " may start containers with this installation (see the command `id`)");
    }
    return "Check that the installation is complete";
}

std::string starterPath(Context& context) {
    return cat(context.prefix(), "/libexec/sarus-starter");
}

/// It survives the start of a program.
UniqueFd writeRequest(const engine::StarterRequest& request) {
    auto channel = makeMemoryFile("sarus-request", engine::serializeRequest(request));
    passOn(channel.get());
    return channel;
}

Command starterCommand(Context& context, const engine::StarterRequest& request, int channel) {
    std::vector<int> kept{channel};
    if (const auto* const launch = std::get_if<engine::LaunchRequest>(&request)) {
        kept.push_back(launch->imageFd);
    } else if (const auto* const save = std::get_if<engine::SaveRequest>(&request);
               save != nullptr && save->imageFd >= 0) {
        kept.push_back(save->imageFd);
    }
    return {.path = starterPath(context),
            .args = {"sarus-starter", cat(channel)},
            .environment = std::vector<std::string>{},
            .keepFds = std::move(kept)};
}

}  // namespace

void execStarter(Context& context, const engine::StarterRequest& request) {
    const auto channel = writeRequest(request);
    auto starter = starterPath(context);
    auto number = cat(channel.get());
    std::array<char*, 3> argv{starter.data(), number.data(), nullptr};
    char* environment = nullptr;
    ::execve(starter.c_str(), argv.data(), &environment);
    const int error = errno;
    throw Error::fromErrno(cat("Failed to execute ", printable(starter)), error, hintFor(starter, error))
        .setId("starter-not-executable");
}

std::string askStarter(Context& context, const engine::StarterRequest& request) {
    const auto channel = writeRequest(request);
    auto output = runAndCapture(starterCommand(context, request, channel.get()));
    if (!output.status.ok()) {
        const auto lines = split(trim(output.err), '\n');
        throw Error(printable(lines.front()), join(std::span(lines).subspan(1), "\n"));
    }
    return std::move(output.out);
}

ExitStatus runStarter(Context& context, const engine::StarterRequest& request, int standardInput) {
    const auto channel = writeRequest(request);
    auto command = starterCommand(context, request, channel.get());
    command.stdinFd = standardInput;
    auto tool = image::startTool(std::move(command), "sarus");
    ExitStatus status;
    {
        const SignalForwarding forwarding(tool.process);
        status = tool.process.wait();
    }
    throwIfInterrupted();
    if (status.signal != 0) {
        throw Error(cat("The image builder was ended by signal ", status.signal));
    }
    return status;
}

void ensureUserDirectory(Context& context, const std::string& repository) {
    if (image::createUserDirectory(repository)) {
        return;
    }
    const auto& config = context.config();
    if (repository != image::usualRepositoryDirectory(repositorySettings(config))) {
        throw Error(cat("Failed to create the image repository ", printable(repository), ": no permission"),
                    cat("Change ", findRepositoryPlace(config).chosenBy));
    }
    askStarter(context, engine::CreateRepositoryRequest());
}

std::string sessionDirectory() {
    return hostVariable("XDG_RUNTIME_DIR").value_or("");
}

Option jsonOption() {
    return {.longName = "json", .help = "Print JSON, for programs"};
}

}  // namespace sarus::cli
