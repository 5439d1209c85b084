#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/site_config.hpp"
#include "starter/credentials.hpp"
#include "starter/security_checks.hpp"

namespace sarus::starter {

/// Creates `<localRepositoryBaseDir>/<user>` (0700, owned by the caller) where the caller himself may not write. The user's name
/// comes from `<prefix>/etc/passwd`. A directory of the caller's which exists already is left as it is. Throws Error if the
/// starter has no privileges, if somebody but root can change the base directory, or if the name belongs to somebody else.
void createUserRepository(const engine::SiteConfig& config, const Credentials& credentials, PathChecker& paths);

/// The name of the first entry with `uid` in the text of a passwd(5) file, if it can be the name of a directory.
std::optional<std::string> findUserName(std::string_view passwdFile, uid_t uid);

}  // namespace sarus::starter
