#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace sarus::oci {

/// What OCI runtimes make themselves in a container's /dev (OCI runtime specification, config-linux.md "Default Devices", and
/// runtime-linux.md "Dev symbolic links").
///
/// Nothing may be mounted on these or below them, and nothing may have their names before the runtime makes them: runtimes open
/// the container's /dev/null for writing with the rights of root, after all mounts, and put it in the place of those standard
/// streams of the container which have its device number; any other file has the number 0 as well.
inline constexpr std::array<std::string_view, 14> runtimeDevices{"null", "zero", "full", "random", "urandom", "tty",    "console",
                                                                 "ptmx", "pts",  "fd",   "stdin",  "stdout",  "stderr", "core"};

/// Major and minor numbers of those among them that are files which every program may use: null, zero, full, random, urandom,
/// tty.
inline constexpr std::array<std::pair<unsigned, unsigned>, 6> usualDeviceNumbers{
    {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}}};

/// Whether a path without `.`, `..` and empty components is one of these or lies below one. Not the directories /dev/shm and
/// /dev/mqueue, on which the runtime mounts: what lies there first disappears, and cannot be taken for a device.
bool isRuntimeDevice(std::string_view path);

}  // namespace sarus::oci
