#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "hooks/ssh/settings.hpp"

namespace sarus::hooks::ssh {

/// What a user has in `<HOOK_BASE_DIR>/<user>/.oci-hooks/ssh/keys`.
struct UserKeys {
    std::string hostKey;         ///< dropbear_ecdsa_host_key: of the user's containers
    std::string clientKey;       ///< id_dropbear
    std::string authorizedKeys;  ///< authorized_keys: the public half of id_dropbear
};

/// The directory of the user whom the node knows as `uid`. Throws Error if PASSWD_FILE has no such user.
std::string keysDirectory(const Settings& settings, uid_t uid);

/// nullopt if one of the files is missing. Throws Error for what is no regular file, too large, or neither
/// the owner's nor root's. Reads with the rights that are in force.
std::optional<UserKeys> loadKeys(const std::string& directory, uid_t owner);

/// Makes new keys in the directory, and returns true; false if there are some already. With `overwrite` they
/// are replaced. Throws Error, also if another process makes keys there for too long.
bool generateKeys(const std::string& directory, const std::string& dropbearDirectory, bool overwrite);

/// The Error for a missing part of Dropbear.
void requireDropbear(const std::string& dropbearDirectory);

}  // namespace sarus::hooks::ssh
