#include "oci/cdi/yaml_scanner.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

constexpr std::string_view flowIndicators = ",[]{}";

void appendUtf8(std::string& out, std::uint32_t code) {
    constexpr std::uint32_t low = 0x3F;
    const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | ((code >> shift) & low)); };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | (code >> 6U));
        tail(0);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | (code >> 12U));
        tail(6);
        tail(0);
    } else {
        out += static_cast<char>(0xF0 | (code >> 18U));
        tail(12);
        tail(6);
        tail(0);
    }
}

/// Line ends within a text: a single one is a blank.
std::string folded(std::size_t breaks) {
    return breaks == 1 ? " " : std::string(breaks - 1, '\n');
}

}  // namespace

YamlScanner::YamlScanner(std::string_view document, std::string_view what) : name(what), text(document) {
    constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(byteOrderMark)) {
        text.remove_prefix(byteOrderMark.size());
    }
    std::size_t number = 1;
    for (auto rest = text; !rest.empty();) {
        const auto length = utf8SequenceLength(rest);
        const auto first = static_cast<unsigned char>(rest[0]);
        const auto character = rest.substr(0, length);
        const bool isControl = (first < 0x20 && first != '\t' && first != '\n' && first != '\r') ||
                               first == 0x7F || (character >= "\xC2\x80" && character < "\xC2\xA0");
        if (length == 0 || isControl || character == byteOrderMark || character == "\xEF\xBF\xBE" ||
            character == "\xEF\xBF\xBF") {
            throw Error(cat(name, ": line ", number, ": it holds a control character or is not UTF-8"));
        }
        if (character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9") {
            throw Error(cat(name, ": line ", number, ": line separators of Unicode are not supported"));
        }
        number += first == '\n' ? 1 : 0;
        rest.remove_prefix(length);
    }
    readDirectives();
}

void YamlScanner::fail(std::string_view why) const {
    throw Error(cat(name, ": line ", lineNumber, ": ", why));
}

char YamlScanner::peek(std::size_t ahead) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
}

void YamlScanner::take() {
    ++at;
    blockPossible = false;
}

bool YamlScanner::atBreak() const {
    return peek() == '\n' || peek() == '\r';
}

bool YamlScanner::atBlank(std::size_t ahead) const {
    return peek(ahead) == ' ' || peek(ahead) == '\t';
}

bool YamlScanner::atBlankOrBreak(std::size_t ahead) const {
    return atBlank(ahead) || std::string_view("\n\r\0", 3).find(peek(ahead)) != std::string_view::npos;
}

bool YamlScanner::atMarker(std::string_view marker) const {
    return column() == 0 && text.substr(at).starts_with(marker) && atBlankOrBreak(marker.size());
}

bool YamlScanner::atEnd() const {
    return at >= text.size() || atMarker("---") || atMarker("...");
}

bool YamlScanner::atIndicator(char indicator) const {
    return peek() == indicator && atBlankOrBreak(1);
}

void YamlScanner::takeIndicator() {
    take();
    blockPossible = true;
}

void YamlScanner::takeBreak() {
    at += text.substr(at).starts_with("\r\n") ? 2 : 1;
    lineStart = at;
    ++lineNumber;
}

void YamlScanner::skipBlanks() {
    while (atBlank()) {
        ++at;
    }
}

void YamlScanner::skipComment() {
    while (at < text.size() && !atBreak()) {
        ++at;
    }
}

void YamlScanner::skipToToken(bool inFlow) {
    while (true) {
        while (peek() == ' ' || (peek() == '\t' && (inFlow || !blockPossible))) {
            ++at;
        }
        if (peek() == '#') {
            skipComment();
        }
        if (!atBreak()) {
            break;
        }
        takeBreak();
        blockPossible = true;
    }
    if (peek() == '\t') {
        fail("a tab cannot be used for indentation");
    }
}

void YamlScanner::readDirectives() {
    skipToToken(false);
    bool isMarkerNeeded = false;
    while (peek() == '%' && column() == 0) {
        const auto line = text.substr(at, text.find_first_of("\r\n", at) - at);
        const auto words = splitWords(line.substr(0, line.find(" #")));
        if (words.size() != 2 || words[0] != "%YAML" || (words[1] != "1.1" && words[1] != "1.2") ||
            isMarkerNeeded) {
            fail("directives other than one %YAML 1.1 are not supported");
        }
        isMarkerNeeded = true;
        skipComment();
        skipToToken(false);
    }
    if (atMarker("---")) {
        at += 3;
        blockPossible = false;
    } else if (isMarkerNeeded) {
        fail("expected '---'");
    }
}

std::string YamlScanner::readWord(bool inFlow) {
    const auto begin = at;
    while (at < text.size() && !atBlankOrBreak(0) &&
           !(inFlow && flowIndicators.find(peek()) != std::string_view::npos)) {
        take();
    }
    return std::string(text.substr(begin, at - begin));
}

std::size_t YamlScanner::takeBreaks(std::ptrdiff_t parent) {
    std::size_t breaks = 0;
    while (atBreak() || atBlank()) {
        if (atBreak()) {
            takeBreak();
            ++breaks;
            continue;
        }
        if (peek() == '\t' && breaks > 0 && static_cast<std::ptrdiff_t>(column()) <= parent) {
            fail("a tab cannot be used for indentation");
        }
        ++at;
    }
    return breaks;
}

void YamlScanner::readEscape(std::string& out) {
    using Meaning = std::pair<char, std::string_view>;
    static constexpr std::array<Meaning, 19> meanings{{{'0', {"\0", 1}},
                                                       {'a', "\a"},
                                                       {'b', "\b"},
                                                       {'t', "\t"},
                                                       {'\t', "\t"},
                                                       {'n', "\n"},
                                                       {'v', "\v"},
                                                       {'f', "\f"},
                                                       {'r', "\r"},
                                                       {'e', "\x1B"},
                                                       {' ', " "},
                                                       {'"', "\""},
                                                       {'/', "/"},
                                                       {'\\', "\\"},
                                                       {'N', "\xC2\x85"},
                                                       {'_', "\xC2\xA0"},
                                                       {'L', "\xE2\x80\xA8"},
                                                       {'P', "\xE2\x80\xA9"},
                                                       {'\'', "'"}}};
    const char letter = peek();
    ++at;
    const auto found = std::find_if(meanings.begin(), meanings.end(),
                                    [&](const Meaning& meaning) { return meaning.first == letter; });
    if (found != meanings.end()) {
        out += found->second;
        return;
    }
    const std::size_t length = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (length == 0) {
        fail("unknown character after a backslash");
    }
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < length; ++i, ++at) {
        constexpr std::string_view digits = "0123456789abcdef0123456789ABCDEF";
        const auto digit = peek() == '\0' ? std::string_view::npos : digits.find(peek());
        if (digit == std::string_view::npos) {
            fail(cat("expected ", length, " hexadecimal digits after \\", letter));
        }
        code = code * 16 + static_cast<std::uint32_t>(digit % 16);
    }
    constexpr std::uint32_t largest = 0x10FFFF;
    if (code > largest || (code >= 0xD800 && code <= 0xDFFF)) {
        fail("an escape names no character of Unicode");
    }
    appendUtf8(out, code);
}

YamlScalar YamlScanner::readQuoted() {
    const auto firstLine = lineNumber;
    const char quote = peek();
    take();
    std::string out;
    std::size_t solid = 0;  // what escapes have made is no blank before a line's end
    while (true) {
        if (at >= text.size() || atMarker("---") || atMarker("...")) {
            fail("a quoted text does not end");
        }
        if (peek() == quote) {
            ++at;
            if (quote == '"' || peek() != quote) {
                return {std::move(out), false, firstLine == lineNumber};
            }
            out += quote;
            ++at;
        } else if (quote == '"' && peek() == '\\') {
            ++at;
            if (atBreak()) {
                takeBreak();
                out.append(takeBreaks(-1), '\n');
            } else {
                readEscape(out);
            }
            solid = out.size();
        } else if (atBreak()) {
            out.resize(std::max(solid, out.find_last_not_of(" \t") + 1));
            out += folded(takeBreaks(-1));
            solid = out.size();
        } else {
            out += peek();
            ++at;
        }
    }
}

bool YamlScanner::endsPlain(bool inFlow) const {
    const char c = peek();
    return (c == ':' && atBlankOrBreak(1)) || (inFlow && flowIndicators.find(c) != std::string_view::npos);
}

YamlScalar YamlScanner::readPlain(std::ptrdiff_t parent, bool inFlow) {
    const char first = peek();
    const bool isIndicator = std::string_view("-?:,[]{}#&*!|>'\"%@`").find(first) != std::string_view::npos;
    const bool isWord = (first == '-' || (!inFlow && (first == '?' || first == ':'))) && !atBlankOrBreak(1);
    if (isIndicator && !isWord) {
        fail(cat("a value cannot begin with '", first, "': put it into quotes"));
    }
    const auto firstLine = lineNumber;
    std::string out;
    std::string between;
    while (true) {
        const auto lineBegin = at;
        auto end = at;
        while (at < text.size() && !atBreak() && !endsPlain(inFlow) && !(peek() == '#' && at > end)) {
            if (inFlow && peek() == ':' && flowIndicators.find(peek(1)) != std::string_view::npos) {
                fail("a ':' in a plain value: put the value into quotes");
            }
            const bool isText = !atBlank();
            ++at;
            end = isText ? at : end;
        }
        out += between;
        out += text.substr(lineBegin, end - lineBegin);
        at = end;
        const auto [lineStartBefore, lineBefore] = std::pair(lineStart, lineNumber);
        const auto goesOn = [&] {
            skipBlanks();
            if (!atBreak()) {
                return false;
            }
            between = folded(takeBreaks(inFlow ? -1 : parent));
            return !atEnd() && peek() != '#' && !endsPlain(inFlow) &&
                   (inFlow || static_cast<std::ptrdiff_t>(column()) > parent);
        };
        if (!goesOn()) {
            at = end;
            lineStart = lineStartBefore;
            lineNumber = lineBefore;
            blockPossible = false;
            return {std::move(out), true, firstLine == lineNumber};
        }
    }
}

std::string YamlScanner::readEmptyLines(std::size_t& indent, std::ptrdiff_t parent) {
    std::string breaks;
    std::size_t deepest = 0;
    while (true) {
        while ((indent == 0 || column() < indent) && peek() == ' ') {
            ++at;
        }
        deepest = std::max(deepest, column());
        if ((indent == 0 || column() < indent) && peek() == '\t') {
            fail("a tab cannot be used for indentation");
        }
        if (!atBreak()) {
            break;
        }
        takeBreak();
        breaks += '\n';
    }
    if (indent == 0) {
        indent = std::max({deepest, static_cast<std::size_t>(parent + 1), std::size_t{1}});
    }
    return breaks;
}

YamlScalar YamlScanner::readBlockScalar(std::ptrdiff_t parent) {
    const bool isFolded = peek() == '>';
    take();
    char chomping = ' ';
    std::size_t indent = 0;
    for (int i = 0; i < 2; ++i) {
        if (chomping == ' ' && (peek() == '+' || peek() == '-')) {
            chomping = peek();
            ++at;
        } else if (indent == 0 && peek() >= '1' && peek() <= '9') {
            indent = static_cast<std::size_t>(peek() - '0') +
                     static_cast<std::size_t>(std::max<std::ptrdiff_t>(parent, 0));
            ++at;
        }
    }
    skipBlanks();
    if (peek() == '#') {
        skipComment();
    }
    if (at < text.size() && !atBreak()) {
        fail("unexpected text behind '|' or '>'");
    }
    if (at < text.size()) {
        takeBreak();
    }
    std::string out;
    auto empty = readEmptyLines(indent, parent);
    std::string lastBreak;
    bool wasBlank = false;
    while (column() == indent && at < text.size()) {
        const bool isBlank = atBlank();
        const bool isFold = isFolded && !lastBreak.empty() && !wasBlank && !isBlank;
        if (!isFold) {
            out += lastBreak;
        } else if (empty.empty()) {
            out += ' ';
        }
        out += empty;
        wasBlank = isBlank;
        const auto begin = at;
        skipComment();
        out += text.substr(begin, at - begin);
        lastBreak = atBreak() ? "\n" : "";
        if (atBreak()) {
            takeBreak();
        }
        empty = readEmptyLines(indent, parent);
    }
    out += chomping == '-' ? "" : lastBreak;
    out += chomping == '+' ? empty : "";
    blockPossible = true;
    return {std::move(out), false, false};
}

}  // namespace sarus::oci
