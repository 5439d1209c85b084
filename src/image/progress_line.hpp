#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sarus::image {

/// When a log gets the lines that tell how far a job is: short jobs have none, long ones one from time to time.
constexpr std::chrono::seconds firstLogLine{5};
constexpr std::chrono::seconds logInterval{10};

/// "Converting layers: 512.00MB of 1.50GB, 210.00MB/s, 5 s left"; with a total of 0, which stands for an unknown one,
/// "Converting layers: 512.00MB, 210.00MB/s". Without line control.
std::string progressLine(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace sarus::image
