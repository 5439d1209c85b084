#include "cli/container_options.hpp"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/env_file.hpp"
#include "cli/stack_limit.hpp"
#include "engine/run_options.hpp"

namespace sarus::cli {

namespace {

void checkEnvironment(const std::vector<std::string>& variables) {
    for (const auto& variable : variables) {
        const auto [name, value] = engine::parseEnvironmentOption(variable);
        if (!value && ::getenv(name.c_str()) == nullptr) {
            logInfo("CLI", cat("Skipping the environment variable '", printable(name), "': it is not set"));
        }
    }
}

}  // namespace

template <typename Request>
Request readCommonOptions(const Arguments& arguments, const std::string& command) {
    Request request;
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
    checkEnvironment(request.env);
    if (arguments.has("workdir")) {
        request.workdir = arguments.value("workdir");
        try {
            engine::checkWorkdir(*request.workdir);
        } catch (Error& error) {
            throw error.addUsage(seeHelp(command));
        }
    }
    request.tty = arguments.has("tty");
    request.stackLimit = callerStackLimit();
    request.logLevel = logLevel();
    return request;
}

template engine::LaunchRequest readCommonOptions(const Arguments& arguments, const std::string& command);
template engine::ExecRequest readCommonOptions(const Arguments& arguments, const std::string& command);

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
            .help = "Read environment variables from a file",
            .completion = Completion::files};
}

Option terminalOption() {
    return {.longName = "tty", .shortName = 't', .help = "Allocate a pseudo-TTY in the container"};
}

Option workdirOption() {
    return {.longName = "workdir",
            .shortName = 'w',
            .takesValue = true,
            .help = "Set working directory inside the container",
            .aliases = {"pwd"}};
}

}  // namespace sarus::cli
