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

/// When the node was booted, by the clock of files; at most 1 ms too late. Asks again if it was interrupted
/// between the clocks.
std::int64_t timeOfBoot() {
    constexpr std::int64_t longest = 1'000'000;
    constexpr int attempts = 1000;
    std::int64_t boot = 0;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        const auto before = clock(CLOCK_BOOTTIME);
        const auto now = clock(CLOCK_REALTIME);
        const auto after = clock(CLOCK_BOOTTIME);
        boot = now - before;
        if (after - before <= longest) {
            break;
        }
    }
    return boot;
}

/// In clock ticks since the node's boot.
std::uint64_t modificationTime(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return 0;
    }
    const auto time = nanoseconds(status.st_mtim) - timeOfBoot();
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

std::optional<PidFile::Start> PidFile::report() const {
    const UniqueFd file(written ? -1
                                : ::openat(directory.get(), fileName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const int source = written ? written.get() : file.get();
    const auto text = readableBytes(source, 0, 32);  // the runtime writes the number in one piece
    const auto number = parseNumber(trim(text));
    if (!number || *number == 0 || *number > INT_MAX) {
        return std::nullopt;
    }
    return Start{.pid = static_cast<pid_t>(*number), .time = modificationTime(source)};
}

std::optional<PidFile::Start> PidFile::read() {
    const auto start = seen ? std::nullopt : report();
    seen = seen || start;
    return start;
}

std::optional<Process> PidFile::program() const {
    const auto start = report();
    if (!start) {
        return std::nullopt;
    }
    // Files get the time of the kernel's last tick, and a busy host may delay those of a virtual machine.
    const auto tolerance = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const Process process(start->pid);
    const bool isReused = process.started() > start->time + tolerance;
    return process.started() == 0 || isReused ? std::nullopt : std::optional(process);
}

void PidFile::appendDescriptors(std::vector<int>& descriptors) const {
    for (const auto* descriptor : {&written, &directory}) {
        if (*descriptor) {
            descriptors.push_back(descriptor->get());
        }
    }
}

bool PidFile::started() const {
    struct stat status {};
    if (seen || ::fstatat(directory.get(), fileName, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return seen || errno != ENOENT;
    }
    return status.st_size > 0;
}

}  // namespace sarus::starter
