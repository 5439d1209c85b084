#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "image/reference.hpp"

namespace sarus::image {

/// The options of `sarus pull` about authentication.
struct LoginOptions {
    bool login = false;
    bool passwordStdin = false;
    std::optional<std::string> username{};
};

struct Credentials {
    std::string username;
    std::string password;
};

/// Throws Error for options that exclude each other and for an empty user name.
void checkLoginOptions(const LoginOptions& options);

/// nullopt if no option asks for authentication. Prompts on `output` and reads lines from `input` (without echo for the password
/// if it is a terminal). Throws Error as
/// checkLoginOptions, and for an empty user name that was typed.
std::optional<Credentials> obtainCredentials(const LoginOptions& options, int input, int output);

/// The text of a containers-auth.json(5) file which is good for one repository.
std::string authenticationFileText(const ImageReference& reference, const Credentials& credentials);

/// RFC 4648, section 4.
std::string encodeBase64(std::string_view data);

/// The authentication file of one pull: only its owner can read it, and the destructor removes it.
class AuthenticationFile {
public:
    AuthenticationFile(const std::string& directory, const std::string& suffix, const ImageReference& reference,
                       const Credentials& credentials);
    ~AuthenticationFile();
    AuthenticationFile(const AuthenticationFile&) = delete;
    AuthenticationFile& operator=(const AuthenticationFile&) = delete;

    const std::string& path() const noexcept { return file; }

private:
    std::string file;
};

}  // namespace sarus::image
