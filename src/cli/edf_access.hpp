#pragma once

#include <optional>
#include <string>

#include "cli/context.hpp"
#include "cli/edf_file.hpp"

namespace sarus::cli {

/// Loads the environment definition that the user names, from the search path of the user and the site.
/// Throws Error.
EdfFile loadDefinition(Context& context, const std::string& reference);

/// The same, and warns about unknown keys.
EdfFile readEdf(Context& context, const std::string& reference);

}  // namespace sarus::cli
