#include "podman_hpc/shared_run/descriptors.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace sarus::podman_hpc {

namespace {

constexpr unsigned closeLater = 4;  // CLOSE_RANGE_CLOEXEC, new in Linux 5.11

bool closeRange(int first, unsigned last, unsigned flags) {
    return ::syscall(SYS_close_range, static_cast<unsigned>(first), last, flags) == 0;
}

}  // namespace

void closeDescriptors(int first, int kept) {
    if ((kept <= first || closeRange(first, static_cast<unsigned>(kept - 1), 0)) &&
        closeRange(kept + 1, ~0U, 0)) {
        return;
    }
    for (int fd = first; fd < ::sysconf(_SC_OPEN_MAX); ++fd) {
        if (fd != kept) {
            ::close(fd);
        }
    }
}

void closeOnExec(int first) {
    if (closeRange(first, ~0U, closeLater)) {
        return;
    }
    for (int fd = first; fd < ::sysconf(_SC_OPEN_MAX); ++fd) {
        ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

}  // namespace sarus::podman_hpc
