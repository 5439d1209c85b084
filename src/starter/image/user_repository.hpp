#pragma once

#include "base/path_checker.hpp"
#include "engine/site_config.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// Creates `<localRepositoryBaseDir>/<user>` (0700, owned by the caller) if the caller may not write to the
/// base directory. Takes the user's name from `<prefix>/etc/passwd`. Leaves an existing directory of the
/// caller as it is. Throws Error if the starter is unprivileged, if anybody but root can change the base
/// directory, or if the name belongs to another user.
void createUserRepository(const engine::SiteConfig& config, const Credentials& credentials,
                          PathChecker& paths);

}  // namespace sarus::starter
