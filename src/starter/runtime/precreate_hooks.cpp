#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/pipe.hpp"
#include "base/process_tree.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "starter/entry/termination.hpp"
#include "starter/runtime/hooks.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestConfig = 16U << 20U;
constexpr std::size_t largestMessage = 64U << 10U;

/// Collects a hook's output up to a limit, and discards the rest.
class Collector {
public:
    explicit Collector(std::size_t theLimit) : limit(theLimit) {
        checkErrno(::fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK), "Failed to set up a pipe for a hook");
    }

    int input() const noexcept { return pipe.writer.get(); }
    void closeInput() noexcept { pipe.writer.reset(); }
    /// -1 when everything has been written.
    int descriptor() const noexcept { return pipe.reader.get(); }
    const std::string& text() const noexcept { return collected; }
    bool isCut() const noexcept { return cut; }

    void readAvailable() {
        std::array<char, 16384> buffer{};
        ssize_t count = 0;
        while (pipe.reader && (count = ::read(pipe.reader.get(), buffer.data(), buffer.size())) > 0) {
            const auto kept = std::min(static_cast<std::size_t>(count), limit - collected.size());
            collected.append(buffer.data(), kept);
            cut = cut || kept < static_cast<std::size_t>(count);
        }
        if (count == 0) {
            pipe.reader.reset();
        }
    }

private:
    std::size_t limit;
    std::string collected{};
    bool cut = false;
    Pipe pipe = makePipe();
};

struct Edited {
    std::string text;
    oci::BundleConfig config;
};

Edited runOne(const engine::PlannedHook& planned, const std::string& configJson, const std::string& bundle) {
    const auto& hook = planned.hook;
    const auto title =
        cat("The hook '", printable(planned.name), "' (", printable(hook.path), ", precreate)");
    const auto input = makeMemoryFile("config.json", configJson);
    Collector output(largestConfig);
    Collector errors(largestMessage);
    auto args = hook.args;
    if (args.empty()) {
        args.push_back(hook.path);
    }
    auto environment = hook.env;
    environment.push_back(cat(hook_contracts::trustVariable, "=true"));
    environment.push_back(cat(hook_contracts::bundleVariable, '=', bundle));
    auto child = start({.path = hook.path,
                        .args = std::move(args),
                        .environment = std::move(environment),
                        .stdinFd = input.get(),
                        .stdoutFd = output.input(),
                        .stderrFd = errors.input(),
                        .ignoredSignals = IgnoredSignals::reset});
    output.closeInput();
    errors.closeInput();
    if (!waitForHook(
            child.pid(), hook.timeout,
            [&] {
                return std::array{output.descriptor(), errors.descriptor()};
            },
            [&] {
                output.readAvailable();
                errors.readAvailable();
            })) {
        killDescendants(Process(child.pid()), 2);
        throwIfTerminated();
        throw Error(cat(title, " did not end within ", *hook.timeout, " s"));
    }
    const auto status = child.wait();
    const auto said = printable(trim(errors.text()));
    if (!status.ok()) {
        throw Error(cat(title, " failed with ", status.signal != 0 ? "signal " : "status ",
                        status.signal != 0 ? status.signal : status.code, said.empty() ? "" : ": ", said));
    }
    if (!said.empty()) {
        logWarn("Hooks", cat(title, ": ", said));
    }
    const auto refuse = [&](const std::string& why) {
        return Error(
            cat(title, " did not write a configuration (a JSON object) to its standard output", why));
    };
    if (output.isCut()) {
        throw refuse("");
    }
    try {
        return {output.text(),
                oci::BundleConfig::parse(output.text(), "config.json after the precreate hooks")};
    } catch (const Error& error) {
        throw refuse(cat(": ", error.what()));
    }
}

}  // namespace

bool waitForHook(pid_t process, std::optional<std::uint64_t> seconds,
                 const std::function<std::array<int, 2>()>& outputs, const std::function<void()>& read) {
    const auto start = std::chrono::steady_clock::now();
    const UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));  // none before Linux 5.3
    const timespec patience{.tv_sec = 0, .tv_nsec = end ? 100'000'000 : 5'000'000};
    while (true) {
        siginfo_t info{};
        const bool ended =
            ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == process;
        read();
        if (ended) {
            return true;
        }
        if (isTerminationPending() || (seconds && std::chrono::steady_clock::now() - start >=
                                                      std::chrono::duration<double>(*seconds))) {
            return false;
        }
        const auto [output, errors] = outputs();
        std::array<pollfd, 3> sources{{{end.get(), POLLIN, 0}, {output, POLLIN, 0}, {errors, POLLIN, 0}}};
        ::ppoll(sources.data(), sources.size(), &patience, nullptr);
    }
}

EditedConfig runPrecreateHooks(const engine::ContainerPlan& plan, std::string configJson,
                               const std::string& bundle) {
    EditedConfig result{.text = std::move(configJson)};
    std::optional<oci::BundleConfig> last;
    for (const auto& planned : plan.hooks) {
        if (planned.stage == oci::precreateStage) {
            auto [text, config] = runOne(planned, result.text, bundle);
            result.text = std::move(text);
            last = std::move(config);
        }
    }
    if (last) {
        result.deviceRules = last->deviceRules();
    }
    return result;
}

}  // namespace sarus::starter
