#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace sarus::node {

/// The error for a user namespace that could not be created or used: names the kernel setting that forbids
/// it, if any, and the administrator's remedy. `procSys`: directory of the kernel's settings.
Error userNamespaceError(std::string_view doing, int errnum, const std::string& procSys = "/proc/sys");

/// The command for root that allows user namespaces on this node.
std::string userNamespaceCure(const std::string& procSys = "/proc/sys");

}  // namespace sarus::node
