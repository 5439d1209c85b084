#include "image/transfer/transfer_monitor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/directory.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/progress_line.hpp"
#include "base/text.hpp"
#include "image/transfer/pull_failure.hpp"

namespace sarus::image {

namespace {

using std::chrono::milliseconds;

/// The sizes of the regular files in a directory.
std::map<std::string, std::uint64_t> fileSizes(const std::string& directory) {
    std::map<std::string, std::uint64_t> sizes;
    Directory entries(directory, Missing::isEmpty);
    while (const char* name = entries.next()) {
        struct stat status {};
        if (::fstatat(entries.fd(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode)) {
            sizes.emplace(name, static_cast<std::uint64_t>(status.st_size));
        }
    }
    return sizes;
}

/// The name of a credential helper (docker-credential-helpers protocol) that the program is waiting for; ""
/// if there is none.
std::string credentialHelperOf(pid_t program) try {
    const auto tasks = cat("/proc/", program, "/task");
    Directory threads(tasks, Missing::isEmpty);
    while (const char* thread = threads.next()) {
        const UniqueFd children(::open(cat(tasks, '/', thread, "/children").c_str(), O_RDONLY | O_CLOEXEC));
        for (const auto& child : children ? splitWords(readAll(children.get(), 1U << 16U, "/proc"))
                                          : std::vector<std::string>{}) {
            const UniqueFd commandLine(
                ::open(cat("/proc/", child, "/cmdline").c_str(), O_RDONLY | O_CLOEXEC));
            const auto text = commandLine ? readAll(commandLine.get(), 1U << 21U, "/proc") : "";
            for (const auto& word : split(text, '\0')) {
                const auto name = fileNameOf(word);
                if (name.starts_with("docker-credential-")) {
                    return printable(name);
                }
            }
        }
    }
    return {};
} catch (const Error&) {
    return {};  // a process ended meanwhile
}

constexpr std::chrono::seconds firstTerminalLine{1};

void show(std::string_view text) {
    // A failure to show progress must not fail the transfer.
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

/// "20 s", or "500 ms" for times below a second.
std::string spoken(std::chrono::steady_clock::duration time) {
    const auto ms = std::chrono::duration_cast<milliseconds>(time).count();
    return ms < 1000 ? cat(ms, " ms") : cat(ms / 1000, " s");
}

}  // namespace

TransferMonitor::TransferMonitor(Transfer theTransfer, std::function<Clock::time_point()> now)
    : transfer(std::move(theTransfer)),
      clock(std::move(now)),
      onTerminal(canRewrite(STDERR_FILENO)),
      interval(std::clamp<std::uint64_t>(std::min(transfer.timings.warningMs, transfer.timings.timeoutMs) / 4,
                                         10, 1000)),
      lastLook(clock()),
      nextLine(onTerminal ? Duration(firstTerminalLine) : Duration(firstLogLine)),
      nextWarning(milliseconds(transfer.timings.warningMs)) {}

TransferMonitor::~TransferMonitor() {
    if (isShown) {
        show(wipedLine);
    }
}

ToolWatch TransferMonitor::watch() {
    return {interval, [this](pid_t program) { look(program); },
            [this](std::string_view piece) { hear(piece); }};
}

void TransferMonitor::hear(std::string_view piece) {
    constexpr std::chrono::seconds longestPause{60};  // skopeo waits for longer ones in vain
    heard += piece;
    if (const auto pause = requestedPause(heard); pause && *pause > longestPause) {
        throw Error(cat("Failed to pull image '", transfer.image, "'"),
                    cat("The registry '", transfer.server, "' refuses more requests for the next ",
                        pause->count(), " s. A login may raise the limit."));
    }
    constexpr std::size_t longestPart = 512;  // of a line
    heard.erase(0, heard.size() - std::min(heard.size(), longestPart));
}

std::uint64_t TransferMonitor::transferred() {
    auto now = fileSizes(transfer.directory);
    for (const auto& [name, size] : growing) {
        finishedBytes += now.find(name) == now.end() ? size : 0;
    }
    growing = std::move(now);
    auto bytes = finishedBytes;
    for (const auto& [name, size] : growing) {
        bytes += size;
    }
    return bytes;
}

void TransferMonitor::look(pid_t program) {
    const auto now = clock();
    const auto passed = std::min<Duration>(now - std::exchange(lastLook, now), 2 * interval);
    elapsed += passed;
    const auto bytes = transferred();
    checkSilence(bytes, passed, program);
    if (!transfer.label.empty() && elapsed >= nextLine) {
        showProgress(bytes);
    }
}

void TransferMonitor::showProgress(std::uint64_t bytes) {
    const auto total = transfer.totalBytes;
    const auto line = progressLine(transfer.label, total == 0 ? bytes : std::min(bytes, total), total,
                                   std::chrono::duration<double>(elapsed).count());
    if (onTerminal) {
        show(rewritten(line, STDERR_FILENO));
        isShown = true;
    } else {
        printError(line);
        nextLine += logInterval;
    }
}

void TransferMonitor::checkSilence(std::uint64_t bytes, Duration passed, pid_t program) {
    if (bytes != std::exchange(seenBytes, bytes)) {
        silence = Duration(0);
        nextWarning = milliseconds(transfer.timings.warningMs);
        return;
    }
    silence += passed;
    if (transfer.server.empty()) {
        return;
    }
    const milliseconds timeout(transfer.timings.timeoutMs);
    if (silence >= timeout) {
        const auto failure = cat("Failed to pull image '", transfer.image, "'");
        if (const auto helper = credentialHelperOf(program); !helper.empty()) {
            throw Error(
                failure,
                cat("The credential helper '", helper, "' has not answered for ", spoken(silence),
                    ". Check credHelpers and credsStore in your credential files (~/.docker/config.json)."));
        }
        throw Error(failure,
                    cat("The registry '", transfer.server, "' has sent nothing for ", spoken(silence),
                        ". Try again later: layers that have arrived are not downloaded again."));
    }
    if (silence >= nextWarning) {
        const auto helper = credentialHelperOf(program);
        const auto cause = helper.empty() ? cat("The registry '", transfer.server, "' has sent nothing for ")
                                          : cat("The credential helper '", helper, "' has not answered for ");
        logWarn("ImageManager", cat(cause, spoken(silence), " (will give up after ", spoken(timeout), ")"));
        nextWarning *= 2;
    }
}

}  // namespace sarus::image
