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

/// "auto": terminal if standard error is one, otherwise plain. Throws Error for any other word than auto, plain and none.
ProgressStyle parseProgressStyle(const std::string& word);

/// Tells on standard error how far a job is, from a thread of its own: on a terminal a line that is rewritten, in a log a line
/// every ten seconds. Nothing is printed for a job of less than a second.
class Progress {
public:
    /// `done` returns how many of `total` bytes are finished; it is called from another thread.
    Progress(ProgressStyle progressStyle, std::string label, std::uint64_t totalBytes, std::function<std::uint64_t()> done);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    /// Stops, and wipes the terminal's line.
    ~Progress();

private:
    void run();
    void print(std::chrono::duration<double> elapsed);

    ProgressStyle style;
    std::string text;
    std::uint64_t total;
    std::function<std::uint64_t()> doneBytes;
    std::mutex mutex;
    std::condition_variable wake;
    bool stop = false;
    bool printed = false;
    std::thread thread;
};

/// The line without line control: "Converting layers: 512.00MB of 1.50GB, 210.00MB/s, 5 s left".
std::string progressLine(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace sarus::image::build
