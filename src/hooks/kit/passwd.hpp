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

}  // namespace sarus::hooks
