#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "image/transfer/run_tool.hpp"

namespace sarus::image {

/// `registryTimings` of the site configuration, in milliseconds.
struct RegistryTimings {
    std::uint64_t timeoutMs = 600'000;  ///< a registry that sends nothing for this long has failed
    std::uint64_t warningMs = 20'000;   ///< warn after this time, and after two, four, ... times as long
};

/// What a TransferMonitor watches.
struct Transfer {
    std::string label{};  ///< of progress lines: "Downloading layers"; "": none
    /// Directory of the growing files, which may leave it when finished; "": nothing to watch.
    std::string directory{};
    std::uint64_t totalBytes = 0;  ///< 0: unknown
    std::string server{};          ///< the sender; "": this machine, which is not suspected of stalling
    std::string image{};           ///< the image sent, for messages
    RegistryTimings timings{};
};

/// Follows a copy made by another program through the growth of its files: shows progress on
/// standard error, on a terminal in one line that it rewrites (base/progress_line.hpp), warns while no data
/// arrive, and finally gives up. Time in which this program was stopped does not count.
class TransferMonitor {
public:
    using Clock = std::chrono::steady_clock;

    /// `now`: the time, for tests another one.
    explicit TransferMonitor(Transfer theTransfer, std::function<Clock::time_point()> now = Clock::now);
    TransferMonitor(const TransferMonitor&) = delete;
    TransferMonitor& operator=(const TransferMonitor&) = delete;
    /// Wipes the terminal's line.
    ~TransferMonitor();

    /// The time since the last look does not count: nobody was asked for anything.
    void skipPause() { lastLook = clock(); }
    /// For runTool(); refers to this object.
    ToolWatch watch();
    /// Takes pieces of the program's log. Throws Error if a registry wants not to be asked for a long time.
    void hear(std::string_view piece);

private:
    using Duration = Clock::duration;

    void look(pid_t program);
    void showProgress(std::uint64_t bytes);
    void checkSilence(std::uint64_t bytes, Duration passed, pid_t program);
    std::uint64_t transferred();

    Transfer transfer;
    std::function<Clock::time_point()> clock;
    bool onTerminal;
    bool isShown = false;
    std::chrono::milliseconds interval;
    Clock::time_point lastLook;
    Duration elapsed{0};
    Duration nextLine;
    Duration silence{0};
    Duration nextWarning;
    std::uint64_t seenBytes = 0;
    std::uint64_t finishedBytes = 0;
    std::string heard{};                             ///< the end of the log
    std::map<std::string, std::uint64_t> growing{};  ///< sizes by file name
};

}  // namespace sarus::image
