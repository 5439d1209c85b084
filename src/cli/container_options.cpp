#include "cli/container_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "cli/env_file.hpp"
#include "cli/stack_limit.hpp"
#include "engine/run_options.hpp"

namespace sarus::cli {

namespace {

/// "1,B=2", as Apptainer sets A and B by --env A=1,B=2.
bool looksLikeList(std::string_view value) {
    const auto comma = value.find(',');
    const auto equals = value.find('=');
    if (comma == std::string_view::npos || equals == std::string_view::npos || equals < comma + 2) {
        return false;
    }
    const auto name = value.substr(comma + 1, equals - comma - 1);
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); });
}

void checkEnvironment(const std::vector<std::string>& variables) {
    for (const auto& variable : variables) {
        const auto [name, value] = engine::parseEnvironmentOption(variable);
        if (!value && !hostVariable(name)) {
            logInfo("CLI", cat("Skipping the environment variable '", printable(name), "': it is not set"));
        }
        if (value && looksLikeList(*value) && hostVariable("SLURM_PROCID").value_or("0") == "0") {
            logWarn("CLI", cat("The variable ", printable(name), " gets the whole value '", printable(*value),
                               "': to set several variables, write --env for each of them"));
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
            engine::checkWorkdir(engine::resolveWorkdir(*request.workdir, "/"));
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
