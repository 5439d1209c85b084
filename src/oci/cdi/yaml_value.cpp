#include "oci/cdi/yaml_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;

/// "yes", "Yes" and "YES" for "yes".
bool isWord(std::string_view text, std::string_view word) {
    const auto isLower = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto equals = [](char a, char b) { return a == b || a + ('a' - 'A') == b; };
    if (text.size() != word.size() || !std::equal(text.begin(), text.end(), word.begin(), equals)) {
        return false;
    }
    const auto lower = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), isLower));
    return lower == 0 || lower == text.size() || (lower == text.size() - 1 && !isLower(text[0]));
}

std::optional<Json> readConstant(std::string_view text) {
    if (text.empty() || text == "~" || isWord(text, "null")) {
        return std::make_optional<Json>(nullptr);
    }
    constexpr std::array yes{"true", "yes", "on", "y"};
    constexpr std::array no{"false", "no", "off", "n"};
    const auto isText = [&](const char* word) { return isWord(text, word); };
    if (std::any_of(yes.begin(), yes.end(), isText)) {
        return true;
    }
    return std::any_of(no.begin(), no.end(), isText) ? std::optional<Json>(false) : std::nullopt;
}

std::optional<Json> readInteger(std::string_view text) {
    const bool isNegative = text.starts_with('-');
    text.remove_prefix(isNegative || text.starts_with('+') ? 1 : 0);
    int base = 10;
    if (text.size() > 1 && text[0] == '0') {
        const char letter = static_cast<char>(text[1] | 0x20);
        base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
        text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
    }
    std::uint64_t number = 0;
    const auto* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, base);
    constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (error != std::errc() || stop != end || (isNegative && number > largest)) {
        return std::nullopt;
    }
    return std::make_optional<Json>(isNegative ? Json(-static_cast<std::int64_t>(number)) : Json(number));
}

std::optional<Json> readFraction(std::string_view text) {
    if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) {
        return std::nullopt;
    }
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    double number = 0;
    const auto* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || text.starts_with("+")) {
        return std::nullopt;
    }
    constexpr double exact = 9007199254740992;  // whole numbers up to here
    const bool isWhole = std::abs(number) < exact && number == std::floor(number);
    return std::make_optional<Json>(isWhole ? Json(static_cast<std::int64_t>(number)) : Json(number));
}

Json plainValue(const std::string& text) {
    if (auto value = readConstant(text)) {
        return *std::move(value);
    }
    constexpr std::string_view begins = "+-.0123456789";
    if (begins.find(text[0]) == std::string_view::npos) {
        return text;
    }
    auto number = text;
    std::erase(number, '_');
    if (auto value = readInteger(number)) {
        return *std::move(value);
    }
    return readFraction(number).value_or(text);
}

}  // namespace

std::optional<Json> yamlValue(const std::string& text, bool isPlain, std::string_view tag) {
    constexpr std::string_view longTags = "!<tag:yaml.org,2002:";
    const auto type = tag.starts_with(longTags) && tag.ends_with('>')
                          ? tag.substr(longTags.size(), tag.size() - longTags.size() - 1)
                      : tag.starts_with("!!") ? tag.substr(2)
                                              : tag;
    if (!tag.empty() && type.empty()) {
        return std::nullopt;
    }
    if (type == "str" || type == "!" || (type.empty() && !isPlain)) {
        return text;
    }
    auto value = plainValue(text);
    const bool fits = type.empty() || (type == "null" && value.is_null()) ||
                      (type == "bool" && value.is_boolean()) ||
                      (type == "int" && value.is_number_integer()) || (type == "float" && value.is_number());
    return fits ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace sarus::oci
