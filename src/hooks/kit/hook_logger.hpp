#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_environment.hpp"

namespace sarus::hooks {

/// The annotation that sets the log level of hooks: 0 debug, 1 info, 2 warn, 3 error.
inline constexpr std::string_view logLevelAnnotation = "com.hooks.logging.level";
/// Name of the FIFO in the bundle through which an engine collects the hooks' output.
inline constexpr std::string_view logFifo = "hooks-log";

/// The variable in the hook's `env` that selects where to record warnings and errors besides standard error:
/// "syslog", the absolute path of a file, or "none". By default syslog, unless the engine collects them:
/// Podman and crun hide the output of hooks.
inline constexpr std::string_view logVariable = "HOOK_LOG";

/// Messages of one hook, in the format of base/log.hpp with the hook's name as subsystem ("MPI hook").
class HookLogger {
public:
    explicit HookLogger(std::string hookName) : name(std::move(hookName)) {}

    void debug(std::string_view message) const { logDebug(name, message); }
    void info(std::string_view message) const { logInfo(name, message); }
    /// Also recorded as set by HOOK_LOG, whatever the level is: users choose the level.
    void warn(std::string_view message) const;
    void error(std::string_view message) const;
    const std::string& hookName() const noexcept { return name; }

private:
    std::string name;
};

/// The level requested by an annotation's value; nullopt unless it is a number from 0 to 4.
std::optional<LogLevel> parseLogLevel(std::string_view value);

/// Throws Error if HOOK_LOG has an invalid value, or names a file that cannot be opened.
void checkLogVariable(const HookEnvironment& environment);

/// Opens the target of HOOK_LOG. Problems are only warnings, because no container should fail for them. The
/// file must exist, as a regular file that belongs to this process's user and that nobody else can write, and
/// no symbolic link may lead to it.
void openLog(const HookEnvironment& environment, const HookLogger& log);

/// Sets the level requested by the container's annotations; warns about an invalid value and ignores it. If
/// the bundle holds the engine's log FIFO, makes it standard output and standard error: runtimes withhold or
/// drop the output of hooks. The FIFO must belong to this process's user, be closed to everybody else, and
/// have a reader. Never opens anything named by an annotation (ignores `com.hooks.logging.stdoutfd` and
/// `.stderrfd`): users and images can set annotations, and hooks may run as root. From now on, records of
/// HOOK_LOG name the container.
void configureLogging(const HookContext& context, const HookEnvironment& environment, const HookLogger& log);

}  // namespace sarus::hooks
