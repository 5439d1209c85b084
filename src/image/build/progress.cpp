#include "image/build/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::chrono::milliseconds terminalInterval{200};
constexpr std::chrono::seconds logInterval{10};
constexpr std::chrono::seconds quietStart{1};

void writeTerminal(const std::string& text) {
    // A failure to show progress is no failure of the job.
    [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressStyle parseProgressStyle(const std::string& word) {
    if (word == "none") {
        return ProgressStyle::none;
    }
    if (word == "plain" || (word == "auto" && ::isatty(STDERR_FILENO) == 0)) {
        return ProgressStyle::plain;
    }
    if (word == "auto") {
        return ProgressStyle::terminal;
    }
    throw Error(cat("Invalid value '", printable(word), "' for --progress"), "use auto, plain or none");
}

std::string progressLine(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::string line =
        cat(label, ": ", formatSize(done), " of ", formatSize(total), ", ", formatSize(static_cast<std::uint64_t>(rate)), "/s");
    if (rate > 0 && done < total) {
        line += cat(", ", static_cast<std::uint64_t>(static_cast<double>(total - done) / rate) + 1, " s left");
    }
    return line;
}

Progress::Progress(ProgressStyle progressStyle, std::string label, std::uint64_t totalBytes, std::function<std::uint64_t()> done)
    : style(progressStyle), text(std::move(label)), total(totalBytes), doneBytes(std::move(done)) {
    if (style != ProgressStyle::none) {
        thread = std::thread([this] { run(); });
    }
}

Progress::~Progress() {
    {
        const std::lock_guard lock(mutex);
        stop = true;
        wake.notify_all();
    }
    if (thread.joinable()) {
        thread.join();
    }
    if (printed && style == ProgressStyle::terminal) {
        writeTerminal("\r\033[K");
    }
}

void Progress::run() {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(quietStart);
    while (!wake.wait_for(lock, pause, [this] { return stop; })) {
        print(std::chrono::steady_clock::now() - begin);
        pause = style == ProgressStyle::terminal ? terminalInterval : std::chrono::milliseconds(logInterval);
    }
}

void Progress::print(std::chrono::duration<double> elapsed) {
    const auto line = progressLine(text, std::min(doneBytes(), total), total, elapsed.count());
    if (style == ProgressStyle::terminal) {
        writeTerminal(cat("\r", line, "\033[K"));
    } else {
        printError(line);
    }
    printed = true;
}

}  // namespace sarus::image::build
