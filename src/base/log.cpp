#include "base/log.hpp"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

LogLevel currentLevel = LogLevel::warn;
int firstOutputError = 0;

void noteOutputError(int errnum) noexcept {
    if (firstOutputError == 0) {
        firstOutputError = errnum;
    }
}

void writeLine(int fd, std::string line) {
    line += '\n';
    std::string_view rest = line;
    while (!rest.empty()) {
        const auto written = ::write(fd, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            if (fd == STDOUT_FILENO) {
                noteOutputError(written < 0 ? errno : EIO);
            }
            return;  // on standard error, nobody is left who could be told
        }
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace

void setLogLevel(LogLevel level) noexcept {
    currentLevel = level;
}

LogLevel logLevel() noexcept {
    return currentLevel;
}

void log(LogLevel level, std::string_view subsystem, std::string_view message) {
    if (level < currentLevel) {
        return;
    }
    const int fd = level == LogLevel::warn || level == LogLevel::error ? STDERR_FILENO : STDOUT_FILENO;
    if (level == LogLevel::general) {
        writeLine(fd, std::string(message));
        return;
    }
    constexpr std::array names{"DEBUG", "INFO", "WARN", "ERROR"};
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    utsname host{};
    ::uname(&host);
    writeLine(fd, cat('[', now.tv_sec, '.', now.tv_nsec, "] [", static_cast<const char*>(host.nodename), '-', ::getpid(), "] [",
                      subsystem, "] [", names[static_cast<std::size_t>(level)], "] ", message));
}

void printError(std::string_view message) {
    writeLine(STDERR_FILENO, std::string(message));
}

void printLine(std::string_view message) {
    writeLine(STDOUT_FILENO, std::string(message));
}

void printError(const Error& error) {
    printError(std::string_view(error.what()));
    if (!error.hint().empty()) {
        printError(error.hint());
    }
    if (logLevel() > LogLevel::info) {
        return;
    }
    printError("Error trace (most nested error last):");
    for (std::size_t i = 0; i < error.chain().size(); ++i) {
        auto number = cat('#', i);
        number.resize(std::max<std::size_t>(number.size() + 1, 4), ' ');
        printError(cat(number, error.chain()[i]));
    }
}

int outputError() noexcept {
    return firstOutputError;
}

}  // namespace sarus
