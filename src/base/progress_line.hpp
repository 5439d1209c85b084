#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sarus {

/// When progress lines appear in a log: never for short jobs, periodically for long ones.
constexpr std::chrono::seconds firstLogLine{5};
constexpr std::chrono::seconds logInterval{10};

/// What removes the rewritten line from a terminal.
constexpr std::string_view wipedLine = "\r\033[K";

/// "Converting layers: 512.00MB of 1.50GB, 210.00MB/s, 5 s left". For a total of 0 (unknown): "Converting
/// layers: 512.00MB, 210.00MB/s". Without line control.
std::string progressLine(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

/// Whether `fd` is a terminal on which a line can be rewritten (TERM is not "dumb").
bool canRewrite(int fd);

/// The line for such a terminal, which replaces the line before it: cut to its width, as a longer one would
/// stay.
std::string rewritten(std::string line, int fd);

}  // namespace sarus
