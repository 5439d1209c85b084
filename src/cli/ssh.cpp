#include "cli/ssh.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/context.hpp"
#include "cli/place/repository_place.hpp"
#include "cli/starter_call.hpp"

namespace sarus::cli {

namespace {

/// The hook finds the caller's keys in `<HOOK_BASE_DIR>/<user>/.oci-hooks/ssh/keys`, here and when it runs
/// for a container. It gets nothing of the caller's environment, as at the start of a container.
ExitStatus runSshHook(Context& context, std::vector<std::string> arguments) {
    const auto& config = context.config();
    const auto hook = cat(config.prefixDir, "/bin/ssh_hook");
    if (::access(hook.c_str(), X_OK) != 0) {
        throw Error::fromErrno(cat("Failed to run the SSH hook ", printable(hook)), errno,
                               "Ask your administrator to install the SSH hook");
    }
    if (logLevel() <= LogLevel::info) {
        arguments.emplace_back(logLevel() == LogLevel::debug ? "--debug" : "--verbose");
    }
    arguments.insert(arguments.begin(), "ssh_hook");
    const std::vector<std::string> environment{cat("HOOK_BASE_DIR=", config.localRepositoryBaseDir),
                                               cat("PASSWD_FILE=", config.prefixDir, "/etc/passwd"),
                                               cat("DROPBEAR_DIR=", config.prefixDir, "/dropbear"),
                                               "PATH=/usr/local/bin:/usr/bin:/bin"};
    return start({.path = hook, .args = std::move(arguments), .environment = environment}).wait();
}

int sshKeygen(Context& context, const Arguments& arguments) {
    // If users may not create their own directory below localRepositoryBaseDir, the starter does it, as for
    // images.
    ensureUserDirectory(context, image::localRepositoryDirectory(repositorySettings(context.config())));
    std::vector<std::string> command{"keygen"};
    if (arguments.has("overwrite")) {
        command.emplace_back("--overwrite");
    }
    if (!runSshHook(context, std::move(command)).ok()) {
        throw Error("Failed to generate the SSH keys");
    }
    return 0;
}

}  // namespace

void checkSshKeys(Context& context) {
    if (!runSshHook(context, {"check-user-has-sshkeys"}).ok()) {
        throw Error(
            "Failed to check the SSH keys. Hint: try to generate the SSH keys with 'sarus ssh-keygen'.");
    }
}

Subcommand sshKeygenCommand() {
    return {.name = "ssh-keygen",
            .usage = "sarus ssh-keygen",
            .description = "Generate the SSH keys in the local repository",
            .options = {{.longName = "overwrite", .help = "Overwrite the SSH keys if they already exist"}},
            .run = sshKeygen};
}

}  // namespace sarus::cli
