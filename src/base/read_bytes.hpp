#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sarus::squashfs {

/// The bytes of a file from `offset` on, as far as available. Throws Error.
std::string readBytes(int fd, std::uint64_t offset, std::size_t size, std::string_view nameForMessages);

}  // namespace sarus::squashfs
