#pragma once

#include <optional>
#include <string_view>

namespace sarus {

/// true, yes, on, 1 and false, no, off, 0, in any case. nullopt for other text.
std::optional<bool> parseBoolean(std::string_view text);

}  // namespace sarus
