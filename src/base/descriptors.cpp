#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.hpp"

namespace sarus {

void closeRange(int first, int last) noexcept {
    if (last >= 0 && last < first) {
        return;
    }
    const auto end = last < 0 ? ~0U : static_cast<unsigned>(last);
    if (::syscall(SYS_close_range, static_cast<unsigned>(first), end, 0U) == 0) {
        return;
    }
    const long limit = last < 0 ? ::sysconf(_SC_OPEN_MAX) : last + 1;
    for (int fd = first; fd < limit; ++fd) {
        ::close(fd);
    }
}

void closeOnExec(int first) noexcept {
    constexpr unsigned closeLater = 4;  // CLOSE_RANGE_CLOEXEC, new in Linux 5.11
    if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, closeLater) == 0) {
        return;
    }
    const long limit = ::sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < limit; ++fd) {
        ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

void passOn(int fd) {
    checkErrno(::fcntl(fd, F_SETFD, 0), "Failed to pass on a descriptor");
}

bool arrangeDescriptors(std::vector<int> descriptors) {
    const int outOfTheWay = static_cast<int>(descriptors.size());  // of each other
    for (int& source : descriptors) {
        source = ::fcntl(source, F_DUPFD_CLOEXEC, outOfTheWay);
    }
    int target = 0;
    for (const int source : descriptors) {
        if (source < 0 || ::dup2(source, target) < 0) {
            return false;
        }
        ++target;
    }
    closeRange(target);
    return true;
}

}  // namespace sarus
