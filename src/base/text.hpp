#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sarus {

namespace detail {
inline void appendPart(std::string& out, std::string_view part) {
    out += part;
}
inline void appendPart(std::string& out, const char* part) {
    out += part;
}
inline void appendPart(std::string& out, char part) {
    out += part;
}
void appendPart(std::string& out, bool) = delete;
template <std::integral Number>
void appendPart(std::string& out, Number number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, end);
}
}  // namespace detail

/// Concatenates strings, characters and integers (in decimal). Replaces a formatting library in programs that
/// must start fast.
template <typename... Parts>
std::string cat(const Parts&... parts) {
    std::string out;
    (detail::appendPart(out, parts), ...);
    return out;
}

/// Splits at every `separator`; "a,,b" gives three parts and "" gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// Splits at runs of white space; no empty parts.
std::vector<std::string> splitWords(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator);

std::string_view trim(std::string_view text);

/// The absolute path without empty, `.` and `..` components ("/" for the root); `..` at the root stays there.
std::string normalizePath(std::string_view path);

/// The path without its last part: "/a/b" -> "/a", "/a" -> "/", "a" -> ".".
std::string directoryOf(std::string_view path);
/// The last part of a path: "/a/b" -> "b", "a" -> "a", "/a/" -> "".
std::string fileNameOf(std::string_view path);

/// Octal digits of permissions, with a 0 in front of others: "0755", "01777".
std::string formatOctal(std::uint64_t mode);

/// Parses a complete decimal number without sign; nullopt for anything else, including overflow.
std::optional<std::uint64_t> parseNumber(std::string_view text);

/// The candidate closest to `word` by edit distance (insert, delete, replace, transpose), if it is close
/// enough to be a likely match (at most a third of the word's length, at least 1).
std::optional<std::string> closestMatch(std::string_view word, std::span<const std::string> candidates);

/// Size with two decimals in units of powers of 1024: "512.00B", "40.16MB" (the format of `sarus images`).
std::string formatSize(std::uint64_t bytes);

/// A time span in its largest unit: "5 s", "3 min", "2 h", "12 d". Negative ones are 0.
std::string formatAge(std::int64_t seconds);

/// As "2026-01-01T00:00:00Z". `time`: Unix time.
std::string formatUtcTime(std::int64_t time);

/// 16 random letters a-z from the kernel's random generator.
std::string randomLetters();

/// Length of the well-formed UTF-8 sequence at the start of `text` (RFC 3629), or 0.
std::size_t utf8SequenceLength(std::string_view text);

/// The text with control characters and invalid UTF-8 replaced by \xNN, for messages that quote foreign
/// input.
std::string printable(std::string_view text);

/// The printable text as one word of a command line that a person copies into a shell.
std::string shellWord(std::string_view text);

}  // namespace sarus
