#include "hooks/sethomevar/account_home.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/name_service.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"

namespace sarus::hooks::sethomevar {

namespace {

std::optional<PasswdEntry> accountOf(uid_t uid, const Settings& settings) {
    if (!settings.passwdFile.empty()) {
        return findPasswdEntry(readFile(settings.passwdFile, largestPasswdFile), uid);
    }
    try {
        return findAccount(uid, settings.searchPath);
    } catch (Error& error) {
        throw error.setHint("Name a file with the accounts as PASSWD_FILE in the hook's JSON file");
    }
}

}  // namespace

Settings readSettings(const HookEnvironment& environment) {
    auto file = environment.find("PASSWD_FILE").value_or("");
    if (!file.empty() && file.front() != '/') {
        throw Error(cat("PASSWD_FILE is not an absolute path: ", printable(file)));
    }
    return {std::move(file), environment.find("PATH").value_or("/usr/bin:/bin")};
}

std::string homeOf(uid_t uid, const Settings& settings) {
    const auto entry = accountOf(uid, settings);
    if (!entry) {
        throw Error(cat("There is no account with the uid ", uid,
                        settings.passwdFile.empty() ? "" : cat(" in ", printable(settings.passwdFile))));
    }
    const bool isPath = entry->home.starts_with('/') && std::none_of(entry->home.begin(), entry->home.end(),
                                                                     [](char c) { return c == '\0'; });
    if (!isPath) {
        throw Error(cat("The account with the uid ", uid, " has no home directory, but '",
                        printable(entry->home), '\''));
    }
    return entry->home;
}

}  // namespace sarus::hooks::sethomevar
