#pragma once

#include <string>
#include <string_view>

#include "base/log.hpp"
#include "hooks/kit/hook_context.hpp"

namespace sarus::hooks {

/// The annotation that sets how much hooks say: 0 debug, 1 info, 2 warn, 3 error.
inline constexpr std::string_view kLogLevelAnnotation = "com.hooks.logging.level";
/// Name of the FIFO in the bundle through which an engine collects what its hooks say.
inline constexpr std::string_view kLogFifo = "hooks-log";

/// Messages of one hook, in the format of base/log.hpp with the hook's name as subsystem ("MPI hook").
class HookLog {
public:
    explicit HookLog(std::string hookName) : name(std::move(hookName)) {}

    void debug(std::string_view message) const { logDebug(name, message); }
    void info(std::string_view message) const { logInfo(name, message); }
    void warn(std::string_view message) const { logWarn(name, message); }
    void error(std::string_view message) const { logError(name, message); }
    const std::string& hookName() const noexcept { return name; }

private:
    std::string name;
};

/// The level that an annotation's value asks for; nullopt unless it is a number from 0 to 4.
std::optional<LogLevel> parseLogLevel(std::string_view value);

/// Sets the level which the container's annotations ask for (a value that is no level is ignored, with a warning) and, if the
/// bundle holds the engine's log FIFO, makes it standard output and standard error: runtimes keep back or drop what hooks print.
/// The FIFO must belong to this process's user and be closed to everybody else, and it must have a reader.
/// Nothing that an annotation names is ever opened (`com.hooks.logging.stdoutfd` and `.stderrfd` are ignored): users and
/// images can set annotations, and hooks may run as root.
void configureLogging(const HookContext& context, const HookLog& log);

}  // namespace sarus::hooks
