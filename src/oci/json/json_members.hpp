#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "oci/json/json_node.hpp"

namespace sarus::oci {

/// A key of an object, and the function that processes its value.
template <typename Json>
struct JsonMember {
    std::string_view key;
    std::function<void(const JsonNode<Json>& value)> read;
};

/// Reads the members of an object, in the document's order. Any other key is an error (an unknown `what`), or
/// ignored if `what` is empty.
template <typename Json>
void readMembers(const JsonNode<Json>& node, std::string_view expected, std::string_view what,
                 std::initializer_list<std::type_identity_t<JsonMember<Json>>> known) {
    for (const auto& item : node.object(expected).items()) {
        const auto found = std::find_if(known.begin(), known.end(),
                                        [&](const auto& member) { return member.key == item.key(); });
        if (found != known.end()) {
            found->read(node.member(item.key(), item.value()));
        } else if (!what.empty()) {
            node.reject(cat("unknown ", what, " '", printable(item.key()), "'"));
        }
    }
}

}  // namespace sarus::oci
