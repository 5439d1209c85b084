#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// Reads the first document of a YAML 1.1 text, as Go's readers do: lists and mappings in blocks and in
/// brackets, every kind of scalar, anchors, aliases, merge keys, the tags of JSON's types, and "%YAML 1.1".
/// Values: yamlValue(). tests/fuzz compares it with libyaml.
///
/// Refuses what JSON cannot hold (other tags, keys that are no text), duplicate keys, other directives,
/// Unicode's line separators, a '?' in brackets, and more than a site's file needs: 32 levels, 1,000 keys of
/// a mapping and 100,000 values, as aliases count.
///
/// Throws Error "<what>: line <number>: ...". `what` is shown unchanged.
nlohmann::ordered_json parseYaml(std::string_view text, std::string_view what);

}  // namespace sarus::oci
