#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

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
