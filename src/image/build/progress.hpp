#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace sarus::image::build {

enum class ProgressStyle { none, plain, terminal };

/// "auto": terminal if the descriptor is one, otherwise plain. Throws Error for words other than auto, plain
/// and none.
ProgressStyle parseProgressStyle(const std::string& word, int fd);

/// Where to show progress. A separate descriptor keeps it apart from error messages.
struct ProgressOutput {
    ProgressStyle style = ProgressStyle::none;
    int fd = 2;
    std::function<bool()> isOurs{};  ///< false while another program shows its own progress; default: true
};

/// Prints a line, unless the style is none.
void printNote(const ProgressOutput& output, const std::string& line);

/// Reports the progress of a job from its own thread: on a terminal one line, rewritten; in a log periodic
/// lines (base/progress_line.hpp). Prints nothing for jobs shorter than 1 s, in a log 5 s.
class Progress {
public:
    /// `done` returns the number of finished bytes out of `totalBytes`; it is called from another thread.
    Progress(ProgressOutput progressOutput, std::string label, std::uint64_t totalBytes,
             std::function<std::uint64_t()> done);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    /// Stops, and clears the terminal's line.
    ~Progress();

private:
    void run();
    void print(std::chrono::duration<double> elapsed);

    ProgressOutput output;
    std::string text;
    std::uint64_t total;
    std::function<std::uint64_t()> doneBytes;
    std::mutex mutex;
    std::condition_variable wake;
    bool stop = false;
    bool printed = false;
    std::thread thread;
};

}  // namespace sarus::image::build
