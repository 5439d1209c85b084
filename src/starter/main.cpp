#include <climits>
#include <exception>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "starter/credentials.hpp"
#include "starter/entry.hpp"
#include "starter/installation.hpp"
#include "starter/launch.hpp"
#include "starter/user_repository.hpp"

namespace sarus::starter {

namespace {

void report(const Error& error) {
    printError(error.what());
    if (!error.hint().empty()) {
        printError(error.hint());
    }
}

/// The whole command line is one argument: the number of the request's descriptor, or the name of the other thing to do.
int run(int argc, char** argv) {
    const auto entry = sanitizeEntry();
    if (argc != 2) {
        throw Error("sarus-starter takes exactly one argument", "This program is started by `sarus`");
    }
    const std::string_view argument = argv[1];
    const auto credentials = Credentials::acquire(entry.mode);
    if (argument == "create-repository") {
        const auto owners = trustedOwners(entry, credentials);
        createUserRepository(loadInstallation(entry.prefix, owners), credentials, owners);
        return 0;
    }
    const auto requestFd = parseNumber(argument);
    if (!requestFd || *requestFd > INT_MAX) {
        throw Error(cat("Unknown argument '", printable(argument), "'"), "This program is started by `sarus`");
    }
    return launch(entry, credentials, static_cast<int>(*requestFd));
}

}  // namespace

}  // namespace sarus::starter

int main(int argc, char** argv) {
    try {
        return sarus::starter::run(argc, argv);
    } catch (const sarus::Error& error) {
        sarus::starter::report(error);
        return error.exitStatus();
    } catch (const std::exception& error) {
        sarus::printError(error.what());
        return 1;
    }
}
