#include "base/boolean.hpp"

#include <strings.h>

#include <algorithm>
#include <array>
#include <string>

namespace sarus {

std::optional<bool> parseBoolean(std::string_view text) {
    constexpr std::array yes{"true", "yes", "on", "1"};
    constexpr std::array no{"false", "no", "off", "0"};
    const std::string word(text);
    const auto isWord = [&](const char* known) {
        return word.size() == std::string_view(known).size() && ::strcasecmp(word.c_str(), known) == 0;
    };
    if (std::any_of(yes.begin(), yes.end(), isWord)) {
        return true;
    }
    return std::any_of(no.begin(), no.end(), isWord) ? std::optional(false) : std::nullopt;
}

}  // namespace sarus
