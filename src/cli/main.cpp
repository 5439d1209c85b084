#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/standard_streams.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"

namespace {

using namespace sarus;

void chooseLogLevel(const cli::Arguments& global) {
    if (global.has("debug")) {
        setLogLevel(LogLevel::debug);
    } else if (global.has("verbose")) {
        setLogLevel(LogLevel::info);
    }
}

int runProgram(std::span<const std::string> tokens) {
    const auto global = cli::parseGlobal(tokens);
    chooseLogLevel(global);
    cli::Context context;
    const auto& rest = global.positionals();
    if (global.has("help") || rest.empty() || global.has("version")) {
        const bool version = global.has("version") && !global.has("help");
        return cli::findCommand(version ? "version" : "help")->run(context, {});
    }
    const auto* command = cli::findCommand(rest.front());
    if (command == nullptr) {
        cli::throwUnknownCommand(rest.front());
    }
    return command->run(context, cli::parseCommand(*command, std::span(rest).subspan(1)));
}

}  // namespace

int main(int argc, char** argv) {
    openMissingStandardStreams();
    try {
        const std::vector<std::string> tokens(argv + (argc > 0 ? 1 : 0), argv + argc);
        const int status = runProgram(tokens);
        if (status == 0 && outputError() != 0) {
            throw Error::fromErrno("Failed to write to standard output", outputError());
        }
        return status;
    } catch (const Error& error) {
        printError(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        logError("CLI", error.what());
        return 1;
    }
}
