#pragma once

#include <string_view>

namespace sarus {

class Error;

/// Levels, with the numbers of the annotation `com.hooks.logging.level`.
enum class LogLevel { debug = 0, info = 1, warn = 2, error = 3, general = 4 };

/// Lowest level to print (default warn). Not thread-safe: set it once, at the start.
void setLogLevel(LogLevel level) noexcept;
LogLevel logLevel() noexcept;

/// Writes one line. `general` has no prefix; the others start with
/// `[<sec>.<nsec>] [<hostname>-<pid>] [<subsystem>] [<LEVEL>] ` (monotonic clock, nanoseconds not padded).
/// debug, info and general go to standard output, warn and error to standard error.
void log(LogLevel level, std::string_view subsystem, std::string_view message);

inline void logDebug(std::string_view subsystem, std::string_view message) {
    log(LogLevel::debug, subsystem, message);
}
inline void logInfo(std::string_view subsystem, std::string_view message) {
    log(LogLevel::info, subsystem, message);
}
inline void logWarn(std::string_view subsystem, std::string_view message) {
    log(LogLevel::warn, subsystem, message);
}
inline void logError(std::string_view subsystem, std::string_view message) {
    log(LogLevel::error, subsystem, message);
}

/// Whether messages to this descriptor have colours: on a terminal, unless NO_COLOR is set or TERM is "dumb".
bool hasColours(int fd);

/// Writes one line for the user to standard error or standard output, without prefix, in a single write.
void printError(std::string_view message);
void printLine(std::string_view message);

/// As printError(), unless another task of the job step has said this (base/said_once.hpp). `message`: the
/// part of the line in which tasks agree.
void printErrorOnce(std::string_view line, std::string_view message);

/// On a terminal, errors and warnings of this program carry its name and their kind ("sarus: error: "), with
/// colours if it has any. Elsewhere the texts stay as they are: programs compare them.
void setProgramName(std::string_view name);

/// Prints the error at a program's end: message, hint and usage on standard error; then, if level debug is
/// printed, its identifier, and if level info is printed, a line "Error trace (most nested error last):" and
/// a numbered line for each element of the chain.
void printError(const Error& error);

/// The errno of the first failed write to standard output, or 0. Programs check it at their end, because lost
/// output is a failure.
int outputError() noexcept;

}  // namespace sarus
