#pragma once

#include <string>

#include "engine/site_config.hpp"
#include "starter/credentials.hpp"
#include "starter/entry.hpp"
#include "starter/security_checks.hpp"

namespace sarus::starter {

/// Who may own the files that the starter relies on: root alone if it holds privileges, else the caller too.
TrustedOwners trustedOwners(const Entry& entry, const Credentials& credentials);

/// Reads and checks `<prefix>/etc/sarus.json`: the bytes that are parsed are those of the descriptor that was checked. Then
/// performs the checks which the configuration asks for. Throws Error.
engine::SiteConfig loadInstallation(const std::string& prefix, PathChecker& paths);

}  // namespace sarus::starter
