#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

/// The only exception type that crosses a function boundary in this project (ARCHITECTURE.md, "Rules of the
/// house").
///
/// An error states the action, its object and the reason, and may add a hint. Each layer adds its own context
/// with `addContext`. `main` prints `what()`, the hint and the usage; `--debug` prints `id()` and `chain()`
/// too.
class Error : public std::exception {
public:
    /// `message`: one complete line without a trailing full stop or newline.
    explicit Error(std::string message, std::string hint = {});

    /// A failed system call: "<doing>: <strerror(errnum)>".
    static Error fromErrno(std::string_view doing, int errnum, std::string hint = {});

    /// The same without a system call that failed: only the message, and what callers compare.
    Error& setErrnum(int errnum);

    /// Adds the caller's context as the message; the previous message becomes the cause.
    Error& addContext(std::string_view doing);
    Error& setHint(std::string hint);
    /// A line about a mistake on the command line, such as "See 'sarus help run'".
    Error& addUsage(std::string line);
    /// A stable name of a problem that an administrator must resolve; sarus(1) lists all names.
    Error& setId(std::string name);
    /// Exit status of the program (default 1).
    Error& setExitStatus(int status);

    const char* what() const noexcept override { return whole.c_str(); }
    const std::string& hint() const noexcept { return hintText; }
    const std::vector<std::string>& usage() const noexcept { return usageLines; }
    /// Empty for most errors.
    const std::string& id() const noexcept { return name; }
    /// The errno value of the failed system call, or 0.
    int errnum() const noexcept { return errorNumber; }
    int exitStatus() const noexcept { return status; }
    /// The contexts, outermost first; the last element is the original message.
    const std::vector<std::string>& chain() const noexcept { return contexts; }

private:
    void rebuild();

    std::vector<std::string> contexts;
    std::string hintText;
    std::vector<std::string> usageLines;
    std::string name;
    std::string whole;
    int errorNumber = 0;
    int status = 1;
};

/// Throws Error::fromErrno with the current errno.
[[noreturn]] void throwErrno(std::string_view doing);

/// Returns `result` unless it is -1, in which case it throws Error::fromErrno(doing, errno).
template <typename Result>
Result checkErrno(Result result, std::string_view doing) {
    if (result == static_cast<Result>(-1)) {
        throwErrno(doing);
    }
    return result;
}

}  // namespace sarus
