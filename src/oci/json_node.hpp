#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json_depth.hpp"

// Only for the source files which read configuration: the JSON library is costly to compile.

namespace sarus::oci {

/// Parses a document which foreign hands may have written: throws Error that begins with `what` for text that is no JSON, holds
/// a number beyond every range, or is nested too deeply.
template <typename Json>
Json parseJson(std::string_view text, std::string_view what) {
    checkJsonDepth(text, what);
    try {
        return Json::parse(text);
    } catch (const typename Json::exception& error) {
        std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        if (const auto end = reason.find("] "); end != std::string_view::npos) {
            reason.remove_prefix(end + 2);
        }
        throw Error(cat(printable(what), ": not valid JSON: ", printable(reason)));
    }
}

/// A value of a JSON document together with where it stands, for messages that name the file, the path of the key, what was
/// expected and what was found. `Json` is one of the library's document types; the document and the file's name outlive the node.
template <typename Json>
class JsonNode {
public:
    JsonNode(const Json& value, std::string path, std::string_view fileName)
        : json(value), location(std::move(path)), file(fileName) {}

    const Json& value() const { return json; }

    [[noreturn]] void fail(std::string_view expected) const {
        throw Error(cat(printable(file), ": ", location.empty() ? "the document" : location, ": expected ", expected, ", found ",
                        describe()));
    }

    /// For a violation that is not about the value's type.
    [[noreturn]] void reject(std::string_view message, std::string hint = {}) const {
        throw Error(cat(printable(file), ": ", location, location.empty() ? "" : ": ", message), std::move(hint));
    }

    JsonNode member(const std::string& key, const Json& content) const {
        return {content, location.empty() ? printable(key) : cat(location, ".", printable(key)), file};
    }

    const Json& object(std::string_view expected = "an object") const {
        if (!json.is_object()) {
            fail(expected);
        }
        return json;
    }

    bool boolean() const {
        if (!json.is_boolean()) {
            fail("true or false");
        }
        return json.template get<bool>();
    }

    /// NUL characters are refused: the text goes to the operating system.
    std::string string(std::string_view expected = "a string") const {
        if (!json.is_string() || text().find('\0') != std::string::npos) {
            fail(expected);
        }
        return text();
    }

    std::string absolutePath() const {
        constexpr std::string_view expected = "an absolute path";
        auto path = string(expected);
        if (!path.starts_with('/')) {
            fail(expected);
        }
        return path;
    }

    template <typename ReadElement>
    auto list(std::string_view expected, ReadElement readElement) const {
        if (!json.is_array()) {
            fail(expected);
        }
        std::vector<decltype(readElement(*this))> elements;
        for (std::size_t i = 0; i < json.size(); ++i) {
            elements.push_back(readElement(JsonNode(json[i], cat(location, "[", i, "]"), file)));
        }
        return elements;
    }

private:
    const std::string& text() const { return json.template get_ref<const std::string&>(); }

    std::string describe() const {
        if (json.is_string()) {
            return cat("'", printable(text()), "'");
        }
        if (json.is_number() || json.is_boolean()) {
            return json.dump();
        }
        return json.is_null() ? "null" : cat("an ", json.type_name());
    }

    const Json& json;
    std::string location;
    std::string_view file;
};

}  // namespace sarus::oci
