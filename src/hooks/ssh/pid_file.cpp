#include "hooks/ssh/pid_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"
#include "hooks/kit/container_user.hpp"

namespace sarus::hooks::ssh {

namespace {

constexpr std::size_t maxPidFile = 16;

/// nullopt if the file holds anything else. 0 for an empty one.
std::optional<pid_t> pidIn(int file) {
    const auto status = statusOf(file, "a pid file");
    if (!S_ISREG(status.st_mode) || container_root::isOfKernel(file) ||
        status.st_size > static_cast<off_t>(maxPidFile)) {
        return std::nullopt;
    }
    const auto text = std::string(trim(readAll(file, maxPidFile, "a pid file")));
    const auto pid = parseNumber(text.empty() ? "0" : text);
    return pid && *pid <= INT_MAX ? std::optional(static_cast<pid_t>(*pid)) : std::nullopt;
}

void overwrite(const UniqueFd& file, const std::string& path, std::string_view text) {
    if (!pidIn(file.get())) {
        throw Error(cat("Not overwriting ", printable(path), ": it is not a pid file"));
    }
    checkErrno(::ftruncate(file.get(), 0), cat("Failed to truncate ", printable(path)));
    checkErrno(::lseek(file.get(), 0, SEEK_SET), cat("Failed to write ", printable(path)));
    writeAll(file.get(), text, printable(path));
}

}  // namespace

void writePidFile(const std::string& path, std::string_view text) {
    overwrite(openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644), path, text);
}

void writePidFileInside(const container_root::Editor& editor, const std::string& path,
                        std::string_view text) {
    overwrite(editor.openUsersFile(path), path, text);
}

std::optional<pid_t> takePidFile(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    const auto pid = file ? pidIn(file.get()) : std::nullopt;
    if (pid) {
        ::unlink(path.c_str());
    }
    return pid;
}

void endDaemonOf(std::optional<pid_t> pid, const HookContext& context) {
    if (!pid || *pid <= 1 || !context.hasConfig()) {
        return;
    }
    becomeContainerUser(context);
    const auto comm = cat("/proc/", *pid, "/comm");
    if (pathExists(comm) && trim(readFile(comm)) == "dropbear") {
        ::kill(*pid, SIGTERM);
    }
}

}  // namespace sarus::hooks::ssh
