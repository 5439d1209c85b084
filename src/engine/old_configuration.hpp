#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sarus::engine {

/// Something in a sarus.json that has no effect.
struct ConfigurationFinding {
    std::string key;      ///< its path, as in "siteMounts[1].src"
    std::string message;  ///< one line without the file and the key
    std::string hint;     ///< what to do; may be empty
};

/// What an administrator should know about a sarus.json of Sarus 1.7: the unknown keys, which 1.7 ignored
/// too, and the keys that lost their meaning. Complements parseSiteConfig(), which reports what is wrong.
/// Throws Error naming `fileName` if the text is not a JSON object.
std::vector<ConfigurationFinding> checkOldConfiguration(std::string_view json, std::string_view fileName);

}  // namespace sarus::engine
