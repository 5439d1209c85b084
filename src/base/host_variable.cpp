#include "base/host_variable.hpp"

#include <cstdlib>
#include <utility>

namespace sarus {

std::optional<std::string> hostVariable(const std::string& name) {
    const char* value = ::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<std::string> nonEmptyHostVariable(const std::string& name) {
    auto value = hostVariable(name);
    return value && value->empty() ? std::nullopt : std::move(value);
}

}  // namespace sarus
