#include "hooks/kit/hook_logger.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/said_once.hpp"
#include "base/text.hpp"

namespace sarus::hooks {

namespace {

constexpr const char* syslogSocket = "/dev/log";

/// Where to record warnings and errors: opened before the hook enters a namespace; writes never block.
struct Record {
    UniqueFd target;
    bool isSyslog = false;
    std::string container;
};
Record record;

/// Empty if nobody listens.
UniqueFd connectToSyslog() {
    UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, syslogSocket, sizeof address.sun_path - 1);
    if (!socket ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return {};
    }
    return socket;
}

/// Opens an absolute path without symbolic links in any component; empty descriptor and errno on failure.
UniqueFd openWithoutLinks(const std::string& path, int flags) {
    UniqueFd place(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto slash = path.rfind('/');
    for (const auto& part : split(std::string_view(path).substr(0, slash), '/')) {
        if (place && !part.empty()) {
            place.reset(::openat(place.get(), part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        }
    }
    return place ? UniqueFd(::openat(place.get(), path.c_str() + slash + 1, flags | O_NOFOLLOW | O_CLOEXEC))
                 : UniqueFd();
}

/// The administrator names the file, but users may be able to change a directory above it, and this process
/// may be root.
UniqueFd openLogFile(const std::string& path) {
    const auto shown = cat(logVariable, ": the file ", printable(path));
    auto file = openWithoutLinks(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
    if (!file) {
        throw Error::fromErrno(cat("Cannot open ", shown), errno,
                               "Make the file first; no symbolic link may lead to it");
    }
    struct stat status {};
    checkErrno(::fstat(file.get(), &status), cat("Failed to examine ", shown));
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw Error(cat(shown, " is not used"),
                    "It must be a regular file that only its owner, the user of the hook, may write");
    }
    return file;
}

std::string valueOfVariable(const HookEnvironment& environment) {
    auto value = environment.find(logVariable).value_or("");
    if (!value.empty() && value != "syslog" && value != "none" && value.front() != '/') {
        throw Error(cat(logVariable, " is '", printable(value), "'"),
                    "It is syslog, none or the absolute path of a file");
    }
    return value;
}

void write(LogLevel level, std::string_view name, std::string_view message) {
    if (!record.target) {
        return;
    }
    const bool isError = level == LogLevel::error;
    std::array<char, 40> time{};
    const auto now = ::time(nullptr);
    struct tm local {};
    ::localtime_r(&now, &local);
    std::string text;
    if (record.isSyslog) {
        constexpr int daemon = 3 << 3;
        ::strftime(time.data(), time.size(), "%b %e %H:%M:%S", &local);
        text = cat('<', daemon + (isError ? 3 : 4), '>', time.data(), " sarus-hook[", ::getpid(), "]: ");
    } else {
        ::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
        text = cat(time.data(), ' ', isError ? "ERROR " : "WARN ");
    }
    text += cat(name, record.container.empty() ? "" : cat(" [", record.container, ']'), ": ", message);
    text += record.isSyslog ? "" : "\n";
    // One call per record. A failed write is no reason to stop a container.
    [[maybe_unused]] const auto written = ::write(record.target.get(), text.data(), text.size());
}

bool useFifo(const std::string& bundle) {
    if (bundle.empty() || bundle == "/") {
        return false;
    }
    const auto path = cat(bundle, '/', logFifo);
    // Without a reader a non-blocking open fails, and the output stays where it was.
    const UniqueFd fifo(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (!fifo || ::fstat(fifo.get(), &status) != 0) {
        return false;
    }
    constexpr mode_t others = S_IRWXG | S_IRWXO;
    if (!S_ISFIFO(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & others) != 0) {
        return false;
    }
    const int flags = ::fcntl(fifo.get(), F_GETFL);
    ::fcntl(fifo.get(), F_SETFL, flags & ~O_NONBLOCK);
    ::dup2(fifo.get(), STDOUT_FILENO);
    ::dup2(fifo.get(), STDERR_FILENO);
    return true;
}

}  // namespace

void HookLogger::warn(std::string_view message) const {
    logWarn(name, message);
    write(LogLevel::warn, name, message);
}

void HookLogger::error(std::string_view message) const {
    logError(name, message);
    write(LogLevel::error, name, message);
}

void checkLogVariable(const HookEnvironment& environment) {
    if (const auto value = valueOfVariable(environment); value.starts_with('/')) {
        openLogFile(value);
    }
}

void openLog(const HookEnvironment& environment, const HookLogger& log) {
    try {
        const auto value = valueOfVariable(environment);
        record.isSyslog = !value.starts_with('/');
        record.target = value == "none"   ? UniqueFd()
                        : record.isSyslog ? connectToSyslog()
                                          : openLogFile(value);
    } catch (const Error& error) {
        log.warn(cat(error.what(), error.hint().empty() ? "" : cat(" (", error.hint(), ")")));
    }
}

std::optional<LogLevel> parseLogLevel(std::string_view value) {
    const auto number = parseNumber(value);
    return number && *number <= static_cast<std::uint64_t>(LogLevel::general)
               ? std::optional(static_cast<LogLevel>(*number))
               : std::nullopt;
}

void configureLogging(const HookContext& context, const HookEnvironment& environment, const HookLogger& log) {
    record.container = printable(context.state().id);
    const bool starterForwards = useFifo(context.bundle());
    if (starterForwards && !environment.find(logVariable)) {
        record.target.reset();
    }
    if (!starterForwards) {  // which says the same once for all tasks of a step
        speakForTask([&](const std::string& name) {
            return context.hasConfig() ? context.containerVariable(name) : std::nullopt;
        });
    }
    const auto value = context.annotation(logLevelAnnotation);
    if (!value) {
        return;
    }
    if (const auto level = parseLogLevel(*value)) {
        setLogLevel(*level);
    } else {
        log.warn(
            cat("The annotation ", logLevelAnnotation, " is not a level from 0 to 4: ", printable(*value)));
    }
}

}  // namespace sarus::hooks
