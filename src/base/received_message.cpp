#include "base/received_message.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sarus {

ReceivedMessage receiveMessage(int socket, std::span<char> data, int flags) {
    iovec part{.iov_base = data.data(), .iov_len = data.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ReceivedMessage received;
    while ((received.size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags)) < 0 && errno == EINTR) {
    }
    if (received.size < 0) {
        return received;
    }
    received.flags = message.msg_flags;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message);
        header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
        received.descriptor.reset(descriptor);
    }
    return received;
}

}  // namespace sarus
