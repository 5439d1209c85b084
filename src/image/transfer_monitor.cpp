#include "image/transfer_monitor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/progress_line.hpp"

namespace sarus::image {

namespace {

using std::chrono::milliseconds;

struct CloseDir {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

/// The sizes of the regular files in a directory; nothing if it cannot be read.
std::map<std::string, std::uint64_t> fileSizes(const std::string& directory) {
    std::map<std::string, std::uint64_t> sizes;
    const std::unique_ptr<DIR, CloseDir> entries(directory.empty() ? nullptr : ::opendir(directory.c_str()));
    while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
        struct stat status {};
        if (::fstatat(::dirfd(entries.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode)) {
            sizes.emplace(entry->d_name, static_cast<std::uint64_t>(status.st_size));
        }
    }
    return sizes;
}

/// "20 s", or "500 ms" where a site has chosen a time below a second.
std::string spoken(std::chrono::steady_clock::duration time) {
    const auto ms = std::chrono::duration_cast<milliseconds>(time).count();
    return ms < 1000 ? cat(ms, " ms") : cat(ms / 1000, " s");
}

}  // namespace

TransferMonitor::TransferMonitor(Transfer theTransfer)
    : transfer(std::move(theTransfer)),
      interval(std::clamp<std::uint64_t>(std::min(transfer.timings.warningMs, transfer.timings.timeoutMs) / 4, 10, 1000)),
      lastLook(std::chrono::steady_clock::now()),
      nextLine(firstLogLine),
      nextWarning(milliseconds(transfer.timings.warningMs)) {}

ToolWatch TransferMonitor::watch() {
    return {interval, [this] { look(); }};
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

void TransferMonitor::look() {
    const auto now = std::chrono::steady_clock::now();
    const auto passed = std::min<Duration>(now - std::exchange(lastLook, now), 2 * interval);
    elapsed += passed;
    const auto bytes = transferred();
    checkSilence(bytes, passed);
    if (!transfer.label.empty() && elapsed >= nextLine) {
        const auto total = transfer.totalBytes;
        printError(progressLine(transfer.label, total == 0 ? bytes : std::min(bytes, total), total,
                                std::chrono::duration<double>(elapsed).count()));
        nextLine += logInterval;
    }
}

void TransferMonitor::checkSilence(std::uint64_t bytes, Duration passed) {
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
        throw Error(cat("Failed to pull image '", transfer.image, "'"),
                    cat("The registry '", transfer.server, "' has sent nothing for ", spoken(silence),
                        ". Try again later: layers which have arrived are not downloaded again."));
    }
    if (silence >= nextWarning) {
        logWarn("ImageManager", cat("The registry '", transfer.server, "' has sent nothing for ", spoken(silence),
                                    " (will give up after ", spoken(timeout), ")"));
        nextWarning *= 2;
    }
}

}  // namespace sarus::image
