#include "hooks/mps/settings.hpp"

#include <sys/un.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::mps {

namespace {

std::string absolutePath(const HookEnvironment& environment, std::string_view name) {
    auto path = environment.find(name).value_or("");
    if (!path.empty() && path.front() != '/') {
        throw Error(cat(name, ": not an absolute path: '", printable(path), "'"));
    }
    return path;
}

}  // namespace

std::string Settings::directoryOf(uid_t uid) const {
    return cat(userDirectory, "/nvidia-mps-", uid);
}

std::vector<std::string> Settings::environment() const {
    std::vector<std::string> variables{cat("PATH=", searchPath),
                                       cat("CUDA_MPS_PIPE_DIRECTORY=", pipeDirectory)};
    if (!logDirectory.empty()) {
        variables.push_back(cat("CUDA_MPS_LOG_DIRECTORY=", logDirectory));
    }
    if (!visibleDevices.empty()) {
        variables.push_back(cat("CUDA_VISIBLE_DEVICES=", visibleDevices));
    }
    return variables;
}

Settings parseSettings(const HookEnvironment& environment) {
    Settings settings;
    settings.searchPath =
        environment.find("PATH").value_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    settings.pipeDirectory = absolutePath(environment, "CUDA_MPS_PIPE_DIRECTORY");
    settings.logDirectory = absolutePath(environment, "CUDA_MPS_LOG_DIRECTORY");
    settings.userDirectory = absolutePath(environment, "MPS_USER_DIRECTORY");
    settings.visibleDevices = environment.find("CUDA_VISIBLE_DEVICES").value_or("");
    if (!settings.userDirectory.empty() && !(settings.pipeDirectory + settings.logDirectory).empty()) {
        throw Error(
            "MPS_USER_DIRECTORY: the pipe and log directories are below it, so CUDA_MPS_PIPE_DIRECTORY and "
            "CUDA_MPS_LOG_DIRECTORY cannot be set as well");
    }
    if (settings.pipeDirectory.empty()) {
        settings.pipeDirectory = defaultPipeDirectory;
    }
    if (const auto text = environment.find("MPS_TIMEOUT")) {
        const auto seconds = parseNumber(*text);
        constexpr unsigned longest = 100;  // a hook has two minutes
        if (!seconds || *seconds == 0 || *seconds > longest) {
            throw Error(cat("MPS_TIMEOUT: expected a number of seconds from 1 to ", longest, ", found '",
                            printable(*text), "'"));
        }
        settings.timeout = std::chrono::seconds(*seconds);
    }
    constexpr std::size_t longestPath = sizeof(sockaddr_un::sun_path) - 1;
    const auto socket =
        cat(settings.userDirectory.empty() ? settings.pipeDirectory : settings.directoryOf(~0U) + "/pipe",
            "/control");
    if (socket.size() > longestPath) {
        throw Error(cat("The path of the control daemon's socket is longer than ", longestPath,
                        " bytes: ", printable(socket)));
    }
    return settings;
}

}  // namespace sarus::hooks::mps
