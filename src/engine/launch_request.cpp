#include "engine/launch_request.hpp"

#include "base/text.hpp"

namespace sarus::engine {

std::string optionKey(std::string_view option, std::string_view value) {
    return cat(option, '=', value);
}

}  // namespace sarus::engine
