#include "base/text.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/error.hpp"
#include "base/hex.hpp"

namespace sarus {

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (true) {
        const auto end = text.find(separator);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string> splitWords(std::string_view text) {
    constexpr std::string_view whiteSpace = " \t\n\v\f\r";
    std::vector<std::string> words;
    while (true) {
        const auto begin = text.find_first_not_of(whiteSpace);
        if (begin == std::string_view::npos) {
            return words;
        }
        text.remove_prefix(begin);
        const auto end = std::min(text.find_first_of(whiteSpace), text.size());
        words.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
    std::string out;
    for (const auto& part : parts) {
        if (&part != parts.data()) {
            out += separator;
        }
        out += part;
    }
    return out;
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view whiteSpace = " \t\n\v\f\r";
    const auto begin = text.find_first_not_of(whiteSpace);
    if (begin == std::string_view::npos) {
        return {};
    }
    return text.substr(begin, text.find_last_not_of(whiteSpace) - begin + 1);
}

std::string normalizePath(std::string_view path) {
    std::vector<std::string> kept;
    for (auto& component : split(path, '/')) {
        if (component == "..") {
            if (!kept.empty()) {
                kept.pop_back();
            }
        } else if (!component.empty() && component != ".") {
            kept.push_back(std::move(component));
        }
    }
    return cat("/", join(kept, "/"));
}

std::string directoryOf(std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? "."
                                           : std::string(path.substr(0, std::max<std::size_t>(slash, 1)));
}

std::string fileNameOf(std::string_view path) {
    return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

std::optional<std::uint64_t> parseNumber(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

namespace {

std::size_t editDistance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> closestMatch(std::string_view word, std::span<const std::string> candidates) {
    constexpr std::size_t longestWordWorthGuessing = 64;
    if (word.empty() || word.size() > longestWordWorthGuessing) {
        return std::nullopt;
    }
    std::size_t best = std::max<std::size_t>(1, word.size() / 3);
    std::optional<std::string> match;
    for (const auto& candidate : candidates) {
        const auto distance = editDistance(word, candidate);
        if (distance < best || (distance == best && !match)) {
            best = distance;
            match = candidate;
        }
    }
    return match;
}

std::string formatOctal(std::uint64_t mode) {
    char out[32];
    std::snprintf(out, sizeof out, "%04llo", static_cast<unsigned long long>(mode));
    return out;
}

std::string formatSize(std::uint64_t bytes) {
    constexpr std::array units{"B", "KB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value > 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    char out[40];
    std::snprintf(out, sizeof out, "%.2f%s", value, units[unit]);
    return out;
}

std::string formatAge(std::int64_t seconds) {
    constexpr std::int64_t minute = 60;
    constexpr std::int64_t hour = 60 * minute;
    constexpr std::int64_t day = 24 * hour;
    const auto span = std::max<std::int64_t>(seconds, 0);
    return span < 2 * minute ? cat(span, " s")
           : span < 2 * hour ? cat(span / minute, " min")
           : span < 2 * day  ? cat(span / hour, " h")
                             : cat(span / day, " d");
}

std::string formatUtcTime(std::int64_t time) {
    const auto seconds = static_cast<std::time_t>(time);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::string randomLetters() {
    std::array<unsigned char, 16> bytes{};
    checkErrno(::getrandom(bytes.data(), bytes.size(), 0), "Failed to get random bytes");
    std::string letters;
    for (const auto byte : bytes) {
        letters += static_cast<char>('a' + byte % 26);
    }
    return letters;
}

std::size_t utf8SequenceLength(std::string_view text) {
    if (text.empty()) {
        return 0;
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const auto first = byte(0);
    const std::size_t length = first < 0x80         ? 1
                               : (first >> 5) == 6  ? 2
                               : (first >> 4) == 14 ? 3
                               : (first >> 3) == 30 ? 4
                                                    : 0;
    if (length == 0 || length > text.size()) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) >> 6) != 2) {
            return 0;
        }
    }
    const bool overlong = (length == 2 && first < 0xC2) || (length == 3 && first == 0xE0 && byte(1) < 0xA0) ||
                          (length == 4 && first == 0xF0 && byte(1) < 0x90);
    const bool surrogateOrTooLarge = (length == 3 && first == 0xED && byte(1) >= 0xA0) || first > 0xF4 ||
                                     (first == 0xF4 && byte(1) >= 0x90);
    return overlong || surrogateOrTooLarge ? 0 : length;
}

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto byte = static_cast<unsigned char>(text[0]);
        const auto length = utf8SequenceLength(text);
        const bool c1Control = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
        if (length == 0 || byte < 0x20 || byte == 0x7F || c1Control) {
            out += cat("\\x", hexOf(byte));
            text.remove_prefix(1);
        } else {
            out += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return out;
}

std::string shellWord(std::string_view text) {
    constexpr std::string_view harmless =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    auto word = printable(text);
    if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) {
        return word;
    }
    for (std::size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4) {
        word.replace(at, 1, "'\\''");
    }
    return cat('\'', word, '\'');
}

}  // namespace sarus
