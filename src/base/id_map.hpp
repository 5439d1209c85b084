#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sarus {

/// The id that the parent of a user namespace has for its `id`. `map`: the text of uid_map or gid_map in
/// /proc (user_namespaces(7)). nullopt if there is none.
std::optional<std::uint32_t> idOutside(std::string_view map, std::uint32_t id);

}  // namespace sarus
