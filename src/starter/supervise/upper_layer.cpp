#include "starter/supervise/upper_layer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr const char* shown = "what the container has written";

/// Calls `visit(directory, name, status)` for all entries, until it returns false.
template <typename Visit>
bool walk(int parent, const char* name, const Visit& visit, std::size_t depth = 0) {
    constexpr std::size_t deepest = 256;  // one open directory each
    if (depth > deepest) {
        throw Error(
            cat("Failed to examine ", shown, ": it has more than ", deepest, " levels of directories"));
    }
    Directory entries(parent, name, shown, Missing::isEmpty);
    while (const char* entry = entries.next()) {
        struct stat status {};
        if (::fstatat(entries.fd(), entry, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (!visit(entries.fd(), entry, status) ||
            (S_ISDIR(status.st_mode) && !walk(entries.fd(), entry, visit, depth + 1))) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::uint64_t bytesOfLayer(int parent, const char* name, std::uint64_t limit) {
    constexpr std::uint64_t blockSize = 512;
    std::uint64_t bytes = 0;
    walk(parent, name, [&](int, const char*, const struct stat& status) {
        bytes += static_cast<std::uint64_t>(status.st_blocks) * blockSize;
        return bytes <= limit;
    });
    return bytes;
}

}  // namespace sarus::starter
