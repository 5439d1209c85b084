#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/passwd_file.hpp"

namespace sarus {

/// Answers with lines in the form of passwd(5) or group(5) for names or numbers in the database "passwd" or
/// "group". Keys without an entry have no line.
using NameService =
    std::function<std::string(const std::string& database, const std::vector<std::string>& keys)>;

/// The node's name services, through getent(1) in one of the directories `searchPath` and with the rights of
/// this process: it may be forged wherever the caller of this process is not trusted. "" without that
/// program. Throws Error after 10 s without an answer.
std::string askNameService(const std::string& database, const std::vector<std::string>& keys,
                           std::string_view searchPath = "/usr/bin:/bin");

/// The node's account of this uid: of /etc/passwd, or, if that has none, of askNameService(); nullopt without
/// one. Throws Error as askNameService() does.
std::optional<PasswdEntry> findAccount(uid_t uid, std::string_view searchPath = "/usr/bin:/bin");

/// The name of this uid: of `cache`, an installation's file in the form of passwd(5), or, if that is missing
/// or older than the account, of findAccount(); nullopt without one. Throws Error as findAccount() does.
std::optional<std::string> findAccountName(const std::string& cache, uid_t uid);

}  // namespace sarus
