#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "image/run_tool.hpp"

namespace sarus::image {

/// `registryTimings` of the site configuration, in milliseconds.
struct RegistryTimings {
    std::uint64_t timeoutMs = 600'000;  ///< a registry that sends nothing for so long has failed
    std::uint64_t warningMs = 20'000;   ///< after which time, and after twice, four times... that time, it is said
};

/// What a TransferMonitor looks at.
struct Transfer {
    std::string label{};           ///< of the lines of progress: "Downloading layers"; "": there are none
    std::string directory{};       ///< where the files lie that grow, besides finished ones that have left; "": nothing is seen
    std::uint64_t totalBytes = 0;  ///< 0: unknown
    std::string server{};          ///< who sends; "": this machine, which is not suspected of stalling
    std::string image{};           ///< what it sends, for messages
    RegistryTimings timings{};
};

/// Follows a copy that another program makes, by the growth of its files: writes lines of progress to standard error from time to
/// time (image/progress_line.hpp), warns while nothing comes, and gives up in the end. Time in which this program was stopped
/// does not count.
class TransferMonitor {
public:
    explicit TransferMonitor(Transfer theTransfer);

    /// For runTool(); refers to this object.
    ToolWatch watch();

private:
    using Duration = std::chrono::steady_clock::duration;

    void look();
    void checkSilence(std::uint64_t bytes, Duration passed);
    std::uint64_t transferred();

    Transfer transfer;
    std::chrono::milliseconds interval;
    std::chrono::steady_clock::time_point lastLook;
    Duration elapsed{0};
    Duration nextLine;
    Duration silence{0};
    Duration nextWarning;
    std::uint64_t seenBytes = 0;
    std::uint64_t finishedBytes = 0;
    std::map<std::string, std::uint64_t> growing{};  ///< sizes by file name
};

}  // namespace sarus::image
