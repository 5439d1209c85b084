#pragma once

#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "node/subordinate_ids.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// Gives a rootless starter a user namespace of its own in which the caller's uid and gid are 0
/// (user_namespaces(7)), and in which `more` follow if the node gives them: a warning says why not. Throws
/// Error naming the kernel setting that forbids it.
void enterNewUserNamespace(Credentials& credentials, const node::SubordinateIds& more = {});

/// Whether two open files of /proc/<pid>/ns refer to the same namespace. Throws Error.
bool sameNamespace(int left, int right);

/// The user namespace that owns another namespace (NS_GET_USERNS), or the one above it (NS_GET_PARENT), as in
/// ioctl_ns(2). Throws Error, also if it lies outside our own.
UniqueFd relatedNamespace(int namespaceFd, unsigned long request);

}  // namespace sarus::starter
