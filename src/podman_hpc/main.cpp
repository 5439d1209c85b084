#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/begin_process.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/login_variables.hpp"
#include "base/text.hpp"
#include "podman_hpc/cli/commands.hpp"

namespace {

using namespace sarus;
using namespace sarus::podman_hpc;

bool asksForHelp(const Call& call) {
    return std::find(call.words.begin(), call.words.end(), "--help") != call.words.end();
}

int runProgram(const std::vector<std::string>& words) {
    const auto call = parseCall(words);
    const auto from = ownSurroundings();
    if (call.help || (call.command.empty() && !call.version)) {
        printGeneralHelp(from);
        return 0;
    }
    const auto* own = findOwnCommand(call.command);
    if (own == nullptr) {
        return passThrough(call, from);
    }
    if (asksForHelp(call) && !own->options.empty() && !own->readsHelp) {
        printOwnHelp(*own);
        return 0;
    }
    return own->run(call, from);
}

/// The reference's forms of messages.
void report(const Error& error) {
    for (const auto& line : error.usage()) {
        printError(line);
    }
    const bool isUsage = error.exitStatus() == 2;
    printError(isUsage ? cat("\nError: ", error.what()) : cat("Error: ", error.what(), "... Exiting"));
    if (!error.hint().empty()) {
        printError(error.hint());
    }
}

}  // namespace

int main(int argc, char** argv) {
    beginProcess(BlockedSignals::keep);
    addLoginVariables();
    try {
        const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
        const int status = runProgram(words);
        if (status == 0 && outputError() != 0) {
            throw Error::fromErrno("Failed to write to standard output", outputError());
        }
        return status;
    } catch (const Error& error) {
        report(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        report(Error(error.what()));
        return 1;
    }
}
