#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "image/types/reference.hpp"

namespace sarus::image {

/// The options of `sarus pull` about authentication.
struct LoginOptions {
    bool login = false;
    bool passwordStdin = false;
    std::optional<std::string> username{};
};

struct LoginData {
    std::string username;
    std::string password;
};

/// Throws Error for mutually exclusive options and for an empty user name.
void checkLoginOptions(const LoginOptions& options);

/// nullopt if no option requests authentication. Prompts on `output` and reads lines from `input` (the
/// password without echo if it is a terminal). Throws Error as checkLoginOptions does, and for an empty user
/// name.
std::optional<LoginData> obtainCredentials(const LoginOptions& options, int input, int output);

/// The text of a containers-auth.json(5) file that is valid for one repository.
std::string authenticationFileText(const ImageReference& reference, const LoginData& credentials);

/// Makes root forget a HOME (some sudo) and an XDG_RUNTIME_DIR (su) that are not root's, with a warning.
/// Files there name programs that skopeo starts, the credential helpers. Without the variables, skopeo takes
/// root's.
void forgetForeignHome();

/// Warns about each of the user's credential files (containers-auth.json(5)) that other users can change, or
/// that contains logins and that they can read.
void warnAboutUnsafeCredentials();

/// The authentication file of one pull: only its owner can read it, and the destructor removes it.
class AuthenticationFile {
public:
    AuthenticationFile(const std::string& directory, const std::string& suffix,
                       const ImageReference& reference, const LoginData& credentials);
    ~AuthenticationFile();
    AuthenticationFile(const AuthenticationFile&) = delete;
    AuthenticationFile& operator=(const AuthenticationFile&) = delete;

    const std::string& path() const noexcept { return file; }

private:
    std::string file;
};

}  // namespace sarus::image
