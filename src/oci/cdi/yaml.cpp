#include "oci/cdi/yaml.hpp"

#include <limits>
#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "oci/cdi/yaml_scanner.hpp"
#include "oci/cdi/yaml_value.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t maxLevels = 32;
constexpr std::size_t maxKeys = 1000;  ///< of one mapping; the search for duplicates takes quadratic time
constexpr std::size_t maxValues = 100'000;  ///< aliases multiply the values of a small file
constexpr std::size_t longestKey = 1024;

std::size_t countValues(const Json& value) {
    std::size_t count = 1;
    if (value.is_structured()) {
        for (const auto& part : value) {
            count += countValues(part);
        }
    }
    return count;
}

/// What can stand before a value.
struct Properties {
    std::string tag;
    std::string anchor;
    bool empty() const { return tag.empty() && anchor.empty(); }
};

struct Key {
    std::string text;
    bool isMerge = false;
};

class Parser {
public:
    Parser(std::string_view text, std::string_view what) : in(text, what) {}

    Json run() {
        in.skipToToken(false);
        if (in.atEnd()) {
            in.fail("the document is empty");
        }
        auto root = readNode(-1, false, 0, {});
        goesOn(-1);
        return root;
    }

private:
    void checkDepth(std::size_t depth) const {
        if (depth > maxLevels) {
            in.fail(cat("it is nested deeper than ", maxLevels, " levels"));
        }
    }

    void count(std::size_t more) {
        values += more;
        if (values > maxValues) {
            in.fail(cat("it has more than ", maxValues, " values"));
        }
    }

    std::string readAnchorName(bool inFlow) {
        in.take();
        auto name = in.readWord(inFlow);
        constexpr std::string_view letters =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
        if (name.empty() || name.find_first_not_of(letters) != std::string::npos) {
            in.fail("the name of an anchor consists of letters, digits, - and _");
        }
        return name;
    }

    /// Adds those of this line; in flows, of several lines.
    Properties readProperties(Properties found, bool inFlow) {
        while (in.peek() == '&' || in.peek() == '!') {
            auto& property = in.peek() == '&' ? found.anchor : found.tag;
            if (!property.empty()) {
                in.fail("a value has two tags or two anchors");
            }
            property = in.peek() == '&' ? readAnchorName(inFlow) : in.readWord(inFlow);
            if (inFlow) {
                in.skipToToken(true);
            } else {
                in.skipBlanks();
            }
        }
        return found;
    }

    Json readAlias(bool inFlow, const Properties& properties) {
        const auto found = anchors.find(readAnchorName(inFlow));
        if (found == anchors.end() || !properties.empty()) {
            in.fail(found == anchors.end() ? "there is no anchor of this name before the alias"
                                           : "an alias has neither a tag nor an anchor");
        }
        count(countValues(found->second));
        return found->second;
    }

    Json note(Json value, const Properties& properties) {
        count(1);
        if (!properties.anchor.empty()) {
            anchors.insert_or_assign(properties.anchor, value);
        }
        return value;
    }

    [[noreturn]] void failTag(const Properties& properties) const {
        in.fail(cat("the value is not of the type ", printable(properties.tag),
                    ", or the type is not supported"));
    }

    Json scalarValue(const YamlScalar& scalar, const Properties& properties) {
        auto value = yamlValue(scalar.text, scalar.isPlain, properties.tag);
        if (!value) {
            failTag(properties);
        }
        return note(*std::move(value), properties);
    }

    Json noValue(const Properties& properties) {
        return scalarValue({.text = {}, .isPlain = true}, properties);
    }

    Json collection(Json value, const Properties& properties) {
        const std::string_view tag = properties.tag;
        const std::string_view own = value.is_array() ? "seq" : "map";
        if (!tag.empty() && tag != cat("!!", own) && tag != cat("!<tag:yaml.org,2002:", own, ">")) {
            failTag(properties);
        }
        return note(std::move(value), properties);
    }

    Key keyOf(const Json& key, bool mayMerge) const {
        if (key.is_structured() || key.is_null()) {
            in.fail("a key must be a text");
        }
        auto text = key.is_string() ? key.get<std::string>() : key.dump();
        const bool isMerge = mayMerge && text == "<<";
        return {std::move(text), isMerge};
    }

    void add(Json& mapping, const Key& key, Json value) const {
        if (key.isMerge) {
            merge(mapping, value);
            return;
        }
        if (mapping.size() >= maxKeys) {
            in.fail(cat("a mapping has more than ", maxKeys, " keys"));
        }
        if (mapping.contains(key.text)) {
            in.fail(cat("the key '", printable(key.text), "' is given twice"));
        }
        mapping.emplace(key.text, std::move(value));
    }

    /// "<<" adds the members of one mapping, or of several.
    void merge(Json& mapping, const Json& value) const {
        for (const auto& from : value.is_array() ? value : Json::array({value})) {
            if (!from.is_object()) {
                in.fail("'<<' merges mappings only");
            }
            for (const auto& [name, content] : from.items()) {
                if (!mapping.contains(name)) {
                    add(mapping, {.text = name}, content);
                }
            }
        }
    }

    /// Whether a key and its ':' begin here.
    bool isKeyHere() const {
        auto ahead = in;
        while (ahead.peek() == '&' || ahead.peek() == '!') {
            ahead.readWord(false);
            ahead.skipBlanks();
        }
        const char first = ahead.peek();
        if (first == '*') {
            ahead.readWord(false);
        } else if (first == '"' || first == '\'') {
            if (!ahead.readQuoted().isOnOneLine) {
                return false;
            }
        } else if (std::string_view("[{|>\r\n\0", 7).find(first) == std::string_view::npos) {
            ahead.readPlain(std::numeric_limits<std::ptrdiff_t>::max(), false);
        }
        ahead.skipBlanks();
        return ahead.atIndicator(':') && ahead.offset() - in.offset() <= longestKey;
    }

    Key readKey() {
        const auto properties = readProperties({}, false);
        const char first = in.peek();
        if (first == '*') {
            return keyOf(readAlias(false, properties), false);
        }
        const bool isQuoted = first == '"' || first == '\'';
        const auto scalar =
            isQuoted ? in.readQuoted() : in.readPlain(std::numeric_limits<std::ptrdiff_t>::max(), false);
        return keyOf(scalarValue(scalar, properties), !isQuoted && properties.empty());
    }

    /// The value that belongs to the list or mapping in this column; null if there is none. The list that is
    /// the value of a key may stand in the column of the key. `properties`: those on lines above.
    Json readNode(std::ptrdiff_t parent, bool isValueOfKey, std::size_t depth, const Properties& properties) {
        checkDepth(depth);
        in.skipToToken(false);
        const auto column = static_cast<std::ptrdiff_t>(in.column());
        const bool isList = in.atIndicator('-');
        if (in.atEnd() || column < parent || (column == parent && !(isList && isValueOfKey))) {
            return noValue(properties);
        }
        const bool isMapping = !isList && (in.atIndicator('?') || (in.isBlockPossible() && isKeyHere()));
        if ((isList || isMapping) && !in.isBlockPossible()) {
            in.fail("a list or mapping of several lines begins on a line of its own");
        }
        if (isList || isMapping) {
            return collection(isList ? readList(column, depth) : readMapping(column, depth), properties);
        }
        const auto line = in.line();
        const auto all = readProperties(properties, false);
        in.skipToToken(false);
        return in.line() == line && !in.atEnd() ? readInline(parent, depth, all)
                                                : readNode(parent, isValueOfKey, depth + 1, all);
    }

    /// A value that is neither a list nor a mapping of several lines.
    Json readInline(std::ptrdiff_t parent, std::size_t depth, const Properties& properties) {
        switch (in.peek()) {
            case '*':
                return readAlias(false, properties);
            case '[':
            case '{':
                return readFlowCollection(depth, properties);
            case '|':
            case '>':
                return scalarValue(in.readBlockScalar(parent), properties);
            case '"':
            case '\'':
                return scalarValue(in.readQuoted(), properties);
            default:
                return scalarValue(in.readPlain(parent, false), properties);
        }
    }

    /// Whether the next token begins another part of the list or mapping in this column.
    bool goesOn(std::ptrdiff_t parent) {
        in.skipToToken(false);
        const auto column = static_cast<std::ptrdiff_t>(in.column());
        if (in.atEnd()) {
            return false;
        }
        if (!in.isBlockPossible()) {
            in.fail(in.peek() == ':' ? "a ':' in a plain value: put the value into quotes"
                                     : "unexpected text after a value");
        }
        if (column > parent) {
            in.fail("the indentation does not fit to what is above");
        }
        return column == parent;
    }

    Json readList(std::ptrdiff_t column, std::size_t depth) {
        auto list = Json::array();
        do {
            in.takeIndicator();
            list.push_back(readNode(column, false, depth + 1, {}));
        } while (goesOn(column) && in.atIndicator('-'));
        return list;
    }

    Json readMapping(std::ptrdiff_t column, std::size_t depth) {
        auto mapping = Json::object();
        do {
            if (in.atIndicator('?')) {
                readLongKey(mapping, column, depth);
                continue;
            }
            if (in.atIndicator('-') || !isKeyHere()) {
                in.fail("expected 'key: value'");
            }
            const auto key = readKey();
            in.skipBlanks();
            in.take();
            add(mapping, key, readNode(column, true, depth + 1, {}));
        } while (goesOn(column));
        return mapping;
    }

    /// "? KEY", and ": VALUE" on a line below.
    void readLongKey(Json& mapping, std::ptrdiff_t column, std::size_t depth) {
        in.takeIndicator();
        const auto key = keyOf(readNode(column, false, depth + 1, {}), false);
        Json value;
        if (goesOn(column) && in.atIndicator(':')) {
            in.takeIndicator();
            value = readNode(column, true, depth + 1, {});
        }
        add(mapping, key, std::move(value));
    }

    Json readFlowCollection(std::size_t depth, const Properties& properties) {
        checkDepth(depth);
        const bool isList = in.peek() == '[';
        const char end = isList ? ']' : '}';
        in.take();
        auto whole = isList ? Json::array() : Json::object();
        while (true) {
            in.skipToToken(true);
            if (in.peek() == end) {
                break;
            }
            readFlowPart(whole, depth);
            in.skipToToken(true);
            if (in.peek() != end && in.peek() != ',') {
                in.fail(in.atEnd() ? "a list or mapping in brackets does not end"
                                   : cat("expected ',' or '", end, "'"));
            }
            if (in.peek() == ',') {
                in.take();
            }
        }
        in.take();
        return collection(std::move(whole), properties);
    }

    void readFlowPart(Json& whole, std::size_t depth) {
        if (in.peek() == '?') {
            in.fail("keys after a '?' are not supported in brackets");
        }
        const auto line = in.line();
        const auto begin = in.offset();
        const bool mayMerge = in.peek() == '<';
        auto value = readFlow(depth + 1);
        in.skipToToken(true);
        const bool isKey = in.peek() == ':' && in.line() == line && in.offset() - begin <= longestKey;
        if (!isKey) {
            if (whole.is_array()) {
                whole.push_back(std::move(value));
            } else {
                add(whole, {.text = keyOf(value, false).text}, nullptr);
            }
            return;
        }
        const auto key = keyOf(value, mayMerge);
        in.take();
        in.skipToToken(true);
        const bool isEmpty = std::string_view(",]}").find(in.peek()) != std::string_view::npos;
        auto content = isEmpty ? noValue({}) : readFlow(depth + 1);
        if (whole.is_array()) {
            auto pair = Json::object();
            add(pair, key, std::move(content));
            whole.push_back(collection(std::move(pair), {}));
        } else {
            add(whole, key, std::move(content));
        }
    }

    Json readFlow(std::size_t depth) {
        const auto properties = readProperties({}, true);
        if (in.atEnd()) {
            in.fail("a list or mapping in brackets does not end");
        }
        switch (in.peek()) {
            case '*':
                return readAlias(true, properties);
            case '[':
            case '{':
                return readFlowCollection(depth, properties);
            case '"':
            case '\'':
                return scalarValue(in.readQuoted(), properties);
            case ',':
            case ']':
            case '}':
            case ':':
                if (!properties.empty()) {
                    return noValue(properties);
                }
                in.fail("a value is missing in brackets");
            default:
                return scalarValue(in.readPlain(-1, true), properties);
        }
    }

    YamlScanner in;
    std::map<std::string, Json> anchors;
    std::size_t values = 0;
};

}  // namespace

nlohmann::ordered_json parseYaml(std::string_view text, std::string_view what) {
    return Parser(text, what).run();
}

}  // namespace sarus::oci
