#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sarus::oci {

/// Entries that OCI runtimes create in a container's /dev (OCI runtime specification, config-linux.md
/// "Default Devices", and runtime-linux.md "Dev symbolic links").
///
/// Nothing may be mounted on or below these, and nothing may have their names before the runtime creates
/// them. After all mounts, runtimes open the container's /dev/null for writing with root's rights, and use it
/// to replace each standard stream that has the same device number, which is 0 for any other file.
inline constexpr std::array<std::string_view, 14> runtimeDevices{
    "null", "zero", "full", "random", "urandom", "tty",    "console",
    "ptmx", "pts",  "fd",   "stdin",  "stdout",  "stderr", "core"};

/// Major and minor numbers of the entries that are devices for all programs, the first of `runtimeDevices`:
/// null, zero, full, random, urandom, tty.
inline constexpr std::array<std::pair<unsigned, unsigned>, 6> usualDeviceNumbers{
    {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}}};

/// Mount points in /dev whose content cannot be taken for a device: OCI runtimes mount there what config.json
/// says, and this engine mounts the node's.
inline constexpr std::array<std::string_view, 2> sharedDirectories{"/dev/shm", "/dev/mqueue"};

/// Whether a path without `.`, `..` and empty components is one of `runtimeDevices` or lies below one.
bool isRuntimeDevice(std::string_view path);

/// The directory of the kernel, /proc or /sys, which such a path is or lies below; "" if there is none.
std::string_view kernelDirectoryOf(std::string_view path);

/// Whether only the OCI runtime and the kernel decide what is at such a path: the root, /dev, runtime
/// devices, and everything at or below /proc and /sys. The runtime creates device nodes in /dev with root's
/// rights: that must never be a user's directory.
bool isReserved(std::string_view path);

/// Why nobody may mount on such a path, or nullopt.
std::optional<std::string> whyReserved(std::string_view path);

}  // namespace sarus::oci
