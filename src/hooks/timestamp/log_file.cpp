#include "hooks/timestamp/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/read_bytes.hpp"
#include "base/text.hpp"

namespace sarus::hooks::timestamp {

namespace {

constexpr std::string_view lineSubject = "] [hook] [INFO] Timestamp hook:";

std::string nineDigits(long nanoseconds) {
    auto digits = cat(nanoseconds);
    return digits.insert(0, 9 - std::min<std::size_t>(9, digits.size()), '0');
}

}  // namespace

std::string formatLine(const timespec& time, std::string_view host, int pid, std::string_view message) {
    return cat('[', time.tv_sec, '.', nineDigits(time.tv_nsec), "] [", host, '-', pid, lineSubject,
               message.empty() ? "" : " ", printable(message), '\n');
}

bool isStartOfLog(std::string_view text) {
    const auto line = text.substr(0, text.find('\n'));
    return text.empty() || (line.starts_with('[') && line.find(lineSubject) != std::string_view::npos);
}

void appendLine(const std::string& path, std::string_view line, bool withRootsRights) {
    const auto shown = cat("the log file ", printable(path), " of TIMESTAMP_HOOK_LOGFILE");
    const int flags =
        O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | (withRootsRights ? O_RDWR | O_NOFOLLOW : O_WRONLY);
    UniqueFd file;
    try {
        file = openFile(path, flags, 0644);
    } catch (Error& error) {
        error.addContext(cat("Cannot write ", shown));
        throw;
    }
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", shown));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat("Cannot write ", shown, ": it is not a regular file"));
    }
    if (withRootsRights) {
        if (!isStartOfLog(readBytes(file.get(), 0, 1024, shown))) {
            throw Error(
                cat("Not appending to ", shown, " with the rights of root: it is not a log of this hook"));
        }
    }
    writeAll(file.get(), line, shown);
}

}  // namespace sarus::hooks::timestamp
