#pragma once

#include <string>
#include <string_view>

namespace sarus::image {

/// The value of `msg` in a line of skopeo's log, whose values are quoted as in Go (strconv.Quote) if
/// necessary; otherwise the line itself. In one line.
std::string messageOfLine(std::string_view line);

/// The text of skopeo's last error in one line, without time and level.
std::string skopeoMessage(std::string_view errors);

}  // namespace sarus::image
