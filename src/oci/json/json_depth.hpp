#pragma once

#include <cstddef>
#include <string_view>

namespace sarus::oci {

constexpr std::size_t maxJsonLevels = 200;

/// Throws Error if arrays and objects of the JSON text are nested deeper than `limit`: trees are written and
/// compared recursively, and a hostile file must not control the depth. Looks only at brackets outside
/// strings; `name` is for messages.
void checkJsonDepth(std::string_view json, std::string_view name, std::size_t limit = maxJsonLevels);

}  // namespace sarus::oci
