#pragma once

#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "starter/credentials.hpp"

namespace sarus::starter {

/// Gives a rootless starter a user namespace of its own, in which the caller's uid and gid are 0 (user_namespaces(7)). Throws
/// Error, which names the kernel setting that forbids it.
void enterNewUserNamespace(Credentials& credentials);

/// Whether two open files of /proc/<pid>/ns are one namespace. Throws Error.
bool sameNamespace(int left, int right);

/// The user namespace that owns another namespace (NS_GET_USERNS), or the one above it (NS_GET_PARENT), as ioctl_ns(2) gives it.
/// Throws Error, also if that lies outside of our own.
UniqueFd relatedNamespace(int namespaceFd, unsigned long request);

}  // namespace sarus::starter
