#include "podman_hpc/hook_tool/rule_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/modules/module.hpp"

namespace sarus::podman_hpc {

namespace {

bool isPublic(int directory) {
    struct stat status {};
    return ::fstat(directory, &status) == 0 && (status.st_mode & S_ISVTX) != 0 &&
           (status.st_mode & S_IWOTH) != 0;
}

/// Whether the open file may be overwritten.
bool isOwnLog(int file) {
    struct stat status {};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
        status.st_nlink != 1) {
        return false;
    }
    std::array<char, firstLogLine.size() + 1> begin{};
    const auto count = ::pread(file, begin.data(), begin.size(), 0);
    return count > 0 &&
           std::string_view(begin.data(), static_cast<std::size_t>(count)) == cat(firstLogLine, '\n');
}

UniqueFd openLog(const std::string& path) {
    const auto slash = path.rfind('/');
    if (!path.starts_with('/') || slash + 1 == path.size()) {
        throw Error(cat("'", printable(path), "' is not the absolute path of a file"));
    }
    const auto directory = openFile(slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY);
    const auto name = path.substr(slash + 1);
    constexpr int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    if (isPublic(directory.get())) {
        // Not O_CREAT on an existing file: the kernel refuses it here, even for root, if it is another's.
        UniqueFd made(::openat(directory.get(), name.c_str(), flags | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        if (made) {
            return made;
        }
    }
    auto file = openFileAt(directory.get(), name, flags);
    if (!isOwnLog(file.get())) {
        throw Error(cat(printable(path), " is not a log of this hook"),
                    "Remove the file or choose another one");
    }
    checkErrno(::ftruncate(file.get(), 0), "Failed to empty the file");
    return file;
}

}  // namespace

RuleLog RuleLog::open(const std::string& path) {
    RuleLog log;
    try {
        log.file = openLog(path);
    } catch (Error& error) {
        throw error.addContext("LOG_PLUGIN");
    }
    return log;
}

void RuleLog::line(std::string_view text) const {
    if (!file) {
        return;
    }
    try {
        writeAll(file.get(), cat(text, '\n'), "LOG_PLUGIN");
    } catch (const Error&) {
        // a full disk must not keep the container from starting
    }
}

}  // namespace sarus::podman_hpc
