#include "base/read_bytes.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// False with errno set.
bool read(int fd, std::uint64_t offset, std::string& bytes) {
    std::size_t have = 0;
    while (have < bytes.size()) {
        const auto count = ::pread(fd, &bytes[have], bytes.size() - have, static_cast<off_t>(offset + have));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return false;
        }
        if (count == 0) {
            break;
        }
        have += static_cast<std::size_t>(count);
    }
    bytes.resize(have);
    return true;
}

}  // namespace

std::string readBytes(int fd, std::uint64_t offset, std::size_t size, std::string_view nameForMessages) {
    std::string bytes(size, '\0');
    checkErrno(read(fd, offset, bytes) ? 0 : -1, cat("Failed to read ", nameForMessages));
    return bytes;
}

std::string readableBytes(int fd, std::uint64_t offset, std::size_t size) {
    std::string bytes(size, '\0');
    return read(fd, offset, bytes) ? bytes : std::string();
}

}  // namespace sarus
