#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/context.hpp"

namespace sarus::cli {

/// Whether containers count that were kept and do not run.
enum class Kept { no, yes };

/// The names of the caller's containers on this node (of root: the running ones of all users), by the image
/// that they run from, as `sarus run` names it. Throws Error if the starter does not answer.
std::map<std::string, std::vector<std::string>> containersByImage(Context& context, Kept kept);

/// The images of these containers, also of kept ones. Throws Error.
std::set<std::string> imagesInUse(Context& context);

}  // namespace sarus::cli
