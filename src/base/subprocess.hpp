#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus {

/// How a child process ended.
struct ExitStatus {
    int code = 0;    ///< exit code, if it was not ended by a signal
    int signal = 0;  ///< the signal which ended it, or 0
    bool ok() const noexcept { return code == 0 && signal == 0; }
    /// As a shell reports it: the code, or 128 + signal.
    int shellStatus() const noexcept { return signal != 0 ? 128 + signal : code; }
};

/// A child process; the destructor kills (SIGKILL) and reaps one which has not been waited for.
class Child {
public:
    Child() noexcept = default;
    explicit Child(pid_t process) noexcept : id(process) {}
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    pid_t pid() const noexcept { return id; }
    ExitStatus wait();
    /// Gives the pid to the caller, who reaps it.
    pid_t release() noexcept;

private:
    void end() noexcept;
    pid_t id = -1;
};

/// A program to start: never through a shell, `path` is absolute, nothing is searched in PATH.
struct Command {
    std::string path;
    std::vector<std::string> args;                          ///< argv, including argv[0]
    std::optional<std::vector<std::string>> environment{};  ///< K=V; the caller's if absent
    int stdinFd = -1;                                       ///< -1: /dev/null
    int stdoutFd = -1;                                      ///< -1: inherited
    int stderrFd = -1;                                      ///< -1: inherited
    std::vector<int> keepFds{};                             ///< descriptors which the child keeps (same numbers)
    bool dieWithParent = true;                              ///< PR_SET_PDEATHSIG = SIGKILL
};

/// Starts the program; every descriptor but 0-2 and `keepFds` is closed in it, signals are unblocked and default.
/// Throws Error if it cannot be executed.
Child start(const Command& command);

struct Output {
    ExitStatus status;
    std::string out;
    std::string err;
};

/// Runs the program to its end and collects both outputs, each at most `limit` bytes (more is read and dropped).
Output runAndCapture(Command command, std::size_t limit = 4U << 20U);

/// Searches PATH (of this process), as execvp(3) would; nullopt if there is none.
std::optional<std::string> findProgram(const std::string& name);

}  // namespace sarus
