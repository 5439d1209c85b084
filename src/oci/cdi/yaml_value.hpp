#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// The value of a YAML scalar as Go's readers have it (YAML 1.1 without sexagesimal numbers): null, a boolean
/// (also y, yes, on, n, no, off), a whole number (also 0x1F, 0o17, 017, 0b1, 1_000), a fraction or a string.
/// `tag`: "!!int", "!" and so on, "" for none. A text that is not plain and has no tag is a string. nullopt
/// if the tag is not that of a scalar, or the text is not of its type, or too large for JSON.
std::optional<nlohmann::ordered_json> yamlValue(const std::string& text, bool isPlain, std::string_view tag);

}  // namespace sarus::oci
