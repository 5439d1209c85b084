#pragma once

#include <cstddef>
#include <string_view>

namespace sarus::oci {

constexpr std::size_t mostJsonLevels = 200;

/// Throws Error if arrays and objects of the JSON text are nested deeper than `limit`: trees are written and compared by
/// recursion, which a hostile file must not be able to drive. Looks at brackets outside strings only; `name` is for messages.
void checkJsonDepth(std::string_view json, std::string_view name, std::size_t limit = mostJsonLevels);

}  // namespace sarus::oci
