#include "base/log.hpp"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/host_variable.hpp"
#include "base/line_writer.hpp"
#include "base/progress_line.hpp"
#include "base/said_once.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

LogLevel currentLevel = LogLevel::warn;
int firstOutputError = 0;
bool mayColour = true;

std::string& programName() {
    static std::string name;
    return name;
}

/// Whether it is a message of a program that says no more than it must.
bool isForUsers(LogLevel level) {
    return (level == LogLevel::warn || level == LogLevel::error) && currentLevel > LogLevel::info;
}

/// What stands before a message on a terminal: "sarus: error: " or "sarus: warning: ", if this program has
/// said its name.
std::string messagePrefix(std::string_view kind, std::string_view colour) {
    if (programName().empty() || ::isatty(STDERR_FILENO) != 1) {
        return {};
    }
    if (!hasColours(STDERR_FILENO)) {
        return cat(programName(), ": ", kind, ": ");
    }
    return cat(programName(), ": \033[1;", colour, "m", kind, ":\033[0m ");
}

LineWriter& lineWriter() {
    static LineWriter writer;
    return writer;
}

void noteOutputError(int errnum) noexcept {
    if (firstOutputError == 0) {
        firstOutputError = errnum;
    }
}

void writeWhole(int fd, std::string_view rest) {
    while (!rest.empty()) {
        const auto written = ::write(fd, rest.data(), rest.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            if (fd == STDOUT_FILENO) {
                noteOutputError(written < 0 ? errno : EIO);
            }
            return;  // standard error itself failed: nowhere left to report
        }
        rest.remove_prefix(static_cast<std::size_t>(written));
    }
}

void writeLine(int fd, std::string line) {
    line += '\n';
    if (const auto& writer = lineWriter()) {
        writer([&] { writeWhole(fd, line); });
    } else {
        writeWhole(fd, line);
    }
}

}  // namespace

void setLineWriter(LineWriter writer) {
    lineWriter() = std::move(writer);
}

void neverColour() noexcept {
    mayColour = false;
}

bool hasColours(int fd) {
    return mayColour && !nonEmptyHostVariable("NO_COLOR") && canRewrite(fd);
}

void setProgramName(std::string_view name) {
    programName() = name;
}

void setLogLevel(LogLevel level) noexcept {
    currentLevel = level;
}

LogLevel logLevel() noexcept {
    return currentLevel;
}

void log(LogLevel level, std::string_view subsystem, std::string_view message) {
    if (level < currentLevel || (isForUsers(level) && saidByAnotherTask(message))) {
        return;
    }
    const int fd = level == LogLevel::warn || level == LogLevel::error ? STDERR_FILENO : STDOUT_FILENO;
    if (level == LogLevel::general) {
        writeLine(fd, std::string(message));
        return;
    }
    const auto prefix = level == LogLevel::warn ? messagePrefix("warning", "33") : std::string();
    if (!prefix.empty() && currentLevel == LogLevel::warn) {
        writeLine(fd, cat(prefix, message));
        return;
    }
    constexpr std::array names{"DEBUG", "INFO", "WARN", "ERROR"};
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    utsname host{};
    ::uname(&host);
    constexpr std::size_t digits = 9;
    auto nanoseconds = cat(now.tv_nsec);
    nanoseconds.insert(0, digits - nanoseconds.size(), '0');
    writeLine(
        fd, cat('[', now.tv_sec, '.', nanoseconds, "] [", static_cast<const char*>(host.nodename), '-',
                ::getpid(), "] [", subsystem, "] [", names[static_cast<std::size_t>(level)], "] ", message));
}

void printError(std::string_view message) {
    writeLine(STDERR_FILENO, std::string(message));
}

void printErrorOnce(std::string_view line, std::string_view message) {
    if (!isForUsers(LogLevel::error) || !saidByAnotherTask(message)) {
        printError(line);
    }
}

void printLine(std::string_view message) {
    writeLine(STDOUT_FILENO, std::string(message));
}

void printError(const Error& error) {
    if (isForUsers(LogLevel::error) && saidByAnotherTask(error.what())) {
        return;
    }
    printError(cat(messagePrefix("error", "31"), error.what()));
    if (!error.hint().empty()) {
        printError(error.hint());
    }
    for (const auto& line : error.usage()) {
        printError(line);
    }
    if (logLevel() > LogLevel::info) {
        return;
    }
    if (!error.id().empty() && logLevel() == LogLevel::debug) {
        printError(cat("Error identifier: ", error.id()));
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
