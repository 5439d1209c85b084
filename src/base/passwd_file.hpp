#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace sarus {

/// The name of the first entry with `uid` in the text of a passwd(5) file, if it can be the name of a
/// directory.
std::optional<std::string> findUserName(std::string_view passwdFile, uid_t uid);

}  // namespace sarus
