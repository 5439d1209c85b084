#include "base/received_message.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace sarus {

namespace {

constexpr std::size_t mostDescriptors = 16;

/// Room for what travels with a message.
union Control {
    cmsghdr alignment;
    char bytes[CMSG_SPACE(mostDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
};

}  // namespace

UniqueFd ReceivedMessage::takeDescriptor() {
    return descriptors.empty() ? UniqueFd() : std::move(descriptors.front());
}

ReceivedMessage receiveMessage(int socket, std::span<char> data, int flags) {
    iovec part{.iov_base = data.data(), .iov_len = data.size()};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control;
    ReceivedMessage received;
    while ((received.size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags)) < 0 && errno == EINTR) {
    }
    if (received.size < 0) {
        return received;
    }
    received.flags = message.msg_flags;
    for (const auto* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(header))) {
        if (header->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (header->cmsg_type == SCM_RIGHTS) {
            std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
            for (const int number : numbers) {
                received.descriptors.emplace_back(number);
            }
        } else if (header->cmsg_type == SCM_CREDENTIALS) {
            std::memcpy(&received.sender.emplace(), CMSG_DATA(header), sizeof(ucred));
        }
    }
    return received;
}

bool sendMessage(int socket, std::span<const char> data, std::span<const int> descriptors) {
    iovec part{.iov_base = const_cast<char*>(data.data()), .iov_len = data.size()};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        auto* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace sarus
