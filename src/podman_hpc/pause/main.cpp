// The first process of a shared container: waits until nobody holds the other end of descriptor 3, and reaps.
// With arguments, FILE ARGV..., executes FILE: what it can reach by /proc/self/exe is this program, in
// memory.

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace {

constexpr int lifeline = 3;

void end(int) {
    ::_exit(0);
}

}  // namespace

int main(int count, char* words[]) {
    if (count > 2) {
        ::execve(words[1], words + 2, environ);
        const int failed = errno;
        ::dprintf(STDERR_FILENO, "Error: Failed to execute %s: %s\n", words[2], std::strerror(failed));
        return failed == ENOENT ? 127 : 126;
    }
    std::signal(SIGCHLD, SIG_IGN);  // the kernel reaps
    std::signal(SIGTERM, end);
    char byte = 0;
    while (::read(lifeline, &byte, 1) < 0 && errno == EINTR) {
    }
    return 0;
}
