#include "squashfs/identity.hpp"

#include "base/hex.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"
#include "squashfs/superblock.hpp"

namespace sarus::squashfs {

namespace {

constexpr std::size_t largestOptions = 64;  // of all compressors, with the header of their block

std::string readStart(int fd, std::string_view nameForMessages) {
    return readBytes(fd, 0, superblockSize + largestOptions + identityMark.size() + identitySize,
                     nameForMessages);
}

std::string hexText(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        text += hexOf(static_cast<unsigned char>(c));
    }
    return text;
}

/// 0 if there is none.
std::size_t findMark(const std::string& start) {
    const auto mark =
        start.starts_with("hsqs") ? start.find(identityMark, superblockSize) : std::string::npos;
    return mark == std::string::npos || start.size() < mark + identityMark.size() + identitySize ? 0 : mark;
}

}  // namespace

std::uint64_t squashfsIdentityOffset(int fd, std::string_view nameForMessages) {
    return findMark(readStart(fd, nameForMessages));
}

std::string squashfsIdentity(int fd, std::string_view nameForMessages) {
    const auto start = readStart(fd, nameForMessages);
    const auto mark = findMark(start);
    return mark == 0 ? std::string() : hexText(start.substr(mark + identityMark.size(), identitySize));
}

std::string contentOf(int fd, std::string_view nameForMessages) {
    const auto start = readStart(fd, nameForMessages);
    const auto mark = findMark(start);
    return mark == 0 ? cat("superblock-", hexText(start.substr(0, superblockSize)))
                     : hexText(start.substr(mark + identityMark.size(), identitySize));
}

}  // namespace sarus::squashfs
