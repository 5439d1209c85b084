#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace sarus::oci {

/// A JSON object (RFC 8259) that can be changed and written again without losing anything: its members keep their order, and
/// integers that do not fit into 64 bits, which the library turns into floating-point numbers silently, are refused. Throws
/// Error, naming `file`, for them, for anything else than one object, and for a document that is nested deeper than
/// mostJsonLevels.
nlohmann::ordered_json parseOrdered(std::string_view json, const std::string& file);

/// The member of an object, made (null) if it is not there. The library's own way to do so copies all members, with everything in
/// them, whenever their list has to grow; here they are moved.
nlohmann::ordered_json& memberOf(nlohmann::ordered_json& object, const std::string& key);

}  // namespace sarus::oci
