#include "image/transfer/login.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/interrupt.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t longestLine = 65536;

/// Reads one line byte by byte: the rest belongs to the next reader.
std::string readLine(int input, std::string_view what) {
    std::string line;
    char c = 0;
    while (true) {
        const auto count = ::read(input, &c, 1);
        if (count < 0 && errno == EINTR) {
            throwIfInterrupted();
            continue;
        }
        checkErrno(count, cat("Failed to read the ", what));
        if (count == 0 || c == '\n') {
            if (line.ends_with('\r')) {
                line.pop_back();
            }
            return line;
        }
        line += c;
        if (line.size() > longestLine) {
            throw Error(cat("The ", what, " is too long"));
        }
    }
}

/// Switches the echo of a terminal off; does nothing for anything else.
class EchoOff {
public:
    explicit EchoOff(int descriptor) : terminal(descriptor) {
        if (::tcgetattr(terminal, &previous) == 0) {
            auto silent = previous;
            silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
            active = ::tcsetattr(terminal, TCSAFLUSH, &silent) == 0;
        }
    }
    EchoOff(const EchoOff&) = delete;
    EchoOff& operator=(const EchoOff&) = delete;
    ~EchoOff() {
        if (active) {
            ::tcsetattr(terminal, TCSAFLUSH, &previous);
        }
    }

private:
    int terminal;
    termios previous{};
    bool active = false;
};

void rejectEmpty(const std::string& username) {
    if (username.empty()) {
        throw Error("Invalid username: empty value provided", "See 'sarus help pull'");
    }
}

std::string promptForPassword(int input, int output) {
    writeAll(output, "password: ", "standard output");
    std::string password;
    {
        const EchoOff echoOff(input);
        password = readLine(input, "password");
    }
    writeAll(output, "\n", "standard output");
    return password;
}

LoginData promptForCredentials(const std::optional<std::string>& username, int input, int output) {
    LoginData credentials;
    writeAll(output, "username: ", "standard output");
    if (username) {
        credentials.username = *username;
        writeAll(output, cat(*username, '\n'), "standard output");
    } else {
        credentials.username = readLine(input, "user name");
    }
    credentials.password = promptForPassword(input, output);
    return credentials;
}

}  // namespace

void checkLoginOptions(const LoginOptions& options) {
    if (options.login && options.passwordStdin) {
        throw Error("The options '--password-stdin' and '--login' cannot be used together",
                    "See 'sarus help pull'");
    }
    if (options.username || options.passwordStdin) {
        rejectEmpty(options.username.value_or(""));
    }
}

std::optional<LoginData> obtainCredentials(const LoginOptions& options, int input, int output) {
    checkLoginOptions(options);
    if (options.login) {
        auto credentials = promptForCredentials(options.username, input, output);
        rejectEmpty(credentials.username);
        return credentials;
    }
    if (!options.username) {
        return std::nullopt;
    }
    if (options.passwordStdin) {
        return LoginData{*options.username, readLine(input, "password")};
    }
    // Without anybody to ask, the password is empty, as in 1.7.
    return LoginData{*options.username, ::isatty(input) == 1 ? promptForPassword(input, output) : ""};
}

std::string authenticationFileText(const ImageReference& reference, const LoginData& credentials) {
    nlohmann::json json;
    json["auths"][reference.repository()]["auth"] =
        encodeBase64(cat(credentials.username, ':', credentials.password));
    return json.dump();
}

namespace {

/// The files in which skopeo looks for logins, in its order.
std::vector<std::string> credentialFiles() {
    const auto variable = [](const char* name) { return hostVariable(name).value_or(""); };
    if (const auto file = variable("REGISTRY_AUTH_FILE"); !file.empty()) {
        return {file};
    }
    std::vector<std::string> files;
    const auto add = [&](const std::string& directory, std::string_view file) {
        if (!directory.empty()) {
            files.push_back(cat(directory, file));
        }
    };
    const auto home = variable("HOME");
    add(variable("XDG_RUNTIME_DIR"), "/containers/auth.json");
    add(home, "/.config/containers/auth.json");
    add(home, "/.docker/config.json");
    return files;
}

}  // namespace

void forgetForeignHome() {
    for (const auto* const name : {"HOME", "XDG_RUNTIME_DIR"}) {
        const auto value = hostVariable(name);
        struct stat status {};
        if (::geteuid() != 0 || !value || (::stat(value->c_str(), &status) == 0 && status.st_uid == 0)) {
            continue;
        }
        logWarn("ImageManager", cat("Root does not use the ", name, " \"", printable(*value),
                                    "\", which is not root's: files there name programs to run"));
        ::unsetenv(name);
    }
}

void warnAboutUnsafeCredentials() {
    constexpr std::size_t limit = 1U << 20U;
    for (const auto& path : credentialFiles()) {
        const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        struct stat status {};
        if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
            static_cast<std::size_t>(status.st_size) > limit) {
            continue;
        }
        // It also names the programs that are run to get credentials.
        if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
            logWarn("ImageManager", cat("Other users can change the credentials in \"", printable(path),
                                        "\". Look at them, and run: chmod 600 ", printable(path)));
            continue;
        }
        if ((status.st_mode & (S_IRGRP | S_IROTH)) == 0) {
            continue;
        }
        // A file with only credential helpers contains no secret.
        if (readAll(file.get(), limit, path).find("\"auth\"") != std::string::npos) {
            logWarn("ImageManager", cat("Other users can read the credentials in \"", printable(path),
                                        "\". Run: chmod 600 ", printable(path)));
        }
    }
}

AuthenticationFile::AuthenticationFile(const std::string& directory, const std::string& suffix,
                                       const ImageReference& reference, const LoginData& credentials)
    : file(cat(directory, "/sarus-auth-", suffix, ".json")) {
    createDirectories(directory, 0700);
    const auto fd = openFile(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    try {
        checkErrno(::fchmod(fd.get(), 0600), cat("Failed to protect ", printable(file)));
        writeAll(fd.get(), authenticationFileText(reference, credentials), printable(file));
    } catch (...) {
        ::unlink(file.c_str());
        throw;
    }
}

AuthenticationFile::~AuthenticationFile() {
    ::unlink(file.c_str());
}

}  // namespace sarus::image
