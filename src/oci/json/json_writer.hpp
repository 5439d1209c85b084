#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace sarus::oci {

/// Writes compact JSON (RFC 8259) in one pass. The caller is responsible for nesting; the writer adds commas.
///
/// Strings may hold any bytes except NUL, which no C program could read back (throws Error). Each byte that
/// is not well-formed UTF-8 becomes U+FFFD, so the output is always valid.
class JsonWriter {
public:
    JsonWriter& beginObject() { return open('{'); }
    JsonWriter& endObject() { return close('}'); }
    JsonWriter& beginArray() { return open('['); }
    JsonWriter& endArray() { return close(']'); }

    JsonWriter& key(std::string_view name);
    JsonWriter& value(std::string_view text);
    JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(std::same_as<bool> auto flag) { return raw(flag ? "true" : "false"); }
    template <std::integral Number>
    requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) JsonWriter& value(Number number) {
        return raw(cat(number));
    }
    /// An array of strings.
    template <typename Strings>
    requires(!std::convertible_to<Strings, std::string_view> &&
             requires(const Strings& s) { s.begin(); }) JsonWriter& value(const Strings& strings) {
        beginArray();
        for (const auto& element : strings) {
            value(element);
        }
        return endArray();
    }
    /// A value that is already JSON.
    JsonWriter& raw(std::string_view json);

    template <typename Value>
    JsonWriter& member(std::string_view name, const Value& content) {
        return key(name).value(content);
    }

    const std::string& text() const { return out; }

private:
    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);
    void separate();
    void appendString(std::string_view text);

    std::string out;
    bool commaNeeded = false;
};

}  // namespace sarus::oci
