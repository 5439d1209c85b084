#include "hooks/kit/hook_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"

namespace sarus::hooks {

namespace {

void useFifo(const std::string& bundle) {
    if (bundle.empty() || bundle == "/") {
        return;
    }
    const auto path = cat(bundle, '/', kLogFifo);
    // Without a reader a non-blocking open fails, and what the hook says goes where it went before.
    const UniqueFd fifo(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!fifo || ::fstat(fifo.get(), &status) != 0) {
        return;
    }
    constexpr mode_t others = S_IRWXG | S_IRWXO;
    if (!S_ISFIFO(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & others) != 0) {
        return;
    }
    const int flags = ::fcntl(fifo.get(), F_GETFL);
    ::fcntl(fifo.get(), F_SETFL, flags & ~O_NONBLOCK);
    ::dup2(fifo.get(), STDOUT_FILENO);
    ::dup2(fifo.get(), STDERR_FILENO);
}

}  // namespace

std::optional<LogLevel> parseLogLevel(std::string_view value) {
    const auto number = parseNumber(value);
    return number && *number <= static_cast<std::uint64_t>(LogLevel::general) ? std::optional(static_cast<LogLevel>(*number))
                                                                              : std::nullopt;
}

void configureLogging(const HookContext& context, const HookLog& log) {
    useFifo(context.bundle());
    const auto value = context.annotation(kLogLevelAnnotation);
    if (!value) {
        return;
    }
    if (const auto level = parseLogLevel(*value)) {
        setLogLevel(*level);
    } else {
        log.warn(cat("The annotation ", kLogLevelAnnotation, " is not a level from 0 to 4: ", printable(*value)));
    }
}

}  // namespace sarus::hooks
