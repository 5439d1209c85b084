#include "oci/json/json_depth.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci {

void checkJsonDepth(std::string_view json, std::string_view name, std::size_t limit) {
    std::size_t depth = 0;
    bool inString = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (inString) {
            if (c == '\\') {
                ++i;
            } else if (c == '"') {
                inString = false;
            }
        } else if (c == '"') {
            inString = true;
        } else if (c == '[' || c == '{') {
            if (++depth > limit) {
                throw Error(cat(name, " is nested deeper than ", limit, " levels"));
            }
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
}

}  // namespace sarus::oci
