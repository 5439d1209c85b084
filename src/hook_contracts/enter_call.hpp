#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oci/runtime/bundle_config.hpp"

namespace sarus::hook_contracts {

/// Where a container finds sarus-enter, its first program and that of each command in it. It does as the
/// container's user what the OCI runtime cannot or may not do, and becomes the command. config.json calls it
/// as
/// `sarus-enter [--root] [--ids=UID:GID [--namespace=FD]] [--ignore=SIGNAL[,SIGNAL...]]
/// [--oom-score-adj=NUMBER] [--cpus=LIST] [--locale=VARIABLE[,VARIABLE...]]
/// [--percent [--env=NAME=VALUE]...] [--[default-]workdir=DIRECTORY] -- COMMAND [ARGUMENT...]`. Words behind
/// --percent are percentEncoded(): names of files may be no UTF-8, of which JSON consists.
inline constexpr const char* enterProgram = "/dev/.sarus-enter";

/// With this as its first word, it does not become a command, but waits until its standard input ends. The
/// words that follow are those of the commands for which it holds the container open.
inline constexpr const char* holdOption = "--hold";

/// The text with %XX for each '%' and each byte that is not ASCII (RFC 3986, 2.1), and back.
std::string percentEncoded(std::string_view bytes);
std::string percentDecoded(std::string_view text);

/// Where a container whose caller is root inside finds a configuration for apt: root with a single id cannot
/// become another user, and apt checks that it has.
inline constexpr const char* aptConfiguration = "/dev/.sarus-apt.conf";

/// Where a container with an init finds it. It starts the command after "--".
inline constexpr const char* initProgram = "/dev/init";

/// The ids that the command of a rootless container gets from sarus-enter, instead of those of
/// `process.user`.
struct EnteredIds {
    uid_t uid = 0;
    gid_t gid = 0;
    std::optional<int> payloadNamespace;  ///< a descriptor of the container's first process
};

/// What sarus-enter is to do for the user's command.
struct EnterRequest {
    const std::string& workdir;
    bool isDefaultWorkdir = false;  ///< of the image: the user may be unable to enter it
    const std::vector<std::string>& command;
    /// Names and values. config.json cannot hold all of them.
    const std::vector<std::pair<std::string, std::string>>& environment;
};

/// The last words of a call: from the directory on, with --percent before it if need be. They are UTF-8.
std::vector<std::string> enterWords(const EnterRequest& request);

/// nullopt if sarus-enter gives none. The user of any container may have typed such words, so they count only
/// in the user namespace for which the engine uses them: one that has the id 0 of the runtime alone.
std::optional<EnteredIds> findEnteredIds(const oci::BundleConfig& config);

/// The user's own command and its directory.
struct ContainerCommand {
    std::vector<std::string> arguments;
    std::string workingDirectory;
};

/// What `process` of config.json starts in the end, behind sarus-enter and an init. For reading only: a user
/// may have typed the words of both.
ContainerCommand findContainerCommand(const oci::BundleConfig& config);

}  // namespace sarus::hook_contracts
