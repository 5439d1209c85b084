#include "podman_hpc/mount_program/kept_mount.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

unsigned secondsToKeep() {
    constexpr unsigned usual = 60;
    const char* text = std::getenv("PODMANHPC_MOUNT_KEEP");
    const auto seconds = parseNumber(text == nullptr ? "" : text);
    return seconds && *seconds < 86400 ? static_cast<unsigned>(*seconds) : usual;
}

/// Podman waits for the end of its pipes, and nobody for this process.
bool letGoOfEverythingElse(int kept) {
    const int null = ::open("/dev/null", O_RDWR);
    constexpr int first = 3;
    return null >= 0 && ::dup2(kept, first) == first && ::dup2(null, 0) == 0 && ::dup2(null, 1) == 1 &&
           ::dup2(null, 2) == 2 && ::syscall(SYS_close_range, first + 1U, ~0U, 0U) == 0 &&
           ::chdir("/") == 0 && ::setsid() > 0;
}

}  // namespace

void keepMount(const UniqueFd& directory) {
    const auto seconds = secondsToKeep();
    if (seconds != 0 && ::fork() == 0) {
        if (letGoOfEverythingElse(directory.get())) {
            ::sleep(seconds);
        }
        ::_exit(0);
    }
}

}  // namespace sarus::podman_hpc
