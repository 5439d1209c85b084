#pragma once

#include <sys/types.h>

#include <span>

#include "base/unique_fd.hpp"

namespace sarus {

/// A message from a Unix socket, with the descriptor that came along (unix(7), SCM_RIGHTS).
struct ReceivedMessage {
    ssize_t size = 0;       ///< as recvmsg(2) returns it; -1 with errno
    int flags = 0;          ///< MSG_TRUNC, MSG_CTRUNC
    UniqueFd descriptor{};  ///< close-on-exec; empty if none came
};

/// recvmsg(2) into `data`, with room for one descriptor; begins again after a signal.
ReceivedMessage receiveMessage(int socket, std::span<char> data, int flags = 0);

}  // namespace sarus
