#pragma once

#include <string_view>

#include "base/error.hpp"

namespace sarus::engine {

/// The refusal of what a rule in sarus.json forbids: one line with what, the key, and whom to ask.
Error siteForbids(std::string_view what, std::string_view key);

}  // namespace sarus::engine
