#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace sarus::starter {

/// Why a user namespace could not be made or used: names the kernel setting that forbids it, if there is one, and what the
/// administrator can do. `procSys`: where the kernel's settings are.
Error userNamespaceError(std::string_view doing, int errnum, const std::string& procSys = "/proc/sys");

}  // namespace sarus::starter
