#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus {

/// A message from a Unix socket, with what came along (unix(7), "Ancillary messages").
struct ReceivedMessage {
    ssize_t size = 0;                     ///< as recvmsg(2) returns it; -1 with errno
    int flags = 0;                        ///< MSG_TRUNC, MSG_CTRUNC
    std::vector<UniqueFd> descriptors{};  ///< close-on-exec
    std::optional<ucred> sender{};        ///< if the socket has SO_PASSCRED

    /// The first one, which is the caller's then; empty if none came.
    UniqueFd takeDescriptor();
};

/// recvmsg(2) into `data`, with room for 16 descriptors; begins again after a signal.
ReceivedMessage receiveMessage(int socket, std::span<char> data, int flags = 0);

/// sendmsg(2) of these bytes and at most 16 descriptors, without waiting. False with errno.
bool sendMessage(int socket, std::span<const char> data, std::span<const int> descriptors);

}  // namespace sarus
