#include "base/mount_table.hpp"

#include <algorithm>

#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus {

namespace {

/// Reverts the kernel's escapes: blank, tab, newline and backslash, as three octal digits.
std::string unescape(std::string_view field) {
    const auto isOctal = [](char c) { return c >= '0' && c <= '7'; };
    std::string out;
    for (std::size_t i = 0; i < field.size(); ++i) {
        const auto digits = field.substr(i).substr(0, 4);
        if (digits.size() == 4 && digits[0] == '\\' &&
            std::all_of(digits.begin() + 1, digits.end(), isOctal)) {
            out += static_cast<char>((digits[1] - '0') * 64 + (digits[2] - '0') * 8 + (digits[3] - '0'));
            i += 3;
        } else {
            out += field[i];
        }
    }
    return out;
}

}  // namespace

std::vector<MountEntry> parseMountTable(std::string_view mountInfo) {
    constexpr std::size_t fixedFields = 6;  // then optional ones, up to a lone "-"
    std::vector<MountEntry> mounts;
    for (const auto& line : split(mountInfo, '\n')) {
        const auto fields = split(line, ' ');
        if (fields.size() < fixedFields) {
            continue;
        }
        const auto dash = std::find(fields.begin() + fixedFields, fields.end(), "-");
        if (fields.end() - dash < 4) {
            continue;
        }
        mounts.push_back({.id = parseNumber(fields[0]).value_or(0),
                          .device = fields[2],
                          .root = unescape(fields[3]),
                          .mountPoint = unescape(fields[4]),
                          .options = fields[5],
                          .type = unescape(dash[1]),
                          .superOptions = unescape(dash[3])});
    }
    return mounts;
}

std::vector<MountEntry> readMountTable() {
    return parseMountTable(readFile("/proc/self/mountinfo"));
}

}  // namespace sarus
