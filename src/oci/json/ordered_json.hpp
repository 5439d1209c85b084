#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// Reads a JSON object (RFC 8259) for changing and writing it without loss: members keep their order. Refuses
/// integers that do not fit into 64 bits, because the library silently converts them to floating-point
/// numbers. Throws Error, naming `file`, for those, for anything but a single object, and for a document
/// nested deeper than maxJsonLevels.
nlohmann::ordered_json parseOrdered(std::string_view json, const std::string& file);

/// The member of an object, created (null) if missing. The library's own function copies all members deeply
/// whenever their list grows; this one moves them.
nlohmann::ordered_json& memberOf(nlohmann::ordered_json& object, const std::string& key);

}  // namespace sarus::oci
