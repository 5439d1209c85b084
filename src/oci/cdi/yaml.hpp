#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// Reads the part of YAML that tools write into configuration files: block mappings and lists, plain and
/// quoted scalars, plain scalars over several lines, comments, and lists and mappings in brackets on one
/// line. The root must be a mapping or a list.
///
/// Refuses every construct by which a short text can expand, or that readers interpret differently: anchors,
/// aliases, tags, directives, several documents, block scalars ('
/// ', '>'), complex keys, duplicate keys, tabs for indentation, merge keys. Plain scalars are null, true,
/// false, whole decimal numbers, and strings, as in CDI files. Fractions and numbers with a leading 0 are
/// strings, because readers disagree on them. Double quotes support \\, \", \/, \t and \n.
///
/// Throws Error "<what>: line <number>: ...". `what` is shown unchanged.
nlohmann::ordered_json parseYaml(std::string_view text, std::string_view what);

}  // namespace sarus::oci
