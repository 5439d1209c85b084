#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::cli {

/// The value of a variable, or nullopt if it is not defined.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Replaces `$NAME`, `${NAME}` and `${NAME:-DEFAULT}`; `$$` gives '$'. The default is for an undefined or
/// empty variable and is expanded too. The values of variables are never interpreted. Throws Error "<where>:
/// ..." for an undefined variable and for every other use of '$'.
std::string expandVariables(std::string_view text, const VariableLookup& lookup, std::string_view where);

}  // namespace sarus::cli
