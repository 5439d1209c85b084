#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarus::hooks {

/// An entry of a password file (passwd(5)).
struct PasswdEntry {
    std::string name;
    std::string home;
    std::string shell;
};

/// The first entry of this uid; nullopt if there is none.
std::optional<PasswdEntry> findPasswdEntry(std::string_view text, uid_t uid);

/// The file with /bin/sh as the shell of all whose shell does not exist; nullopt if nothing changes. Whatever
/// is no entry stays as it is.
std::optional<std::string> replaceMissingShells(std::string_view text,
                                                const std::function<bool(const std::string& path)>& exists);

/// The file with this home directory in the first entry of the uid; nullopt if nothing changes, or there is
/// no such entry. Whatever else is there stays as it is. `home` has neither a colon nor a line feed.
std::optional<std::string> replaceHome(std::string_view text, uid_t uid, std::string_view home);

}  // namespace sarus::hooks
