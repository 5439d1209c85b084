#pragma once

#include <string>
#include <string_view>

namespace sarus::starter {

/// A two-line explanation for a program whose start failed because it is for another processor. `beginning`:
/// the first bytes of its file. "" if it is for this node, as far as they tell, or not an ELF file.
std::string describeForeignProgram(std::string_view command, std::string_view beginning);

}  // namespace sarus::starter
