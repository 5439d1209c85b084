#pragma once

#include <sys/types.h>

#include <string>

#include "hooks/kit/hook_environment.hpp"

namespace sarus::hooks::sethomevar {

/// The hook's variables in the `env` of its JSON file.
struct Settings {
    std::string passwdFile;  ///< PASSWD_FILE; empty: the node's accounts
    std::string searchPath;  ///< PATH: where getent(1) is
};

/// Throws Error if PASSWD_FILE is not an absolute path.
Settings readSettings(const HookEnvironment& environment);

/// The home directory of this uid's account: from PASSWD_FILE if it is set, otherwise from /etc/passwd, or,
/// if that has no such entry, from getent(1), which gets 10 s. Throws Error if there is no account, or its
/// home is not an absolute path.
std::string homeOf(uid_t uid, const Settings& settings);

}  // namespace sarus::hooks::sethomevar
