#include "base/standard_streams.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sarus {

void openMissingStandardStreams() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        struct stat status {};
        if (::fstat(fd, &status) == 0) {
            continue;
        }
        const int opposite = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        if (::open("/dev/null", opposite | O_NOCTTY) != fd) {
            ::_exit(1);  // without standard streams, nowhere to report
        }
    }
}

}  // namespace sarus
