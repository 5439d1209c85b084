#include "engine/site_rule.hpp"

#include "base/text.hpp"

namespace sarus::engine {

Error siteForbids(std::string_view what, std::string_view key) {
    return Error(
               cat("This site does not allow ", what, " (`", key, "` in sarus.json): ask its administrators"))
        .setId("forbidden-by-site");
}

}  // namespace sarus::engine
