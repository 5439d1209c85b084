#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json/json_depth.hpp"

// Include this only in source files that read configuration: the JSON library is slow to compile.

namespace sarus::oci {

/// How to treat a key that occurs twice in an object.
enum class DuplicateKeys { lastCounts, areErrors };

/// Parses a document from an untrusted source. Throws Error that begins with `what` if the text is not JSON,
/// contains an out-of-range number, or is nested too deeply.
template <typename Json>
Json parseJson(std::string_view text, std::string_view what,
               DuplicateKeys duplicates = DuplicateKeys::lastCounts) {
    checkJsonDepth(text, what);
    try {
        if (duplicates == DuplicateKeys::lastCounts) {
            return Json::parse(text);
        }
        std::vector<std::set<std::string>> keys;  // of the open objects, outermost first
        return Json::parse(text, [&](int, typename Json::parse_event_t event, Json& value) {
            if (event == Json::parse_event_t::object_start) {
                keys.emplace_back();
            } else if (event == Json::parse_event_t::object_end) {
                keys.pop_back();
            } else if (event == Json::parse_event_t::key &&
                       !keys.back().insert(value.template get<std::string>()).second) {
                throw Error(cat(printable(what), ": the key '", printable(value.template get<std::string>()),
                                "' is there twice"));
            }
            return true;
        });
    } catch (const typename Json::exception& error) {
        std::string_view reason =
            error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        if (const auto end = reason.find("] "); end != std::string_view::npos) {
            reason.remove_prefix(end + 2);
        }
        throw Error(cat(printable(what), ": not valid JSON: ", printable(reason)));
    }
}

/// Collects all problems of a document instead of stopping at the first one, and names their lines.
struct JsonReview {
    std::map<std::string, std::size_t> lines;  ///< of keys and elements, by their path
    std::vector<Error> problems;
};

/// A value of a JSON document with its position, for messages that name the file, the path of the key, and
/// the expected and actual values. `Json` is one of the library's document types; the document and the file's
/// name outlive the node.
template <typename Json>
class JsonNode {
public:
    JsonNode(const Json& value, std::string path, std::string_view fileName, JsonReview* reviewer = nullptr)
        : json(value), location(std::move(path)), file(fileName), review(reviewer) {}

    const Json& value() const { return json; }

    [[noreturn]] void fail(std::string_view expected) const {
        throw Error(cat(place(location), ": ", location.empty() ? "the document" : location, ": expected ",
                        expected, ", found ", describe()));
    }

    /// For a violation other than the value's type.
    [[noreturn]] void reject(std::string_view message, std::string hint = {}) const {
        throw Error(cat(place(location), ": ", location, location.empty() ? "" : ": ", message),
                    std::move(hint));
    }

    /// Like reject(), for a key of this object.
    [[noreturn]] void rejectKey(const std::string& key, std::string_view message, std::string hint) const {
        throw Error(cat(place(pathOf(key)), ": ", location, location.empty() ? "" : ": ", message),
                    std::move(hint));
    }

    /// For an empty object or list.
    [[noreturn]] void failEmpty(std::string_view what) const {
        reject(cat("expected at least one ", what, ", found none"));
    }

    JsonNode member(const std::string& key, const Json& content) const {
        return {content, pathOf(key), file, review};
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

    /// A whole number that is not negative.
    std::uint64_t number(std::uint64_t largest, std::string_view expected) const {
        const bool isWhole =
            json.is_number_unsigned() || (json.is_number_integer() && json.template get<std::int64_t>() >= 0);
        if (!isWhole || json.template get<std::uint64_t>() > largest) {
            fail(expected);
        }
        return json.template get<std::uint64_t>();
    }

    /// Refuses NUL characters: the text goes to the operating system.
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
            attempt([&] {
                elements.push_back(readElement(JsonNode(json[i], cat(location, "[", i, "]"), file, review)));
            });
        }
        return elements;
    }

    /// Calls the function. In a review, its Error is one of the problems.
    template <typename Read>
    void attempt(Read read) const {
        try {
            read();
        } catch (const Error& error) {
            if (review == nullptr) {
                throw;
            }
            review->problems.push_back(error);
        }
    }

    std::vector<std::string> strings() const {
        return list("a list of strings", [](const JsonNode& element) { return element.string(); });
    }

private:
    const std::string& text() const { return json.template get_ref<const std::string&>(); }

    std::string pathOf(const std::string& key) const {
        return location.empty() ? printable(key) : cat(location, ".", printable(key));
    }

    /// "FILE", or in a review "FILE:LINE" of the path.
    std::string place(const std::string& path) const {
        if (review != nullptr) {
            if (const auto found = review->lines.find(path); found != review->lines.end()) {
                return cat(printable(file), ':', found->second);
            }
        }
        return printable(file);
    }

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
    JsonReview* review;
};

}  // namespace sarus::oci
