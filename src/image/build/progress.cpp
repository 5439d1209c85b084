#include "image/build/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/progress_line.hpp"
#include "base/text.hpp"

namespace sarus::image::build {

namespace {

constexpr std::chrono::milliseconds terminalInterval{200};
constexpr std::chrono::milliseconds firstTerminalLine{1000};

void show(int fd, const std::string& text) {
    // A failure to show progress must not fail the job.
    [[maybe_unused]] const auto ignored = ::write(fd, text.data(), text.size());
}

}  // namespace

ProgressStyle parseProgressStyle(const std::string& word, int fd) {
    if (word == "none") {
        return ProgressStyle::none;
    }
    if (word == "plain" || (word == "auto" && !canRewrite(fd))) {
        return ProgressStyle::plain;
    }
    if (word == "auto") {
        return ProgressStyle::terminal;
    }
    throw Error(cat("Invalid value '", printable(word), "' for --progress"), "Use auto, plain or none");
}

void printNote(const ProgressOutput& output, const std::string& line) {
    if (output.style != ProgressStyle::none) {
        show(output.fd, line + '\n');
    }
}

Progress::Progress(ProgressOutput progressOutput, std::string label, std::uint64_t totalBytes,
                   std::function<std::uint64_t()> done)
    : output(std::move(progressOutput)),
      text(std::move(label)),
      total(totalBytes),
      doneBytes(std::move(done)) {
    if (output.style != ProgressStyle::none) {
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
    if (printed && output.style == ProgressStyle::terminal) {
        show(output.fd, std::string(wipedLine));
    }
}

void Progress::run() {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    const bool terminal = output.style == ProgressStyle::terminal;
    auto pause = terminal ? firstTerminalLine : std::chrono::milliseconds(firstLogLine);
    while (!wake.wait_for(lock, pause, [this] { return stop; })) {
        print(std::chrono::steady_clock::now() - begin);
        pause = terminal ? terminalInterval : std::chrono::milliseconds(logInterval);
    }
}

void Progress::print(std::chrono::duration<double> elapsed) {
    if (output.isOurs && !output.isOurs()) {
        return;
    }
    const auto line = progressLine(text, std::min(doneBytes(), total), total, elapsed.count());
    show(output.fd, output.style == ProgressStyle::terminal ? rewritten(line, output.fd) : cat(line, '\n'));
    printed = true;
}

}  // namespace sarus::image::build
