#include <algorithm>
#include <array>
#include <climits>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "starter/containers.hpp"
#include "starter/credentials.hpp"
#include "starter/entry.hpp"
#include "starter/exec.hpp"
#include "starter/installation.hpp"
#include "starter/launch.hpp"
#include "starter/user_repository.hpp"

namespace sarus::starter {

namespace {

OutputForm parseForm(const std::string& text) {
    if (text != "text" && text != "json") {
        throw Error(cat("Unknown form of output '", printable(text), "'"), "This program is started by `sarus`");
    }
    return text == "json" ? OutputForm::json : OutputForm::text;
}

/// What `sarus` asks for besides starting a container, with the number of words: `ps SESSION_DIRECTORY FORM`,
/// `inspect SESSION_DIRECTORY FORM NAME`, `kill SESSION_DIRECTORY SIGNAL NAME`.
constexpr std::array<std::pair<std::string_view, std::size_t>, 3> containerCommands{{{"ps", 3}, {"inspect", 4}, {"kill", 4}}};

void manageContainers(const Entry& entry, const Credentials& credentials, const std::vector<std::string>& arguments) {
    PathChecker paths(trustedOwners(entry, credentials));
    const auto config = loadInstallation(entry.prefix, paths);
    if (arguments[0] == "ps") {
        listContainers(config, credentials, arguments[1], parseForm(arguments[2]));
    } else if (arguments[0] == "inspect") {
        inspectContainer(config, credentials, arguments[1], parseForm(arguments[2]), arguments[3]);
    } else {
        killContainer(config, credentials, arguments[1], arguments[2], arguments[3]);
    }
}

/// The command line is the number of the request's descriptor, or the name of another thing to do and its arguments.
int run(int argc, char** argv) {
    const auto entry = sanitizeEntry();
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    const auto* const command = std::find_if(containerCommands.begin(), containerCommands.end(), [&](const auto& known) {
        return !arguments.empty() && known.first == arguments[0];
    });
    const bool managing = command != containerCommands.end();
    const bool executing = !arguments.empty() && arguments[0] == "exec";  // `exec DESCRIPTOR`
    if (arguments.size() != (managing ? command->second : executing ? 2 : 1)) {
        throw Error("sarus-starter was called with a wrong number of arguments", "This program is started by `sarus`");
    }
    const auto& argument = arguments[executing ? 1 : 0];
    const auto credentials = Credentials::acquire(entry.mode);
    if (argument == "create-repository") {
        PathChecker paths(trustedOwners(entry, credentials));
        createUserRepository(loadInstallation(entry.prefix, paths), credentials, paths);
        return 0;
    }
    if (managing) {
        manageContainers(entry, credentials, arguments);
        return 0;
    }
    const auto requestFd = parseNumber(argument);
    if (!requestFd || *requestFd > INT_MAX) {
        throw Error(cat("Unknown argument '", printable(argument), "'"), "This program is started by `sarus`");
    }
    const auto descriptor = static_cast<int>(*requestFd);
    return executing ? execInContainer(entry, credentials, descriptor) : launch(entry, credentials, descriptor);
}

}  // namespace

}  // namespace sarus::starter

int main(int argc, char** argv) {
    try {
        return sarus::starter::run(argc, argv);
    } catch (const sarus::Error& error) {
        sarus::printError(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        sarus::printError(error.what());
        return 1;
    }
}
