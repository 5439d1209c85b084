#pragma once

#include <string_view>

namespace sarus {

// The kernel's own filesystems (proc, sysfs, cgroup, devpts and the like). What is in them stands for the
// kernel's objects: opening a file can have effects, and privileged programs trust what they find there.

/// `magic`: f_type of statfs(2).
bool isKernelFilesystem(long magic);

/// `type`: as in the mount table.
bool isKernelFilesystem(std::string_view type);

}  // namespace sarus
