#pragma once

#include <string>
#include <string_view>

namespace sarus {

/// RFC 4648, section 4.
std::string encodeBase64(std::string_view data);

}  // namespace sarus
