#include "hooks/kit/run_hook.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "base/error.hpp"
#include "base/standard_streams.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

void normalizeProcess() {
    openMissingStandardStreams();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // An inherited SIG_IGN would make waitpid(2) fail. SIGPIPE is ignored: a reader that went away must not stop the work.
    ::signal(SIGCHLD, SIG_DFL);
    ::signal(SIGPIPE, SIG_IGN);
    ::umask(022);
    checkErrno(::chdir("/"), "Failed to change to the directory /");
}

/// Runs `work` and turns every exception into one or two lines and an exit status.
template <typename Work>
int guarded(const HookLog& log, Work work) noexcept {
    try {
        try {
            work();
            return 0;
        } catch (const Error& error) {
            log.error(error.what());
            if (!error.hint().empty()) {
                log.error(cat("hint: ", error.hint()));
            }
            return error.exitStatus();
        } catch (const std::exception& error) {
            log.error(cat("internal error: ", printable(error.what())));
        }
    } catch (...) {
        printError("hook: out of memory");
    }
    return 1;
}

}  // namespace

int runHookProgram(std::string_view hookName, ProgramBody body) noexcept {
    const HookLog log{std::string(hookName)};
    return guarded(log, [&] {
        normalizeProcess();
        const auto environment = HookEnvironment::take();
        body(environment, log);
    });
}

int runHook(std::string_view hookName, const HookBody& body) noexcept {
    const HookLog log{std::string(hookName)};
    return guarded(log, [&] {
        normalizeProcess();
        const auto environment = HookEnvironment::take();
        auto context = HookContext::read(STDIN_FILENO);
        configureLogging(context, log);
        body(context, environment, log);
    });
}

}  // namespace sarus::hooks
