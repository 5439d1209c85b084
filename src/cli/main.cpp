#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/login_variables.hpp"
#include "base/said_once.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_line.hpp"
#include "cli/context.hpp"
#include "cli/help_text.hpp"
#include "cli/stack_limit.hpp"

namespace {

using namespace sarus;

void chooseLogLevel(const cli::Arguments& global) {
    if (global.has("debug")) {
        setLogLevel(LogLevel::debug);
    } else if (global.has("verbose")) {
        setLogLevel(LogLevel::info);
    }
}

/// Of what the program, and those that it starts, create in a repository: its owner works with it, and
/// everybody reads the centralised one.
void setRepositoryUmask(bool centralized) {
    const auto callers = ::umask(022);
    if (!centralized) {
        ::umask(callers & ~static_cast<mode_t>(S_IRWXU));
    }
}

int runProgram(std::span<const std::string> tokens) {
    const auto global = cli::parseGlobal(tokens);
    chooseLogLevel(global);
    cli::Context context;
    const auto rest = std::span(global.positionals());
    const auto [command, words] = cli::findCommand(rest);
    if (global.has("help") || (rest.empty() && !global.has("version"))) {
        printLine(command == nullptr ? cli::generalHelp() : cli::commandHelp(*command));
        return 0;
    }
    if (global.has("version")) {
        return cli::findCommand("version")->run(context, {});
    }
    if (command == nullptr) {
        cli::throwUnknownCommand(rest.front(), rest.size() > 1 ? rest[1] : std::string());
    }
    auto arguments = cli::parseCommand(*command, rest.subspan(words));
    if (arguments.has("help")) {
        printLine(cli::commandHelp(*command));
        return 0;
    }
    chooseLogLevel(arguments);
    if (global.has("quiet") && command->name != "images" && command->name != "ps") {
        arguments.set("quiet");
    }
    if (command->usesRepository) {
        setRepositoryUmask(arguments.has("centralized-repository"));
    }
    return command->run(context, arguments);
}

}  // namespace

int main(int argc, char** argv) {
    beginProcess();
    setProgramName("sarus");
    addLoginVariables();
    speakForTask(hostVariable);
    ::signal(SIGXFSZ, SIG_IGN);  // a file that is too large for a limit is an error with a message
    try {
        cli::raiseStackLimit();
        const std::vector<std::string> tokens(argv + (argc > 0 ? 1 : 0), argv + argc);
        const int status = runProgram(tokens);
        if (status == 0 && outputError() != 0) {
            throw Error::fromErrno("Failed to write to standard output", outputError());
        }
        return status;
    } catch (const Error& error) {
        printError(error);
        if (error.errnum() == EFBIG) {
            printError("Raise the limit on file size (ulimit -f)");
        }
        return error.exitStatus();
    } catch (const std::exception& error) {
        logError("CLI", error.what());
        return 1;
    }
}
