#pragma once

#include <string>
#include <string_view>

namespace sarus::starter {

/// What to tell the user, in two lines, of a program whose start has failed and which is for processors that this node has not.
/// `beginning`: the first bytes of its file. "" if it is for this node, as far as they tell, or no ELF file.
std::string describeForeignProgram(std::string_view command, std::string_view beginning);

}  // namespace sarus::starter
