#pragma once

#include "starter/credentials.hpp"

namespace sarus::starter {

/// Gives the process a mount namespace of its own in which `/` is a recursive slave of the host's. A rootless starter gets a user
/// namespace with it, in which the caller's uid and gid are 0 (user_namespaces(7)). Throws Error; where user
/// namespaces are switched off it names the setting.
void enterNamespaces(Credentials& credentials);

}  // namespace sarus::starter
