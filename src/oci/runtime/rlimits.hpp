#pragma once

#include <sys/resource.h>

#include <optional>
#include <string_view>

namespace sarus::oci {

/// The resource of setrlimit(2) for a type of `process.rlimits`, such as "RLIMIT_NOFILE" (OCI runtime
/// specification, config.md "POSIX process"); nullopt if it is unknown.
std::optional<__rlimit_resource> findRlimit(std::string_view type);

}  // namespace sarus::oci
