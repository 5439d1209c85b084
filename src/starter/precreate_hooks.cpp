#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <limits>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "starter/hooks.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestConfig = 16U << 20U;
constexpr std::size_t largestMessage = 64U << 10U;

UniqueFd memoryFile(const char* name) {
    return UniqueFd(checkErrno(::memfd_create(name, MFD_CLOEXEC), "Failed to create a memory file for a hook"));
}

std::string content(const UniqueFd& file, std::size_t limit, std::string_view what) {
    checkErrno(::lseek(file.get(), 0, SEEK_SET), "Failed to read what a hook wrote");
    return readAll(file.get(), limit, what);
}

/// False if the process did not end in time. All signals are blocked here, so the one of a child's end waits to be taken.
bool waitUntilEnded(pid_t process, std::optional<std::uint64_t> seconds) {
    timespec start{};
    ::clock_gettime(CLOCK_MONOTONIC, &start);
    sigset_t childEnded;
    ::sigemptyset(&childEnded);
    ::sigaddset(&childEnded, SIGCHLD);
    while (true) {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == process) {
            return true;
        }
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        if (seconds && static_cast<std::uint64_t>(now.tv_sec - start.tv_sec) >= *seconds) {
            return false;
        }
        const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
        ::sigtimedwait(&childEnded, nullptr, &patience);
    }
}

std::string runOne(const engine::PlannedHook& planned, const std::string& configJson) {
    const auto& hook = planned.hook;
    const auto title = cat("The hook '", printable(planned.name), "' (", printable(hook.path), ", precreate)");
    const auto input = memoryFile("config.json");
    writeAll(input.get(), configJson, "a hook's input");
    checkErrno(::lseek(input.get(), 0, SEEK_SET), "Failed to rewind a hook's input");
    const auto output = memoryFile("output");
    const auto errors = memoryFile("errors");
    auto args = hook.args;
    if (args.empty()) {
        args.push_back(hook.path);
    }
    auto child = start({.path = hook.path,
                        .args = std::move(args),
                        .environment = hook.env,
                        .stdinFd = input.get(),
                        .stdoutFd = output.get(),
                        .stderrFd = errors.get()});
    if (!waitUntilEnded(child.pid(), hook.timeout)) {
        throw Error(cat(title, " did not end within ", *hook.timeout, " s"));
    }
    const auto status = child.wait();
    const auto said =
        printable(trim(content(errors, std::numeric_limits<std::size_t>::max(), "a hook's messages").substr(0, largestMessage)));
    if (!status.ok()) {
        throw Error(cat(title, " failed with ", status.signal != 0 ? "signal " : "status ",
                        status.signal != 0 ? status.signal : status.code, said.empty() ? "" : ": ", said));
    }
    if (!said.empty()) {
        logWarn("Hooks", cat(title, ": ", said));
    }
    auto result = content(output, largestConfig, cat("the output of ", hook.path));
    if (!oci::isJsonObject(result)) {
        throw Error(cat(title, " did not write a configuration (a JSON object) to its standard output"));
    }
    return result;
}

}  // namespace

std::string runPrecreateHooks(const engine::ContainerPlan& plan, std::string configJson) {
    for (const auto& planned : plan.hooks) {
        if (planned.stage == oci::kPrecreateStage) {
            configJson = runOne(planned, configJson);
        }
    }
    return configJson;
}

}  // namespace sarus::starter
