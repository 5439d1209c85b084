#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sarus {

/// The bytes of a file from `offset` on, as far as available. Leaves its position alone. Throws Error.
std::string readBytes(int fd, std::uint64_t offset, std::size_t size, std::string_view nameForMessages);

/// The same, for files that may be anything: nothing if they cannot be read.
std::string readableBytes(int fd, std::uint64_t offset, std::size_t size);

}  // namespace sarus
