#pragma once

#include <string>

namespace sarus {

/// The directory above the one of this program, such as `/opt/sarus` for `/opt/sarus/bin/sarus`; "" for the
/// root directory. Throws Error without /proc.
std::string installationPrefix();

}  // namespace sarus
