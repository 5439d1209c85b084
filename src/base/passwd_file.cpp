#include "base/passwd_file.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sarus {

namespace {

bool isDirectoryName(std::string_view name) {
    return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace

std::optional<std::string> findUserName(std::string_view passwdFile, uid_t uid) {
    while (!passwdFile.empty()) {
        const auto end = std::min(passwdFile.find('\n'), passwdFile.size());
        const auto fields = split(passwdFile.substr(0, end), ':');
        passwdFile.remove_prefix(std::min(end + 1, passwdFile.size()));
        if (fields.size() >= 4 && parseNumber(fields[2]) == uid && isDirectoryName(fields[0])) {
            return fields[0];
        }
    }
    return std::nullopt;
}

}  // namespace sarus
