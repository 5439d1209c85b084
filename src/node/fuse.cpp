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

std::optional<std::string> usableFuseOverlayfs() {
    constexpr const char* program = "/usr/bin/fuse-overlayfs";
    return ::access(program, X_OK) == 0 && openFuseDevice().fd ? std::optional<std::string>(program)
                                                               : std::nullopt;
}

}  // namespace sarus::node
