#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/begin_process.hpp"
#include "base/unique_fd.hpp"

namespace sarus {

/// How a child process ended.
struct ExitStatus {
    int code = 0;    ///< exit code, if it was not ended by a signal
    int signal = 0;  ///< the signal that ended it, or 0
    bool ok() const noexcept { return code == 0 && signal == 0; }
    /// As a shell reports it: the code, or 128 + signal.
    int shellStatus() const noexcept { return signal != 0 ? 128 + signal : code; }
};

/// A child process. The destructor kills (SIGKILL) and reaps it unless it was reaped or released. If it leads
/// its own process group (Command::ownGroup), the group ends with it.
class Child {
public:
    Child() noexcept = default;
    explicit Child(pid_t process, bool leadsGroup = false) noexcept : id(process), isLeader(leadsGroup) {}
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child();

    pid_t pid() const noexcept { return id; }
    ExitStatus wait();
    /// nullopt if it still runs at the deadline.
    std::optional<ExitStatus> waitUntil(std::chrono::steady_clock::time_point deadline);
    /// Releases the pid to the caller, who reaps it.
    pid_t release() noexcept;

private:
    void end() noexcept;
    pid_t id = -1;
    bool isLeader = false;
};

/// A program to start, never through a shell. `path` is absolute; PATH is not searched.
struct Command {
    std::string path;
    std::vector<std::string> args;                          ///< argv, including argv[0]
    std::optional<std::vector<std::string>> environment{};  ///< K=V; the caller's if absent
    int stdinFd = -1;                                       ///< -1: /dev/null
    int stdoutFd = -1;                                      ///< -1: inherited
    int stderrFd = -1;                                      ///< -1: inherited
    std::vector<int> keepFds{};  ///< descriptors that the child keeps (same numbers)
    bool dieWithParent = true;   ///< PR_SET_PDEATHSIG = SIGKILL
    bool ownGroup = false;       ///< a process group, killed when the program ends
    IgnoredSignals ignoredSignals = IgnoredSignals::keep;  ///< reset: for a program that a site trusts
};

/// Starts the program. It inherits only descriptors 0-2 and `keepFds`; signals are unblocked and, apart from
/// `ignoredSignals`, default.
/// Throws Error if it cannot be executed.
Child start(const Command& command);

struct Output {
    ExitStatus status;
    std::string out;
    std::string err;
};

/// Runs the program to its end and collects both outputs, each up to `limit` bytes; drops the rest.
Output runAndCapture(Command command, std::size_t limit = 4U << 20U);

/// What execve(2) takes: the strings, which it does not modify, and a null pointer. They must outlive it.
std::vector<char*> argumentPointers(const std::vector<std::string>& strings);

/// Executes the program in place of this one, with its descriptors and environment. Throws Error.
[[noreturn]] void replaceProcess(const std::string& path, const std::vector<std::string>& args);

/// Searches PATH of this process as execvp(3) does; nullopt if the program is not found.
std::optional<std::string> findProgram(const std::string& name);
/// Searches these directories, a list with colons.
std::optional<std::string> findProgram(const std::string& name, std::string_view directories);

}  // namespace sarus
