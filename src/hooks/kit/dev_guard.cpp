#include "hooks/kit/dev_guard.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/error.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "oci/runtime/container_state.hpp"
#include "oci/runtime/runtime_devices.hpp"

namespace sarus::hooks {

DevGuard::DevGuard(const std::string& theRoot, std::string_view state)
    : root(theRoot),
      top(topOfContainer(state.empty() ? 0 : oci::parseContainerState(state).pid)),
      dev(openDev()),
      mount(mountIdOf(dev.get())) {}

UniqueFd DevGuard::openDev() const {
    const auto directory = openInRoot(top.get(), root);
    return UniqueFd(
        checkErrno(::openat(directory.get(), "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                   "Failed to open the container's /dev"));
}

void DevGuard::check() const {
    if (mountIdOf(openDev().get()) != mount) {
        throw Error("Something is mounted on the container's /dev");
    }
    for (std::size_t index = 0; index < oci::usualDeviceNumbers.size(); ++index) {
        const auto name = oci::runtimeDevices[index];
        const std::pair number = oci::usualDeviceNumbers[index];
        struct stat status {};
        if (::fstatat(dev.get(), name.data(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) {  // not made yet
                continue;
            }
            throwErrno(cat("Failed to examine the container's /dev/", name));
        }
        if (!S_ISCHR(status.st_mode) || std::pair(major(status.st_rdev), minor(status.st_rdev)) != number) {
            throw Error(cat("The container's /dev/", name, " is not the device of this name"));
        }
    }
}

}  // namespace sarus::hooks
