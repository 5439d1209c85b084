#include "oci/cdi/yaml.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t maxLevels = 32;
constexpr std::size_t maxKeys = 1000;  ///< of one mapping; the search for duplicates takes quadratic time

struct Line {
    std::size_t number = 0;
    std::size_t indent = 0;
    std::string_view text;  ///< neither blank nor a comment; without indentation and trailing blanks
};

bool isBlank(char c) {
    return c == ' ' || c == '\t';
}

/// nullopt: a string. This includes fractions, and numbers with a leading 0: readers disagree on whether
/// those are octal.
std::optional<Json> readInteger(std::string_view text) {
    const bool negative = text.starts_with('-');
    const auto digits = text.substr(negative ? 1 : 0);
    const auto number = digits.starts_with('0') && digits.size() > 1 ? std::nullopt : parseNumber(digits);
    if (!number || (negative && *number > INT64_MAX)) {
        return std::nullopt;
    }
    return negative ? Json(-static_cast<std::int64_t>(*number)) : Json(*number);
}

Json plainValue(std::string_view text) {
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
        return nullptr;
    }
    if (text == "true" || text == "True" || text == "TRUE") {
        return true;
    }
    if (text == "false" || text == "False" || text == "FALSE") {
        return false;
    }
    if (auto number = readInteger(text)) {
        return *number;
    }
    return std::string(text);
}

class Parser {
public:
    Parser(std::string_view text, std::string_view what) : name(what) { readLines(text); }

    Json run() {
        if (lines.empty()) {
            throw Error(cat(name, ": the document is empty"));
        }
        if (!isSequenceItem(lines[0].text) && !findKeyEnd(lines[0].text)) {
            fail("expected a mapping or a list");
        }
        auto root = readBlock(0);
        if (!atEnd()) {
            fail("the indentation does not fit to what is above");
        }
        return root;
    }

private:
    [[noreturn]] void failAt(std::size_t line, std::string_view why) const {
        throw Error(cat(name, ": line ", line, ": ", why));
    }
    [[noreturn]] void fail(std::string_view why) const {
        failAt(lines[std::min(at, lines.size() - 1)].number, why);
    }

    bool atEnd() const { return at == lines.size(); }

    void checkCharacters(std::string_view text, std::size_t line) const {
        while (!text.empty()) {
            const auto length = utf8SequenceLength(text);
            const auto first = static_cast<unsigned char>(text[0]);
            if (length == 0 || (first < 0x20 && first != '\t') || first == 0x7F) {
                failAt(line, "it holds a control character or is not UTF-8");
            }
            text.remove_prefix(length);
        }
    }

    void readLines(std::string_view text) {
        bool ended = false;
        for (std::size_t number = 1; !text.empty(); ++number) {
            const auto end = std::min(text.find('\n'), text.size());
            auto line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (line.ends_with('\r')) {
                line.remove_suffix(1);
            }
            checkCharacters(line, number);
            const auto indent = line.find_first_not_of(' ');
            const auto content = trim(line);
            if (content.empty() || content[0] == '#') {
                continue;
            }
            if (line[indent] == '\t') {
                failAt(number, "a tab cannot be used for indentation");
            }
            if (ended || (content == "---" && !lines.empty()) ||
                (indent == 0 && content.starts_with("--- "))) {
                failAt(number, "there can be one document only");
            }
            if (indent == 0 && content[0] == '%') {
                failAt(number, "directives are not supported");
            }
            ended = content == "...";
            if (content != "---" && !ended) {
                lines.push_back({number, indent, content});
            }
        }
    }

    static bool isSequenceItem(std::string_view text) {
        return text == "-" || text.starts_with("- ") || text.starts_with("-\t");
    }

    /// Position after the closing quote of the quoted scalar at the start of the text.
    std::size_t endOfQuoted(std::string_view text) const {
        const char quote = text[0];
        for (std::size_t i = 1; i < text.size(); ++i) {
            if (quote == '"' && text[i] == '\\') {
                ++i;
            } else if (text[i] == quote) {
                if (quote == '\'' && i + 1 < text.size() && text[i + 1] == quote) {
                    ++i;
                } else {
                    return i + 1;
                }
            }
        }
        fail("a quoted text must end on the line where it begins");
    }

    /// The position of the ':' after the key at the start of the text; nullopt if it is not "key: value".
    std::optional<std::size_t> findKeyEnd(std::string_view text) const {
        if (text[0] == '"' || text[0] == '\'') {
            auto end = endOfQuoted(text);
            while (end < text.size() && isBlank(text[end])) {
                ++end;
            }
            return end < text.size() && text[end] == ':' ? std::optional(end) : std::nullopt;
        }
        if (text[0] == '[' || text[0] == '{') {
            return std::nullopt;
        }
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '#' && i > 0 && isBlank(text[i - 1])) {
                return std::nullopt;
            }
            if (text[i] == ':' && (i + 1 == text.size() || isBlank(text[i + 1]))) {
                return i;
            }
        }
        return std::nullopt;
    }

    static std::string_view withoutComment(std::string_view text) {
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '#' && (i == 0 || isBlank(text[i - 1]))) {
                return trim(text.substr(0, i));
            }
        }
        return trim(text);
    }

    /// Refuses scalars that start with an indicator character.
    void checkPlain(std::string_view text) const {
        const char first = text.empty() ? 'a' : text[0];
        if (first == '&' || first == '*') {
            fail("anchors and aliases are not supported");
        }
        if (first == '!') {
            fail("tags are not supported");
        }
        if (first == '|' || first == '>') {
            fail("block scalars ('|' and '>') are not supported: put the text into quotes");
        }
        if (std::string_view("%@`\"',[]{}").find(first) != std::string_view::npos) {
            fail(cat("a value cannot begin with '", first, "': put it into quotes"));
        }
        if (text == "?" || text.starts_with("? ")) {
            fail("complex keys are not supported");
        }
    }

    std::string unescape(std::string_view text) const {
        static constexpr std::string_view letters = "\"\\/tn";
        static constexpr std::string_view meanings = "\"\\/\t\n";
        std::string out;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\') {
                out += text[i];
                continue;
            }
            const auto known = letters.find(text[++i]);  // endOfQuoted() found the closing quote after it
            if (known == std::string_view::npos) {
                fail("unknown character after a backslash");
            }
            out += meanings[known];
        }
        return out;
    }

    std::string unquote(std::string_view quoted) const {
        const auto text = quoted.substr(1, quoted.size() - 2);
        if (quoted[0] == '"') {
            return unescape(text);
        }
        std::string out;
        for (std::size_t i = 0; i < text.size(); ++i) {
            out += text[i];
            i += text[i] == '\'' ? 1 : 0;
        }
        return out;
    }

    std::string keyText(std::string_view text) const {
        text = trim(text);
        if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
            return unquote(text);
        }
        checkPlain(text);
        if (text == "<<") {
            fail("merge keys are not supported");
        }
        return std::string(text);
    }

    void checkNewKey(const Json& mapping, const std::string& key) const {
        if (mapping.size() >= maxKeys) {
            fail(cat("a mapping has more than ", maxKeys, " keys"));
        }
        if (mapping.contains(key)) {
            fail(cat("the key '", printable(key), "' is given twice"));
        }
    }

    Json readBlock(std::size_t depth) {
        if (depth > maxLevels) {
            fail(cat("it is nested deeper than ", maxLevels, " levels"));
        }
        const auto indent = lines[at].indent;
        if (isSequenceItem(lines[at].text)) {
            return readSequence(indent, depth);
        }
        return findKeyEnd(lines[at].text) ? readMapping(indent, depth)
                                          : readScalar(lines[at].text, indent, depth);
    }

    Json readSequence(std::size_t indent, std::size_t depth) {
        auto list = Json::array();
        while (!atEnd() && lines[at].indent == indent && isSequenceItem(lines[at].text)) {
            auto& line = lines[at];
            const auto rest = withoutCommentAtStart(line.text.substr(1));
            if (rest.empty()) {
                list.push_back(readBelow(indent, depth, false));
                continue;
            }
            // The text after the dash is a block of its own, indented to where it begins.
            line.indent += static_cast<std::size_t>(rest.data() - line.text.data());
            line.text = rest;
            const bool isScalar = !isSequenceItem(rest) && !findKeyEnd(rest);
            list.push_back(isScalar ? readScalar(rest, indent + 1, depth + 1) : readBlock(depth + 1));
        }
        return list;
    }

    Json readMapping(std::size_t indent, std::size_t depth) {
        auto mapping = Json::object();
        while (!atEnd() && lines[at].indent == indent && !isSequenceItem(lines[at].text)) {
            const auto text = lines[at].text;
            const auto end = findKeyEnd(text);
            if (!end) {
                fail("expected 'key: value'");
            }
            const auto key = keyText(text.substr(0, *end));
            checkNewKey(mapping, key);
            const auto rest = withoutCommentAtStart(text.substr(*end + 1));
            mapping.emplace(
                key, rest.empty() ? readBelow(indent, depth, true) : readScalar(rest, indent + 1, depth + 1));
        }
        return mapping;
    }

    /// The rest of a line after an indicator; empty if it is a comment.
    static std::string_view withoutCommentAtStart(std::string_view text) {
        const bool blank = !text.empty() && isBlank(text[0]);
        text = trim(text);
        return blank && text.starts_with('#') ? std::string_view() : text;
    }

    /// The value of a key or an item whose line ends with its indicator.
    Json readBelow(std::size_t indent, std::size_t depth, bool ofKey) {
        ++at;
        if (atEnd()) {
            return nullptr;
        }
        const auto& next = lines[at];
        if (next.indent > indent || (ofKey && next.indent == indent && isSequenceItem(next.text))) {
            return readBlock(depth + 1);
        }
        return nullptr;
    }

    /// A value that begins on the current line. A plain one continues over the lines indented by at least
    /// `indent`.
    Json readScalar(std::string_view text, std::size_t indent, std::size_t depth) {
        if (text[0] == '[' || text[0] == '{') {
            auto rest = text;
            auto value = readFlow(rest, depth);
            endLine(rest);
            return value;
        }
        if (text[0] == '"' || text[0] == '\'') {
            const auto end = endOfQuoted(text);
            auto value = unquote(text.substr(0, end));
            endLine(text.substr(end));
            return value;
        }
        checkPlain(text);
        std::string value(withoutComment(text));
        bool comment = value.size() != text.size();
        checkNoKey(value);
        ++at;
        for (; !atEnd() && lines[at].indent >= indent && !comment; ++at) {
            const auto more = withoutComment(lines[at].text);
            comment = more.size() != lines[at].text.size();
            checkNoKey(more);
            value += cat(" ", more);
        }
        return plainValue(value);
    }

    void checkNoKey(std::string_view plain) const {
        if (plain.find(": ") != std::string_view::npos || plain.ends_with(':')) {
            fail("a ':' in a plain value: put the value into quotes");
        }
    }

    void endLine(std::string_view rest) {
        if (!withoutCommentAtStart(rest).empty()) {
            fail("unexpected text after a value");
        }
        ++at;
    }

    static void skipBlanks(std::string_view& text) {
        while (!text.empty() && isBlank(text[0])) {
            text.remove_prefix(1);
        }
    }

    bool takeFlow(std::string_view& text, char c) const {
        skipBlanks(text);
        if (text.empty()) {
            fail("a list or mapping in brackets must end on the line where it begins");
        }
        if (text[0] != c) {
            return false;
        }
        text.remove_prefix(1);
        return true;
    }

    Json readFlow(std::string_view& text, std::size_t depth) const {
        if (depth > maxLevels) {
            fail(cat("it is nested deeper than ", maxLevels, " levels"));
        }
        if (takeFlow(text, '[')) {
            auto list = Json::array();
            while (!takeFlow(text, ']')) {
                list.push_back(readFlow(text, depth + 1));
                endFlowItem(text, ']');
            }
            return list;
        }
        if (takeFlow(text, '{')) {
            auto mapping = Json::object();
            while (!takeFlow(text, '}')) {
                const auto key = flowScalar(text);
                if (!key.second.is_string() || !takeFlow(text, ':')) {
                    fail("expected 'key: value' in braces");
                }
                checkNewKey(mapping, key.first);
                mapping.emplace(key.first, readFlow(text, depth + 1));
                endFlowItem(text, '}');
            }
            return mapping;
        }
        return flowScalar(text).second;
    }

    void endFlowItem(std::string_view& text, char end) const {
        skipBlanks(text);
        if (!text.starts_with(end) && !takeFlow(text, ',')) {
            fail(cat("expected ',' or '", end, "'"));
        }
    }

    std::pair<std::string, Json> flowScalar(std::string_view& text) const {
        if (text[0] == '"' || text[0] == '\'') {
            const auto end = endOfQuoted(text);
            auto value = unquote(text.substr(0, end));
            text.remove_prefix(end);
            return {value, value};
        }
        checkPlain(text);
        std::size_t end = 0;
        const auto ends = [&] {
            const char c = text[end];
            const bool last = end + 1 == text.size();
            return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' ||
                   (c == '#' && end > 0 && isBlank(text[end - 1])) ||
                   (c == ':' && (last || isBlank(text[end + 1]) || text[end + 1] == ','));
        };
        while (end < text.size() && !ends()) {
            ++end;
        }
        std::string value(trim(text.substr(0, end)));
        if (value.empty()) {
            fail("a value is missing in brackets");
        }
        text.remove_prefix(end);
        return {value, plainValue(value)};
    }

    std::string name;
    std::vector<Line> lines;
    std::size_t at = 0;  ///< index of the line that comes next
};

}  // namespace

nlohmann::ordered_json parseYaml(std::string_view text, std::string_view what) {
    return Parser(text, what).run();
}

}  // namespace sarus::oci
