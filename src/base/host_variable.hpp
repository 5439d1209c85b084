#pragma once

#include <optional>
#include <string>

namespace sarus {

/// The value of a variable of this process's environment; nullopt if it is not set.
std::optional<std::string> hostVariable(const std::string& name);

/// The same; nullopt also if it is empty.
std::optional<std::string> nonEmptyHostVariable(const std::string& name);

}  // namespace sarus
