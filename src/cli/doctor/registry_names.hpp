#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::cli {

/// The registries in the text of a file of containers-registries.conf(5): for each table `[[registry]]` that
/// is not blocked, its prefix or location. Reads line by line, and passes over what it does not know: skopeo
/// judges the file.
std::vector<std::string> registriesIn(std::string_view text);

}  // namespace sarus::cli
