#pragma once

#include <cstddef>
#include <string>

#include "cli/context.hpp"

namespace sarus::cli {

/// For root: the containers of all other users of this node, as JSON in the form of `sarus ps --json`, of at
/// most `limit` bytes.
///
/// What users keep and run without privileges is described by files of theirs. So each user's own `sarus ps`
/// reads them, with that user's rights, and is not waited for longer than some seconds. Its output is that
/// user's: only the owner is known. Whatever is left out causes a warning. Throws Error.
std::string containersOfOthers(Context& context, std::size_t limit);

}  // namespace sarus::cli
