#include "image/transfer/pull_failure.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace sarus::image {

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

/// Appends the meaning of the escape sequence that follows a backslash, at the start of `text`, and returns
/// its length.
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
    if (const auto parsed = std::from_chars(begin, end, value, 16);
        parsed.ec != std::errc() || parsed.ptr != begin + digits) {
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

/// Replaces runs of control characters and blanks by one blank.
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

/// The value of `msg` in a line of skopeo's log, whose values are quoted as in Go (strconv.Quote) if
/// necessary; otherwise the line itself.
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

/// The cause of a crash of Go's runtime, whose last lines are addresses; "" if it did not crash.
std::string_view causeOfCrash(std::string_view errors) {
    constexpr std::pair<std::string_view, std::string_view> crashes[] = {
        {"fatal error: ", "\nruntime stack:"}, {"runtime/cgo: ", "\nSIGABRT: abort"}};
    for (const auto& [start, trace] : crashes) {
        const auto found = errors.starts_with(start) ? 0 : errors.find(cat('\n', start));
        if (found != std::string_view::npos && errors.find(trace, found) != std::string_view::npos) {
            const auto cause = errors.substr(errors.find(start, found) + start.size());
            return cause.substr(0, cause.find('\n'));
        }
    }
    return {};
}

}  // namespace

std::string skopeoMessage(std::string_view errors) {
    if (const auto cause = causeOfCrash(errors); !cause.empty()) {
        return cat("skopeo crashed: ", printable(cause),
                   ". Limits of memory or processes may be too low for it (ulimit -v, ulimit -u)");
    }
    std::string last;
    for (const auto& line : split(errors, '\n')) {
        const bool fatal =
            line.find("level=fatal") != std::string::npos || line.find("level=error") != std::string::npos;
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

constexpr std::string_view wrongHostName =
    "The certificate of the registry is for another host name. Check the server's name in the image "
    "reference.";

constexpr std::array<std::string_view, 2> withoutTls{"server gave HTTP response to HTTPS client",
                                                     "first record does not look like a TLS handshake"};

constexpr Symptom knownFailures[] = {
    {"Client sent an HTTP request to an HTTPS server",
     "The registry uses TLS, but was asked without it. Remove 'insecure = true' for it from "
     "~/.config/containers/registries.conf.d."},
    {"x509: certificate has expired",
     "The certificate of the registry has expired, or is not valid yet. Check the clock of this machine; "
     "otherwise the "
     "registry's administrator must renew it."},
    {"x509: certificate is valid for", wrongHostName},
    {"x509: certificate is not valid for any names", wrongHostName},
    {"x509: cannot validate certificate for", wrongHostName},
    {"x509: certificate relies on legacy Common Name", wrongHostName},
    {"x509:",
     "The certificate of the registry comes from an authority that this machine does not trust. Add the "
     "authority's certificate "
     "in /etc/containers/certs.d or to the system's store."},
    {"Proxy Authentication Required",
     "The proxy requires a login. Write it into the proxy's address: "
     "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT."},
    {overloaded,
     "The registry is overloaded or under maintenance (503 Service Unavailable). Try again later."},
    {"manifest unknown", "The registry has no image with this name and tag."},
    {"name unknown", "The registry has no repository with this name."},
    {"too many requests",
     "The registry refuses more requests for some time. A login may raise the limit (--login option)."},
    {"toomanyrequests",
     "The registry refuses more requests for some time. A login may raise the limit (--login option)."},
    {"Source image rejected", "The signature policy (containers-policy.json) does not accept this image."},
    {"no space left on device",
     "There is no space left on the disk of the cache or of the temporary directory."},
    {"disk quota exceeded", "Your disk quota is exceeded."},
    {"Error fetching blob: invalid status code from registry 404",
     "The registry does not have all of the image: a layer is missing there. The image has to be pushed "
     "again."},
    {"Digest did not match",
     "What the registry sent is not what the image's manifest says (other content, or not all of it). It was "
     "not stored. Try "
     "again."},
    {"unexpected EOF",
     "The registry closed the connection before everything was sent. Try again: layers that have arrived "
     "are not downloaded "
     "again."},
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::vector<std::string> explainRegistryFailure(std::string_view errors, const std::string& server,
                                                bool credentialsGiven) {
    const bool wrongCredentials = contains(errors, "invalid username/password:");
    const bool refused = wrongCredentials || contains(errors, "unauthorized:") ||
                         contains(errors, "requested access to the resource is denied");
    if (refused && contains(errors, "reading blob")) {
        return {
            "The registry refused to send a layer, although it had sent the manifest: a login may have run "
            "out. Try again."};
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
    if (refused && credentialsGiven) {
        lines.insert(lines.end(), {"The registry refused this user name or password.",
                                   "If they are right, they give no access to this image."});
        return lines;
    }
    if (refused) {
        lines.insert(lines.end(), {"The image may be private or not present in the remote registry.",
                                   "Did you perform a login with the proper credentials?",
                                   "See 'sarus help pull' (--login option)"});
        return lines;
    }
    for (const auto& symptom : unreachable) {
        if (contains(errors, symptom.text)) {
            lines.push_back(cat("The registry '", server, "' cannot be reached: ", symptom.meaning,
                                ". Check the server's name and the proxy settings (HTTPS_PROXY, NO_PROXY)."));
            return lines;
        }
    }
    if (std::any_of(withoutTls.begin(), withoutTls.end(),
                    [&](std::string_view symptom) { return contains(errors, symptom); })) {
        lines.insert(
            lines.end(),
            {cat("The registry does not use TLS. If you trust it, declare it as insecure: write these "
                 "lines to ~/.config/containers/registries.conf.d/",
                 printable(server), ".conf"),
             "[[registry]]", cat("location = \"", printable(server), '"'), "insecure = true"});
        return lines;
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

/// The answers of the mirrors of containers-registries.conf(5), if any were tried before the registry, and
/// the rest.
struct MirrorFailures {
    std::vector<std::string> lines{};
    std::string registry;  ///< the errors without those of the mirrors
};

MirrorFailures separateMirrors(std::string_view errors) {
    constexpr std::string_view begin = "(Mirrors also failed: [";
    constexpr std::string_view end = "]): ";
    MirrorFailures result{.registry = std::string(errors)};
    const auto first = result.registry.find(begin);
    const auto last = result.registry.find(end, first);
    if (first == std::string::npos || last == std::string::npos) {
        return result;
    }
    const auto text = result.registry.substr(first + begin.size(), last - first - begin.size());
    result.registry.erase(first, last + end.size() - first);
    // Each is "[REFERENCE: ERROR]", separated by a line break, quoted as in Go.
    for (std::size_t start = 0; start < text.size();) {
        const auto next = std::min(text.find("]\\n[", start), text.size());
        const auto mirror = text.substr(start, next - start);
        const auto colon = mirror.find(": ");
        result.lines.push_back(
            cat("The mirror '", printable(mirror.substr(0, colon)), "' failed, too: ",
                printable(messageOf(colon == std::string::npos ? "" : mirror.substr(colon + 2)))));
        start = next + std::string_view("]\\n[").size();
    }
    return result;
}

}  // namespace

std::vector<std::string> explainPullFailure(std::string_view allErrors, const std::string& server,
                                            bool credentialsGiven) {
    auto [mirrors, errors] = separateMirrors(allErrors);
    auto lines = explainRegistryFailure(errors, server, credentialsGiven);
    lines.insert(lines.end(), mirrors.begin(), mirrors.end());
    return lines;
}

}  // namespace sarus::image
