#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace sarus::hooks::ssh {

/// A TCP socket that listens on a port.
struct Listener {
    uid_t uid = 0;
    std::uint64_t inode = 0;
};

/// One that is in the table (the text of /proc/net/tcp or tcp6); a foreign one before one of `own`.
std::optional<Listener> findListener(std::string_view table, std::uint16_t port, uid_t own);

/// Who listens on the port, on any address of this network namespace.
std::optional<Listener> listenerOf(std::uint16_t port, uid_t own);

/// The process that has this socket open, as far as we may see; nullopt if none is found.
std::optional<pid_t> processOfSocket(std::uint64_t inode);

}  // namespace sarus::hooks::ssh
