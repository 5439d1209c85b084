#include "base/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sarus {

void openMissingStandardStreams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        // fstat(2) asks the file system, which may refuse: root on a user's FUSE mount.
        if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
            continue;
        }
        const int opposite = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (::open("/dev/null", opposite | O_NOCTTY) != fd) {
            ::dprintf(STDERR_FILENO, "Failed to open /dev/null: %s\n", std::strerror(errno));
            ::_exit(1);
        }
    }
}

}  // namespace sarus
