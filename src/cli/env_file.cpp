#include "cli/env_file.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::cli {

namespace {

constexpr std::size_t largestFile = 1U << 20U;
constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view blanks = " \t\v\f\r";

std::string_view withoutLeadingBlanks(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
    return line;
}

}  // namespace

std::vector<std::string> parseEnvironmentFile(std::string_view text, std::string_view file) {
    if (text.starts_with(byteOrderMark)) {
        text.remove_prefix(byteOrderMark.size());
    }
    std::vector<std::string> variables;
    std::size_t number = 0;
    for (const auto& whole : split(text, '\n')) {
        ++number;
        auto line = withoutLeadingBlanks(whole);
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        const auto fail = [&](std::string_view why) {
            throw Error(cat("Invalid environment file ", printable(file), ", line ", number, ": ", why),
                        "Write NAME=VALUE, NAME to copy the value from your environment, or # and a comment");
        };
        const auto name = line.substr(0, line.find('='));
        if (line.find('\0') != std::string_view::npos) {
            fail("it holds a NUL character");
        }
        if (name.empty()) {
            fail(cat("'", printable(line), "' has no name before the '='"));
        }
        if (name.find_first_of(blanks) != std::string_view::npos) {
            fail(cat("the name '", printable(name), "' contains white space"));
        }
        variables.emplace_back(line);
    }
    return variables;
}

std::vector<std::string> readEnvironmentFile(const std::string& path) {
    return parseEnvironmentFile(readFile(path, largestFile), path);
}

}  // namespace sarus::cli
