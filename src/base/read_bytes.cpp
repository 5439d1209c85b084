#include "squashfs/read_bytes.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::squashfs {

std::string readBytes(int fd, std::uint64_t offset, std::size_t size, std::string_view nameForMessages) {
    std::string bytes(size, '\0');
    std::size_t have = 0;
    while (have < size) {
        const auto count = ::pread(fd, &bytes[have], size - have, static_cast<off_t>(offset + have));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (checkErrno(count, cat("Failed to read ", nameForMessages)) == 0) {
            break;
        }
        have += static_cast<std::size_t>(count);
    }
    bytes.resize(have);
    return bytes;
}

}  // namespace sarus::squashfs
