#pragma once

#include <string>
#include <vector>

#include "starter/entry/entry.hpp"

namespace sarus::starter {

/// Warns in one line if configure_installation.sh made the starter set-user-ID root and something took the
/// bit away since. Of the tasks of a parallel program only the first one warns, as `callerEnvironment`
/// ("NAME=value") tells.
void warnOfLostPrivileges(const Entry& entry, const std::vector<std::string>& callerEnvironment);

}  // namespace sarus::starter
