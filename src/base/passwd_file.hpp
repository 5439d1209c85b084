#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarus {

/// More than the accounts of any site, in bytes.
inline constexpr std::size_t largestPasswdFile = 256U << 20U;

/// The first line of a text that is not empty, which is cut off; the last one may end without a line feed.
std::string_view takeLine(std::string_view& text);

/// The third field of a line of passwd(5) or group(5), if it is a number.
std::optional<std::uint64_t> idOf(std::string_view line);

/// An entry of a password file (passwd(5)).
struct PasswdEntry {
    std::string name;
    std::string home;
    std::string shell;
    std::optional<gid_t> group{};
};

/// The first entry of this uid; nullopt if there is none.
std::optional<PasswdEntry> findPasswdEntry(std::string_view text, uid_t uid);

/// Whether a user of this name can have a directory of that name.
bool isDirectoryName(std::string_view name);

/// The name of the first entry of this uid that can be the name of a directory; nullopt if there is none.
std::optional<std::string> findUserName(std::string_view text, uid_t uid);

/// The file with /bin/sh as the shell of all whose shell does not exist; nullopt if nothing changes. Whatever
/// is no entry stays as it is.
std::optional<std::string> replaceMissingShells(std::string_view text,
                                                const std::function<bool(const std::string& path)>& exists);

/// The file with this home directory in the first entry of the uid; nullopt if nothing changes, or there is
/// no such entry. Whatever else is there stays as it is. `home` has neither a colon nor a line feed.
std::optional<std::string> replaceHome(std::string_view text, uid_t uid, std::string_view home);

}  // namespace sarus
