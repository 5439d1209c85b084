#include "image/skopeo.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

namespace sarus::image {

std::vector<std::string> policyOptions(const std::optional<PolicyChoice>& policy, const std::string& home,
                                       const std::string& systemPolicy) {
    if (policy && policy->enforce) {
        return {"--policy", policy->path};
    }
    const bool userHasOne = !home.empty() && pathExists(cat(home, "/.config/containers/policy.json"));
    if (userHasOne || pathExists(systemPolicy)) {
        return {};
    }
    if (policy) {
        return {"--policy", policy->path};
    }
    throw Error("There is no policy file which says what images may be used",
                cat("Create ~/.config/containers/policy.json or ", systemPolicy,
                    " (Debian package golang-github-containers-common), or set containersPolicy in sarus.json"));
}

namespace {

/// Without XDG_RUNTIME_DIR skopeo looks for credentials below /run/containers, and gives up where root keeps that to itself.
bool runtimeDirectoryIsClosed() {
    const char* variable = ::getenv("XDG_RUNTIME_DIR");
    if (variable != nullptr && *variable != '\0') {
        return false;
    }
    const auto file = cat("/run/containers/", ::geteuid(), "/auth.json");
    return ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) != 0 && errno == EACCES;
}

/// The caller's environment with an empty runtime directory.
std::vector<std::string> environmentWithRuntimeDirectory(const std::string& directory) {
    std::vector<std::string> environment{cat("XDG_RUNTIME_DIR=", directory)};
    for (char** variable = environ; *variable != nullptr; ++variable) {
        if (!std::string_view(*variable).starts_with("XDG_RUNTIME_DIR=")) {
            environment.emplace_back(*variable);
        }
    }
    return environment;
}

}  // namespace

std::vector<std::string> platformOptions(const oci::Platform& platform) {
    std::vector<std::string> options{"--override-os", platform.os, "--override-arch", platform.architecture};
    if (!platform.variant.empty()) {
        options.insert(options.end(), {"--override-variant", platform.variant});
    }
    return options;
}

Skopeo::Skopeo(const SkopeoSettings& theSettings, std::string temporaryDirectory)
    : settings(theSettings), temporary(std::move(temporaryDirectory)) {
    const char* home = ::getenv("HOME");
    policy = policyOptions(settings.policy, home != nullptr ? home : "");
}

Command Skopeo::command(std::vector<std::string> arguments) const {
    std::vector<std::string> all{"skopeo", "--tmpdir", temporary};
    if (logLevel() == LogLevel::debug) {
        all.emplace_back("--debug");
    }
    all.insert(all.end(), policy.begin(), policy.end());
    if (settings.registriesDPath) {
        all.insert(all.end(), {"--registries.d", *settings.registriesDPath});
    }
    if (settings.platform) {
        const auto options = platformOptions(*settings.platform);
        all.insert(all.end(), options.begin(), options.end());
    }
    all.insert(all.end(), arguments.begin(), arguments.end());
    Command result{.path = settings.path, .args = std::move(all)};
    if (runtimeDirectoryIsClosed()) {
        result.environment = environmentWithRuntimeDirectory(temporary);
    }
    return result;
}

ToolResult Skopeo::inspectRaw(const ImageSource& source) const {
    std::vector<std::string> arguments{"inspect", "--raw"};
    if (source.authenticationFile) {
        arguments.insert(arguments.end(), {"--authfile", *source.authenticationFile});
    }
    arguments.push_back(source.name);
    TransferMonitor monitor({.server = source.server, .image = source.image, .timings = settings.timings});
    return runTool(command(std::move(arguments)), ToolStreams::captureBoth, "skopeo", monitor.watch());
}

ToolResult Skopeo::copy(const ImageSource& source, const std::string& layout, std::uint64_t missingBytes) const {
    // The policy has judged them by then, and a layout has no place for them.
    std::vector<std::string> arguments{"copy", "--remove-signatures"};
    if (settings.quiet) {
        arguments.emplace_back("--quiet");
    }
    if (source.authenticationFile) {
        arguments.insert(arguments.end(), {"--src-authfile", *source.authenticationFile});
    }
    if (source.keepUncompressed) {
        // They are read once and thrown away: compressing them, which is the default, would be most of the work.
        arguments.emplace_back("--dest-oci-accept-uncompressed-layers");
    }
    // A colon in the path would separate path and name, so that skopeo gets the directory by descriptor.
    const auto directory = openFile(layout, O_PATH | O_DIRECTORY);
    const bool byDescriptor = layout.find(':') != std::string::npos;
    arguments.push_back(source.name);
    arguments.push_back(cat("oci:", byDescriptor ? cat("/proc/self/fd/", directory.get()) : layout, ":sarus-oci-image"));
    auto copyCommand = command(std::move(arguments));
    if (byDescriptor) {
        copyCommand.keepFds.push_back(directory.get());
    }
    if (source.descriptor >= 0) {
        copyCommand.keepFds.push_back(source.descriptor);
    }
    const bool lines = !settings.quiet && ::isatty(STDOUT_FILENO) == 0;
    TransferMonitor monitor({.label = !lines                  ? ""
                                      : source.server.empty() ? "Copying layers"
                                                              : "Downloading layers",
                             .directory = layout,
                             .totalBytes = missingBytes,
                             .server = source.server,
                             .image = source.image,
                             .timings = settings.timings});
    return runTool(copyCommand, ToolStreams::captureErrors, "skopeo", monitor.watch());
}

namespace {

void appendUtf8(std::string& out, std::uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        code = 0xFFFD;
    }
    const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xC0 | (code >> 6));
        byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        byte(0xE0 | (code >> 12));
        byte(0x80 | ((code >> 6) & 0x3F));
        byte(0x80 | (code & 0x3F));
    } else {
        byte(0xF0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 0x3F));
        byte(0x80 | ((code >> 6) & 0x3F));
        byte(0x80 | (code & 0x3F));
    }
}

/// Appends what the escape sequence after a backslash at the start of `text` stands for, and returns its length.
std::size_t appendEscape(std::string& out, std::string_view text) {
    const char kind = text.front();
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) {
        constexpr std::string_view controls = "abfnrtv";
        out += controls.find(kind) != std::string_view::npos ? ' ' : kind;
        return 1;
    }
    std::uint32_t value = 0;
    const auto* const begin = text.data() + 1;
    const auto* const end = begin + std::min(digits, text.size() - 1);
    if (const auto parsed = std::from_chars(begin, end, value, 16); parsed.ec != std::errc() || parsed.ptr != begin + digits) {
        out += kind;
        return 1;
    }
    if (kind == 'x') {
        out += static_cast<char>(value);
    } else {
        appendUtf8(out, value);
    }
    return 1 + digits;
}

/// Blanks for control characters, and one for several.
std::string inOneLine(std::string_view text) {
    std::string line;
    for (const char character : text) {
        const auto code = static_cast<unsigned char>(character);
        const bool blank = code <= 0x20 || code == 0x7F;
        if (!blank) {
            line += character;
        } else if (!line.empty() && line.back() != ' ') {
            line += ' ';
        }
    }
    return std::string(trim(line));
}

/// The value of `msg` in a line of skopeo's log, whose values are quoted as Go does it (strconv.Quote) where that is needed; or
/// the line itself.
std::string messageOf(std::string_view line) {
    constexpr std::string_view marker = "msg=";
    const auto found = line.find(marker);
    if (found == std::string_view::npos || line.find("level=") == std::string_view::npos) {
        return inOneLine(line);
    }
    line.remove_prefix(found + marker.size());
    if (line.empty() || line.front() != '"') {
        return inOneLine(line.substr(0, line.find(' ')));
    }
    std::string message;
    for (std::size_t i = 1; i < line.size() && line[i] != '"'; ++i) {
        if (line[i] == '\\' && i + 1 < line.size()) {
            i += appendEscape(message, line.substr(i + 1));
        } else {
            message += line[i];
        }
    }
    return inOneLine(message);
}

}  // namespace

std::string skopeoMessage(std::string_view errors) {
    std::string last;
    for (const auto& line : split(errors, '\n')) {
        const bool fatal = line.find("level=fatal") != std::string::npos || line.find("level=error") != std::string::npos;
        if (!trim(line).empty() && (last.empty() || fatal || last.find("level=") == std::string::npos)) {
            last = line;
        }
    }
    return printable(messageOf(last));
}

namespace {

struct Symptom {
    std::string_view text;
    std::string_view meaning;
};

constexpr Symptom unreachable[] = {
    {"connection refused", "connection refused"},
    {"no such host", "unknown host name"},
    {"server misbehaving", "the name server does not answer"},
    {"Temporary failure in name resolution", "the name server does not answer"},
    {"network is unreachable", "no network"},
    {"no route to host", "no route"},
    {"i/o timeout", "no answer"},
    {"TLS handshake timeout", "no answer"},
    {"connection reset by peer", "the connection was closed"},
    {"proxyconnect", "the proxy does not answer"},
};

constexpr Symptom knownFailures[] = {
    {"server gave HTTP response to HTTPS client",
     "The registry does not use TLS. If you trust it, declare it as insecure in ~/.config/containers/registries.conf.d "
     "(see containers-registries.conf(5))."},
    {"x509:",
     "The certificate of the registry is not trusted. Its authority can be added in /etc/containers/certs.d or the system's "
     "store."},
    {"manifest unknown", "The registry has no image with this name and tag."},
    {"name unknown", "The registry has no repository with this name."},
    {"too many requests", "The registry refuses more requests for some time. A login may raise the limit (--login option)."},
    {"toomanyrequests", "The registry refuses more requests for some time. A login may raise the limit (--login option)."},
    {"Source image rejected", "The signature policy (containers-policy.json) does not accept this image."},
    {"no space left on device", "There is no space left on the disk of the cache or of the temporary directory."},
    {"disk quota exceeded", "Your disk quota is exceeded."},
    {"Error fetching blob: invalid status code from registry 404",
     "The registry does not have all of the image: a layer is missing there. The image has to be pushed again."},
    {"Digest did not match",
     "What the registry sent is not what the image's manifest says (other content, or not all of it). It was not stored. Try "
     "again."},
    {"unexpected EOF",
     "The registry closed the connection before everything was sent. Try again: layers which have arrived are not downloaded "
     "again."},
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> explainPullFailure(std::string_view errors, const std::string& server, bool credentialsGiven) {
    const bool wrongCredentials = contains(errors, "invalid username/password:");
    const bool refused =
        wrongCredentials || contains(errors, "unauthorized:") || contains(errors, "requested access to the resource is denied");
    if (refused && contains(errors, "reading blob")) {
        return {"The registry refused to send a layer, although it had sent the manifest: a login may have run out. Try again."};
    }
    if (wrongCredentials && credentialsGiven) {
        return {"Unable to retrieve auth token: invalid username or password provided."};
    }
    constexpr std::string_view badCredentialFile = "getting username and password: ";
    if (const auto message = skopeoMessage(errors); contains(message, badCredentialFile)) {
        auto cause = message.substr(message.find(badCredentialFile) + badCredentialFile.size());
        if (const auto item = cause.find("error occurred: * "); item != std::string::npos) {
            cause.erase(0, item + std::string_view("error occurred: * ").size());
        }
        return {cat("The stored credentials cannot be read: ", cause)};
    }
    std::vector<std::string> lines;
    if (contains(errors, "reading manifest")) {
        lines.emplace_back("Error reading manifest from registry.");
    }
    if (refused) {
        lines.insert(lines.end(),
                     {"The image may be private or not present in the remote registry.",
                      "Did you perform a login with the proper credentials?", "See 'sarus help pull' (--login option)"});
        return lines;
    }
    for (const auto& symptom : unreachable) {
        if (contains(errors, symptom.text)) {
            lines.push_back(cat("The registry '", server, "' cannot be reached: ", symptom.meaning,
                                ". Check the server's name and the proxy settings (HTTPS_PROXY, NO_PROXY)."));
            return lines;
        }
    }
    for (const auto& failure : knownFailures) {
        if (contains(errors, failure.text)) {
            lines.emplace_back(failure.meaning);
            return lines;
        }
    }
    lines.push_back(skopeoMessage(errors));
    return lines;
}

}  // namespace sarus::image
