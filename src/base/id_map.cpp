#include "base/id_map.hpp"

#include "base/text.hpp"

namespace sarus {

std::optional<std::uint32_t> idOutside(std::string_view map, std::uint32_t id) {
    for (const auto& line : split(map, '\n')) {
        const auto words = splitWords(line);
        if (words.size() != 3) {
            continue;
        }
        const auto inside = parseNumber(words[0]);
        const auto outside = parseNumber(words[1]);
        const auto count = parseNumber(words[2]);
        if (inside && outside && count && id >= *inside && id - *inside < *count) {
            return static_cast<std::uint32_t>(*outside + (id - *inside));
        }
    }
    return std::nullopt;
}

}  // namespace sarus
