#include "starter/runtime/pid_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <climits>

#include "base/file_io.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr const char* fileName = "pid";

std::int64_t nanoseconds(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::int64_t clock(clockid_t id) {
    timespec now{};
    ::clock_gettime(id, &now);
    return nanoseconds(now);
}

/// In clock ticks since the node's boot.
std::uint64_t modificationTime(int fd) {
    struct stat status {};
    const auto sinceBoot = clock(CLOCK_BOOTTIME);
    if (::fstat(fd, &status) != 0) {
        return 0;
    }
    const auto time = sinceBoot - (clock(CLOCK_REALTIME) - nanoseconds(status.st_mtim));
    return time < 0 ? 0 : static_cast<std::uint64_t>(time / (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
}

}  // namespace

PidFile::PidFile(RuntimeInvocation& invocation)
    : directory(openFile(invocation.bundleDir, O_PATH | O_DIRECTORY)) {
    invocation.pidFile = cat(invocation.bundleDir, '/', fileName);
    if (invocation.program.kind == engine::OciRuntime::crun) {
        written = openFile(invocation.pidFile, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    }
}

std::optional<PidFile::Start> PidFile::read() {
    if (seen) {
        return std::nullopt;
    }
    const UniqueFd file(written ? -1
                                : ::openat(directory.get(), fileName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const int source = written ? written.get() : file.get();
    const auto text = readableBytes(source, 0, 32);  // the runtime writes the number in one piece
    const auto number = parseNumber(trim(text));
    if (!number || *number == 0 || *number > INT_MAX) {
        return std::nullopt;
    }
    seen = true;
    return Start{.pid = static_cast<pid_t>(*number), .time = modificationTime(source)};
}

bool PidFile::started() const {
    struct stat status {};
    if (seen || ::fstatat(directory.get(), fileName, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return seen || errno != ENOENT;
    }
    return status.st_size > 0;
}

}  // namespace sarus::starter
