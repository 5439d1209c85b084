#pragma once

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

/// The only exception type that crosses a function boundary in this project (ARCHITECTURE.md, "Rules of the house").
///
/// An error says what was being done, to which object and why it failed; it may add a hint what to do. Layers add
/// their own view with `addContext`. `main` prints `what()`, then the hint; `--debug` prints `chain()` too.
class Error : public std::exception {
public:
    /// `message`: one line, complete by itself, without a trailing full stop or newline.
    explicit Error(std::string message, std::string hint = {});

    /// The failure of a system call: "<doing>: <strerror(errnum)>".
    static Error fromErrno(std::string_view doing, int errnum, std::string hint = {});

    /// Puts the caller's view in front; what was the message becomes the cause.
    Error& addContext(std::string_view doing);
    Error& setHint(std::string hint);
    /// Exit status with which the program ends (default 1).
    Error& setExitStatus(int status);

    const char* what() const noexcept override { return whole.c_str(); }
    const std::string& hint() const noexcept { return hintText; }
    /// The errno value of the failed system call, or 0.
    int errnum() const noexcept { return errorNumber; }
    int exitStatus() const noexcept { return status; }
    /// The contexts, outermost first; the last element is the original message.
    const std::vector<std::string>& chain() const noexcept { return contexts; }

private:
    void rebuild();

    std::vector<std::string> contexts;
    std::string hintText;
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
