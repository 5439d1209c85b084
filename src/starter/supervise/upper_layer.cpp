#include "starter/supervise/upper_layer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/path_in_root.hpp"
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

bool hasAttribute(const std::string& path, const char* name) {
    char value = 0;
    if (::lgetxattr(path.c_str(), name, &value, sizeof value) >= 0 || errno == ERANGE) {
        return true;
    }
    checkErrno(errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1, cat("Failed to examine ", shown));
    return false;
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

std::vector<std::uint64_t> opaqueDirectories(int layer) {
    std::vector<std::uint64_t> found;
    walk(layer, ".", [&](int directory, const char* name, const struct stat& status) {
        if (!S_ISDIR(status.st_mode)) {
            return true;
        }
        const auto path = cat(descriptorPath(directory), '/', name);
        if (hasAttribute(path, "trusted.overlay.redirect")) {
            throw Error(cat("The container has moved a directory of its image to '", printable(name),
                            "' in a form that cannot be saved"));
        }
        if (hasAttribute(path, "trusted.overlay.opaque")) {
            found.push_back(status.st_ino);
        }
        return true;
    });
    return found;
}

}  // namespace sarus::starter
