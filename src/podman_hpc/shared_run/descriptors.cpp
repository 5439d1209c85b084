#include "podman_hpc/shared_run/descriptors.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/descriptors.hpp"

namespace sarus::podman_hpc {

void closeDescriptors(int first, int kept) {
    if (kept > first) {
        closeRange(first, kept - 1);
    }
    closeRange(std::max(first, kept + 1));
}

void closeOnExec(int first) {
    constexpr unsigned closeLater = 4;  // CLOSE_RANGE_CLOEXEC, new in Linux 5.11
    if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, closeLater) == 0) {
        return;
    }
    for (int fd = first; fd < ::sysconf(_SC_OPEN_MAX); ++fd) {
        ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

}  // namespace sarus::podman_hpc
