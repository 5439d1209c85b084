#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// Reads the part of YAML that tools write into configuration files: block mappings and lists, plain and quoted scalars, plain
/// scalars over several lines, comments, and lists and mappings in brackets on one line. The root must be a mapping or a list.
///
/// Everything in which a short text can mean a lot, or something else to another reader, is refused: anchors, aliases, tags,
/// directives, several documents, block scalars ('|', '>'), complex keys, duplicate keys, tabs for indentation, merge keys.
/// Scalars mean what the core schema of YAML 1.2 says (null, true, false, numbers), and a leading 0 makes an octal number.
///
/// Throws Error "<what>: line <number>: ...". `what` is shown as it is.
nlohmann::ordered_json parseYaml(std::string_view text, std::string_view what);

}  // namespace sarus::oci
