#include "image/transfer/skopeo_message.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace sarus::image {

namespace {

void appendUtf8(std::string& out, std::uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        code = 0xFFFD;
    }
    const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xC0 | (code >> 6));
        byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        byte(0xE0 | (code >> 12));
        byte(0x80 | ((code >> 6) & 0x3F));
        byte(0x80 | (code & 0x3F));
    } else {
        byte(0xF0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 0x3F));
        byte(0x80 | ((code >> 6) & 0x3F));
        byte(0x80 | (code & 0x3F));
    }
}

/// Appends the meaning of the escape sequence that follows a backslash, at the start of `text`, and returns
/// its length.
std::size_t appendEscape(std::string& out, std::string_view text) {
    const char kind = text.front();
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) {
        constexpr std::string_view controls = "abfnrtv";
        out += controls.find(kind) != std::string_view::npos ? ' ' : kind;
        return 1;
    }
    std::uint32_t value = 0;
    const auto* const begin = text.data() + 1;
    const auto* const end = begin + std::min(digits, text.size() - 1);
    if (const auto parsed = std::from_chars(begin, end, value, 16);
        parsed.ec != std::errc() || parsed.ptr != begin + digits) {
        out += kind;
        return 1;
    }
    if (kind == 'x') {
        out += static_cast<char>(value);
    } else {
        appendUtf8(out, value);
    }
    return 1 + digits;
}

/// Replaces runs of control characters and blanks by one blank.
std::string inOneLine(std::string_view text) {
    std::string line;
    for (const char character : text) {
        const auto code = static_cast<unsigned char>(character);
        const bool blank = code <= 0x20 || code == 0x7F;
        if (!blank) {
            line += character;
        } else if (!line.empty() && line.back() != ' ') {
            line += ' ';
        }
    }
    return std::string(trim(line));
}

/// Without skopeo's remark that it was parsing the image's name, which it also makes while it asks a
/// registry.
std::string withoutParsing(std::string message) {
    if (message.starts_with("Error parsing image name \"")) {
        const auto end = message.find("\": ");
        message.erase(0, end == std::string::npos ? 0 : end + 3);
    }
    return message;
}

/// The cause of a crash of Go's runtime, whose last lines are addresses; "" if it did not crash.
std::string_view causeOfCrash(std::string_view errors) {
    constexpr std::pair<std::string_view, std::string_view> crashes[] = {
        {"fatal error: ", "\nruntime stack:"}, {"runtime/cgo: ", "\nSIGABRT: abort"}};
    for (const auto& [start, trace] : crashes) {
        const auto found = errors.starts_with(start) ? 0 : errors.find(cat('\n', start));
        if (found != std::string_view::npos && errors.find(trace, found) != std::string_view::npos) {
            const auto cause = errors.substr(errors.find(start, found) + start.size());
            return cause.substr(0, cause.find('\n'));
        }
    }
    return {};
}

}  // namespace

std::string messageOfLine(std::string_view line) {
    constexpr std::string_view marker = "msg=";
    const auto found = line.find(marker);
    if (found == std::string_view::npos || line.find("level=") == std::string_view::npos) {
        return inOneLine(line);
    }
    line.remove_prefix(found + marker.size());
    if (line.empty() || line.front() != '"') {
        return inOneLine(line.substr(0, line.find(' ')));
    }
    std::string message;
    for (std::size_t i = 1; i < line.size() && line[i] != '"'; ++i) {
        if (line[i] == '\\' && i + 1 < line.size()) {
            i += appendEscape(message, line.substr(i + 1));
        } else {
            message += line[i];
        }
    }
    return inOneLine(message);
}

std::string skopeoMessage(std::string_view errors) {
    if (const auto cause = causeOfCrash(errors); !cause.empty()) {
        return cat("skopeo crashed: ", printable(cause),
                   ". Limits of memory or processes may be too low for it (ulimit -v, ulimit -u)");
    }
    std::string last;
    for (const auto& line : split(errors, '\n')) {
        const bool fatal =
            line.find("level=fatal") != std::string::npos || line.find("level=error") != std::string::npos;
        if (!trim(line).empty() && (last.empty() || fatal || last.find("level=") == std::string::npos)) {
            last = line;
        }
    }
    return printable(withoutParsing(messageOfLine(last)));
}

}  // namespace sarus::image
