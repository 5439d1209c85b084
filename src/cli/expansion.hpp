#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::cli {

/// The value of a variable, nullopt if it is not defined.
using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Replaces `$NAME`, `${NAME}` and `${NAME:-DEFAULT}` (the default stands for an undefined or empty variable, and is expanded
/// itself); `$$` is a plain '$'. What is put in is not looked at again: nothing that a variable holds is ever interpreted.
/// Throws Error "<where>: ..." for an undefined variable and for every other use of '$'.
std::string expandVariables(std::string_view text, const VariableLookup& lookup, std::string_view where);

}  // namespace sarus::cli
