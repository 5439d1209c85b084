#include "image/credentials.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/interrupt.hpp"

namespace sarus::image {

namespace {

constexpr std::size_t longestLine = 65536;

/// Reads one line byte by byte: what follows belongs to the next reader.
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

Credentials promptForCredentials(const std::optional<std::string>& username, int input, int output) {
    Credentials credentials;
    writeAll(output, "username: ", "standard output");
    if (username) {
        credentials.username = *username;
        writeAll(output, cat(*username, '\n'), "standard output");
    } else {
        credentials.username = readLine(input, "user name");
    }
    writeAll(output, "password: ", "standard output");
    {
        const EchoOff echoOff(input);
        credentials.password = readLine(input, "password");
    }
    writeAll(output, "\n", "standard output");
    return credentials;
}

}  // namespace

void checkLoginOptions(const LoginOptions& options) {
    if (options.login && options.passwordStdin) {
        throw Error("The options '--password-stdin' and '--login' cannot be used together", "See 'sarus help pull'");
    }
    if (options.username || options.passwordStdin) {
        rejectEmpty(options.username.value_or(""));
    }
}

std::optional<Credentials> obtainCredentials(const LoginOptions& options, int input, int output) {
    checkLoginOptions(options);
    if (options.login) {
        auto credentials = promptForCredentials(options.username, input, output);
        rejectEmpty(credentials.username);
        return credentials;
    }
    if (!options.username) {
        return std::nullopt;
    }
    return Credentials{*options.username, options.passwordStdin ? readLine(input, "password") : ""};
}

std::string encodeBase64(std::string_view data) {
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < data.size(); i += 3) {
        const auto byte = [&](std::size_t k) { return i + k < data.size() ? static_cast<unsigned char>(data[i + k]) : 0U; };
        const unsigned group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for (std::size_t k = 0; k < 4; ++k) {
            text += i + k <= data.size() ? alphabet[(group >> (18 - 6 * k)) & 63] : '=';
        }
    }
    return text;
}

std::string authenticationFileText(const ImageReference& reference, const Credentials& credentials) {
    nlohmann::json json;
    json["auths"][reference.repository()]["auth"] = encodeBase64(cat(credentials.username, ':', credentials.password));
    return json.dump();
}

AuthenticationFile::AuthenticationFile(const std::string& directory, const std::string& suffix, const ImageReference& reference,
                                       const Credentials& credentials)
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
