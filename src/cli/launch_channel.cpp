#include "cli/launch_channel.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/env_file.hpp"
#include "engine/cdi.hpp"
#include "engine/run_options.hpp"
#include "oci/device_request.hpp"
#include "oci/mount_request.hpp"

namespace sarus::cli {

engine::LaunchRequest commonRequest(const Arguments& arguments) {
    engine::LaunchRequest request;
    for (char** variable = environ; *variable != nullptr; ++variable) {
        request.hostEnvironment.emplace_back(*variable);
    }
    for (const auto& file : arguments.values("env-file")) {
        const auto variables = readEnvironmentFile(file);
        request.env.insert(request.env.end(), variables.begin(), variables.end());
    }
    for (auto& variable : arguments.values("env")) {
        request.env.push_back(std::move(variable));
    }
    if (arguments.has("workdir")) {
        request.workdir = arguments.value("workdir");
    }
    request.tty = arguments.has("tty");
    rlimit stack{};
    if (::getrlimit(RLIMIT_STACK, &stack) == 0) {
        request.stackLimit = stack.rlim_cur;
    }
    request.logLevel = logLevel();
    return request;
}

void checkOptions(const engine::LaunchRequest& request, const std::string& command) {
    for (const auto& annotation : request.annotations) {
        engine::parseAnnotation(annotation);
    }
    for (const auto& variable : request.env) {
        const auto [name, value] = engine::parseEnvironmentOption(variable);
        if (!value && ::getenv(name.c_str()) == nullptr) {
            logInfo("CLI", cat("Skipping the environment variable '", printable(name), "': it is not set"));
        }
    }
    for (const auto& mount : request.mounts) {
        oci::parseMountRequest(mount);
    }
    for (const auto& device : request.devices) {
        if (!engine::isCdiRequest(device)) {
            oci::parseDeviceRequest(device);
        }
    }
    if (request.mpiType) {
        engine::checkMpiType(*request.mpiType);
    }
    if (request.name) {
        engine::checkContainerName(*request.name);
    }
    if (request.workdir) {
        try {
            engine::checkWorkdir(*request.workdir);
        } catch (const Error& error) {
            throw Error(cat(error.what(), "\n", seeHelp(command)));
        }
    }
}

UniqueFd writeRequest(const engine::LaunchRequest& request) {
    UniqueFd channel(
        checkErrno(::memfd_create("sarus-launch-request", MFD_ALLOW_SEALING), "Failed to create the launch request"));
    writeAll(channel.get(), engine::serializeLaunchRequest(request), "the launch request");
    constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    checkErrno(::fcntl(channel.get(), F_ADD_SEALS, seals), "Failed to seal the launch request");
    return channel;
}

Option environmentOption() {
    return {.longName = "env",
            .shortName = 'e',
            .takesValue = true,
            .repeatable = true,
            .help = "Set environment variables in the container"};
}

Option environmentFileOption() {
    return {.longName = "env-file",
            .takesValue = true,
            .repeatable = true,
            .help = "Set environment variables in the container out of a file"};
}

Option terminalOption() {
    return {.longName = "tty", .shortName = 't', .help = "Allocate a pseudo-TTY in the container"};
}

Option workdirOption() {
    return {.longName = "workdir", .shortName = 'w', .takesValue = true, .help = "Set working directory inside the container"};
}

}  // namespace sarus::cli
