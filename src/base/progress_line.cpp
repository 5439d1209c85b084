#include "base/progress_line.hpp"

#include <unistd.h>

#include "base/columns.hpp"
#include "base/host_variable.hpp"
#include "base/text.hpp"

namespace sarus {

std::string progressLine(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const auto speed = cat(", ", formatSize(static_cast<std::uint64_t>(rate)), "/s");
    if (total == 0) {
        return cat(label, ": ", formatSize(done), speed);
    }
    auto line = cat(label, ": ", formatSize(done), " of ", formatSize(total), speed);
    if (rate > 0 && done < total) {
        line +=
            cat(", ", static_cast<std::uint64_t>(static_cast<double>(total - done) / rate) + 1, " s left");
    }
    return line;
}

bool canRewrite(int fd) {
    return ::isatty(fd) == 1 && hostVariable("TERM") != "dumb";
}

std::string rewritten(std::string line, int fd) {
    if (const auto width = terminalWidth(fd); width > 1 && line.size() >= width) {
        line.resize(width - 1);  // some terminals go to the next line behind the last column
    }
    return cat("\r", line, "\033[K");
}

}  // namespace sarus
