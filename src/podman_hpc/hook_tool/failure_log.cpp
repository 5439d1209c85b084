#include "podman_hpc/hook_tool/failure_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc {

namespace {

constexpr off_t largestLog = 1 << 20;

}  // namespace

std::string graphRootOf(const std::string& rootfs) {
    // <graph root>/overlay/<layer>/merged, or <graph root>/vfs/dir/<layer>
    auto root = directoryOf(directoryOf(directoryOf(rootfs)));
    const bool isStore =
        isDirectory(cat(root, "/overlay-containers")) || isDirectory(cat(root, "/vfs-containers"));
    return isStore ? root : "";
}

FailureLog::FailureLog(const std::string& rootfs) noexcept {
    try {
        if (const auto root = graphRootOf(rootfs); !root.empty()) {
            directory = openFile(root, O_PATH | O_DIRECTORY);
        }
    } catch (const std::exception&) {
        // standard error says it, too
    }
}

void FailureLog::add(std::string_view container, std::string_view reason) const noexcept {
    if (!directory) {
        return;
    }
    try {
        const auto file =
            openFileAt(directory.get(), std::string(failureLogName),
                       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
        struct stat status {};
        if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1 ||
            status.st_uid != ::geteuid() ||
            (status.st_size > largestLog && ::ftruncate(file.get(), 0) != 0)) {
            return;
        }
        writeAll(file.get(),
                 cat(formatUtcTime(::time(nullptr)), " container ", printable(container), ": ", reason, '\n'),
                 failureLogName);
    } catch (const std::exception&) {
        // standard error says it, too
    }
}

}  // namespace sarus::podman_hpc
