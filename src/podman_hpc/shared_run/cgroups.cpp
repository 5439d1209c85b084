#include "podman_hpc/shared_run/cgroups.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "node/cgroups.hpp"

namespace sarus::podman_hpc {

void joinCgroupsOf(pid_t pid) {
    try {
        const auto mounts = readMountTable();
        for (const auto& cgroup : node::parseCgroups(readFile(cat("/proc/", pid, "/cgroup")))) {
            const auto directory = node::findCgroupDirectory(mounts, cgroup.controllers.front(), cgroup.path);
            const auto opened = directory ? node::openCgroup(*directory) : UniqueFd();
            const UniqueFd members(
                opened ? ::openat(opened.get(), "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1);
            [[maybe_unused]] const auto moved = members ? ::write(members.get(), "0", 1) : 0;
        }
    } catch (const Error&) {
        return;  // the process has ended, or there are no cgroups
    }
}

}  // namespace sarus::podman_hpc
