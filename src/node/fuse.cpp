#include "node/fuse.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.hpp"

namespace sarus::node {

FuseDevice openFuseDevice() {
    UniqueFd fd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const int error = fd ? 0 : errno;
    return {.fd = std::move(fd),
            .whyNot = error == 0 ? "" : cat("/dev/fuse cannot be used: ", std::strerror(error))};
}

std::string fuseOverlayfs(const std::string& prefix) {
    auto own = cat(prefix, "/bin/fuse-overlayfs");
    return ::access(own.c_str(), X_OK) == 0 ? std::move(own) : "/usr/bin/fuse-overlayfs";
}

std::optional<std::string> usableFuseOverlayfs(const std::string& prefix) {
    auto program = fuseOverlayfs(prefix);
    return ::access(program.c_str(), X_OK) == 0 && openFuseDevice().fd ? std::optional(std::move(program))
                                                                       : std::nullopt;
}

}  // namespace sarus::node
