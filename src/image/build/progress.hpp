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

/// "auto": terminal if the descriptor is one, otherwise plain. Throws Error for any other word than auto, plain and none.
ProgressStyle parseProgressStyle(const std::string& word, int fd);

/// Where progress is shown. A descriptor of its own keeps it apart from messages of errors.
struct ProgressOutput {
    ProgressStyle style = ProgressStyle::none;
    int fd = 2;
};

/// Tells how far a job is, from a thread of its own: on a terminal a line that is rewritten, in a log a line from time to time
/// (image/progress_line.hpp). Nothing is printed for a job of less than a second, or of less than five in a log.
class Progress {
public:
    /// `done` returns how many of `total` bytes are finished; it is called from another thread.
    Progress(ProgressOutput progressOutput, std::string label, std::uint64_t totalBytes, std::function<std::uint64_t()> done);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    /// Stops, and wipes the terminal's line.
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
