#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/context.hpp"

namespace sarus::cli {

/// The names of the caller's containers on this node (of root: of all users), by the image that they run
/// from, as `sarus run` names it. Throws Error if the starter does not answer.
std::map<std::string, std::vector<std::string>> containersByImage(Context& context);

/// The images of these containers. Throws Error.
std::set<std::string> imagesInUse(Context& context);

}  // namespace sarus::cli
