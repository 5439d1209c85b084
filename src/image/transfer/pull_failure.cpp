#include "image/transfer/pull_failure.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/host_variable.hpp"
#include "base/text.hpp"
#include "image/transfer/skopeo_message.hpp"

namespace sarus::image {

namespace {

struct Symptom {
    std::string_view text;
    std::string_view meaning;
};

// skopeo gives the same exit status for nearly all failures, and its image proxy the same texts. So these
// tables list the texts of its versions 1.9 to 1.22. A test compares them with each version
// (tests/integration/test_newer_skopeo.py).

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

constexpr std::string_view wrongContent =
    "What the registry sent is not what the image's manifest says (other content, or not all of it). It was "
    "not stored. Try again.";

constexpr std::string_view cutConnection = "unexpected EOF";

constexpr Symptom knownFailures[] = {
    {"Client sent an HTTP request to an HTTPS server",
     "The registry uses TLS, but was asked without it. Remove 'insecure = true' for it from "
     "~/.config/containers/registries.conf.d."},
    {"x509: certificate has expired",
     "The certificate of the registry has expired, or is not valid yet. Check the clock of this machine; "
     "otherwise the registry's administrator must renew it."},
    {"x509: certificate is valid for", wrongHostName},
    {"x509: certificate is not valid for any names", wrongHostName},
    {"x509: cannot validate certificate for", wrongHostName},
    {"x509: certificate relies on legacy Common Name", wrongHostName},
    {"x509:",
     "The certificate of the registry comes from an authority that this machine does not trust. Add the "
     "authority's certificate in /etc/containers/certs.d or to the system's store."},
    {"no space left on device",
     "There is no space left on the disk of the cache or of the temporary directory."},
    {"disk quota exceeded", "Your disk quota is exceeded."},
    {"Digest did not match", wrongContent},
    {"manifest does not match provided manifest digest", wrongContent},
    {cutConnection,
     "The registry closed the connection before everything was sent. Try again: layers that have arrived "
     "are not downloaded again."},
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

template <std::size_t size>
const Symptom* findSymptom(const Symptom (&table)[size], std::string_view message) {
    const auto* const found = std::find_if(std::begin(table), std::end(table), [&](const Symptom& symptom) {
        return contains(message, symptom.text);
    });
    return found == std::end(table) ? nullptr : found;
}

enum class Place { unknown, tokens, manifest, blob };

/// What was asked for when an error came.
constexpr std::pair<std::string_view, Place> places[] = {
    {"reading blob", Place::blob},
    {"fetching blob", Place::blob},
    {"unable to retrieve auth token", Place::tokens},
    {"Requesting bearer token", Place::tokens},
    {"decoding bearer token", Place::tokens},
    {"reading manifest", Place::manifest},
};

Place placeOf(std::string_view message) {
    const auto* const found = std::find_if(std::begin(places), std::end(places),
                                           [&](const auto& row) { return contains(message, row.first); });
    return found == std::end(places) ? Place::unknown : found->second;
}

/// What stands in front of the status of an answer.
constexpr std::string_view statusMarks[] = {
    "invalid status code from registry ",  // "503 (Service Unavailable)"; the only one for layers in 1.9
    "received unexpected HTTP status: ",   // "503 Service Unavailable"
    "StatusCode: ",                        // "403, " and the beginning of an answer that is no JSON
};

/// Errors that a registry gives with a name (OCI distribution specification, "Error Codes"): skopeo shows
/// that name, and the text if it differs.
constexpr std::pair<std::string_view, int> statusNames[] = {
    {": toomanyrequests", 429},
    {": too many requests", 429},
    {": denied", 403},
    {": requested access to the resource is denied", 403},
    {": unauthorized", 401},
    {": authentication required", 401},
    {": manifest unknown", 404},
    {": name unknown", 404},
    {": blob unknown", 404},
    {": unknown: ", 400},  // a name that skopeo does not know
    {": Proxy Authentication Required", 407},
};

/// Beginnings of web pages, as far as skopeo quotes them.
constexpr std::string_view pageMarks[] = {"<html",
                                          "<HTML",
                                          "<!doctype",
                                          "<!DOCTYPE",
                                          "<!Doctype",
                                          "<head",
                                          "invalid character '<' looking for beginning of value"};

struct Reason {
    int status;
    std::string_view text;
};

/// As RFC 9110 names them; a proxy that refuses CONNECT is quoted with the text alone.
constexpr Reason reasons[] = {
    {400, "Bad Request"},         {401, "Unauthorized"},          {403, "Forbidden"},
    {404, "Not Found"},           {405, "Method Not Allowed"},    {407, "Proxy Authentication Required"},
    {429, "Too Many Requests"},   {500, "Internal Server Error"}, {502, "Bad Gateway"},
    {503, "Service Unavailable"}, {504, "Gateway Timeout"},
};

/// An answer in HTTP, as skopeo reports it.
struct Answer {
    int status = 0;  ///< 0: none, or one of success
    Place place = Place::unknown;
    bool isPage = false;
    bool isProxys = false;  ///< the proxy refuses to connect
};

int statusIn(std::string_view message) {
    for (const auto mark : statusMarks) {
        if (const auto found = message.find(mark); found != std::string_view::npos) {
            const auto digits = message.substr(found + mark.size(), 3);
            return static_cast<int>(parseNumber(digits).value_or(0));
        }
    }
    const auto text = cat(": ", message);  // words of an image's name have no blank before them
    for (const auto& [name, status] : statusNames) {
        if (contains(text, name)) {
            return status;
        }
    }
    return 0;
}

Answer answerIn(std::string_view message) {
    Answer answer{.status = statusIn(message), .place = placeOf(message)};
    answer.isPage = std::any_of(std::begin(pageMarks), std::end(pageMarks),
                                [&](std::string_view mark) { return contains(message, mark); });
    for (const auto& [status, text] : reasons) {
        if (contains(message, "Get \"") && message.ends_with(cat("\": ", text))) {
            answer.status = status;
            answer.isProxys = true;
        }
    }
    return answer;
}

/// "503 (Service Unavailable)".
std::string statusText(int status) {
    for (const auto& [number, text] : reasons) {
        if (number == status) {
            return cat(status, " (", text, ')');
        }
    }
    return cat(status);
}

/// Whether an answer comes from no registry: another server's page, or a document that is none of the
/// protocol.
bool isForeign(const Answer& answer, std::string_view message) {
    return contains(message, answerIsNoManifest) || contains(message, "decoding bearer token") ||
           message == "unexpected end of JSON input" ||
           (answer.isPage && (answer.status == 0 || answer.status == 404)) ||
           (answer.status == 404 && contains(message, "pinging container registry"));
}

std::string foreignAnswer(const std::string& server) {
    return cat(
        "The answer does not come from a container registry: a login portal, a proxy or another web "
        "server answers for '",
        printable(server), "'. Check the server's name and the proxy settings (HTTPS_PROXY, NO_PROXY).");
}

/// 401 and 403.
std::vector<std::string> explainRefusal(const Answer& answer, bool credentialsGiven,
                                        const LoginAdvice& advice) {
    if (answer.place == Place::blob) {
        return {
            "The registry refused to send a layer, although it had sent the manifest: a login may have run "
            "out. Try again."};
    }
    if (credentialsGiven && answer.place == Place::tokens) {
        return {"Unable to retrieve auth token: invalid username or password provided."};
    }
    auto lines = credentialsGiven
                     ? std::vector<std::string>{"The registry refused this user name or password.",
                                                "If they are right, they give no access to this image."}
                     : std::vector<std::string>{
                           "The image may be private or not present in the remote registry.",
                           "Did you perform a login with the proper credentials?", advice.sentence};
    if (answer.isPage) {
        lines.emplace_back("The answer was a web page: a proxy or a login portal may have sent it.");
    }
    return lines;
}

/// 407, or 401 of a proxy.
std::string explainProxyLogin() {
    for (const auto* name : {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"}) {
        if (contains(hostVariable(name).value_or(""), "@")) {
            return cat("The proxy refused the user name or password in ", name, '.');
        }
    }
    return "The proxy requires a login. Write it into the proxy's address: "
           "HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT.";
}

std::string explainMissing(const Answer& answer, std::string_view message) {
    return answer.place == Place::blob
               ? "The registry does not have all of the image: a layer is missing there. The image has to be "
                 "pushed again."
           : contains(message, "manifest unknown") ? "The registry has no image with this name and tag."
           : contains(message, "name unknown")     ? "The registry has no repository with this name."
                                                   : "The registry has no image with this name.";
}

/// Answers of the HTTP status 400 and above.
std::vector<std::string> explainAnswer(const Answer& answer, const std::string& message,
                                       bool credentialsGiven, const LoginAdvice& advice) {
    const std::string_view sender = answer.isProxys                 ? "The proxy"
                                    : answer.place == Place::tokens ? "The registry's token server"
                                                                    : "The registry";
    if (answer.status == 407 || (answer.isProxys && answer.status == 401)) {
        return {explainProxyLogin()};
    }
    if (answer.isProxys && answer.status < 500) {
        return {cat("The proxy refuses to connect to the registry: ", statusText(answer.status),
                    ". Check the proxy settings (HTTPS_PROXY, NO_PROXY).")};
    }
    switch (answer.status) {
        case 401:
        case 403:
            return explainRefusal(answer, credentialsGiven, advice);
        case 404:
            if (answer.place == Place::tokens) {
                break;
            }
            return {explainMissing(answer, message)};
        case 429:
            return {cat("The registry refuses more requests for some time. A login may raise the limit (",
                        advice.brief, ").")};
        case 503:
            return {cat(sender,
                        " is overloaded or under maintenance (503 Service Unavailable). Try again later.")};
        default:
            break;
    }
    if (answer.status >= 500) {
        return {cat(sender, " failed: ", statusText(answer.status), ". Try again later.")};
    }
    constexpr std::string_view unnamed = ": unknown: ";
    const auto text = message.find(unnamed);
    if (answer.status != 400 || text == std::string::npos) {
        return {cat(sender, " refused the request: ", message)};
    }
    auto lines = explainRefusal(answer, credentialsGiven, advice);
    lines.push_back(cat("The registry says: ", message.substr(text + unnamed.size())));
    return lines;
}

/// The name of a credential helper (docker-credential-helpers protocol) in a message; "" if there is none.
std::string credentialHelperIn(const std::string& message) {
    const auto begin = message.find("docker-credential-");
    return begin == std::string::npos ? ""
                                      : message.substr(begin, message.find_first_of("\"': ", begin) - begin);
}

/// Failures before the registry is asked.
std::string explainCredentials(std::string cause) {
    constexpr std::string_view item = "error occurred: * ";  // until 1.11
    if (const auto found = cause.find(item); found != std::string::npos) {
        cause.erase(0, found + item.size());
    }
    constexpr std::string_view helperFailed = "error getting credentials - err: ";
    if (!contains(cause, helperFailed)) {
        return cat("The stored credentials cannot be read: ", cause);
    }
    const bool isMissing =
        contains(cause, "executable file not found") || contains(cause, "executable in current directory");
    if (const auto helper = credentialHelperIn(cause); isMissing && !helper.empty()) {
        return cat(
            "The credential helper '", helper,
            "' is not installed, or not in PATH. Install it, or remove it from credHelpers and credsStore "
            "in your credential files (~/.docker/config.json).");
    }
    return cat("The credential helper failed: ", cause.substr(cause.find(helperFailed) + helperFailed.size()),
               ". Check credHelpers and credsStore in your credential files (~/.docker/config.json).");
}

std::vector<std::string> explainTls(const std::string& server) {
    return {cat("The registry does not use TLS. If you trust it, declare it as insecure: write these "
                "lines to ~/.config/containers/registries.conf.d/",
                printable(server), ".conf"),
            "[[registry]]", cat("location = \"", printable(server), '"'), "insecure = true"};
}

std::vector<std::string> explainRegistryFailure(const std::string& message, const std::string& server,
                                                bool credentialsGiven, const std::string& policyFile,
                                                const LoginAdvice& advice) {
    constexpr std::string_view badCredentialFile = "getting username and password: ";
    if (const auto found = message.find(badCredentialFile); found != std::string::npos) {
        return {explainCredentials(message.substr(found + badCredentialFile.size()))};
    }
    if (contains(message, "Source image rejected")) {
        return {cat("The signature policy ",
                    policyFile.empty() ? "(containers-policy.json)" : printable(policyFile),
                    " does not accept this image.")};
    }
    const auto answer = answerIn(message);
    std::vector<std::string> lines;
    if (answer.place == Place::manifest) {
        lines.emplace_back("Error reading manifest from registry.");
    }
    const auto end = [&](std::vector<std::string> more) {
        lines.insert(lines.end(), more.begin(), more.end());
        return lines;
    };
    if (isForeign(answer, message)) {
        return end({foreignAnswer(server)});
    }
    if (const auto* symptom = findSymptom(unreachable, message)) {
        return end({cat("The registry '", server, "' cannot be reached: ", symptom->meaning,
                        ". Check the server's name and the proxy settings (HTTPS_PROXY, NO_PROXY).")});
    }
    if (std::any_of(withoutTls.begin(), withoutTls.end(),
                    [&](std::string_view symptom) { return contains(message, symptom); })) {
        return end(explainTls(server));
    }
    if (const auto* failure = findSymptom(knownFailures, message)) {
        return end({std::string(failure->meaning)});
    }
    return end(answer.status >= 400 ? explainAnswer(answer, message, credentialsGiven, advice)
                                    : std::vector{message});
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
                printable(messageOfLine(colon == std::string::npos ? "" : mirror.substr(colon + 2)))));
        start = next + std::string_view("]\\n[").size();
    }
    return result;
}

}  // namespace

std::vector<std::string> explainPullFailure(std::string_view allErrors, const std::string& server,
                                            bool credentialsGiven, const std::string& policyFile,
                                            const LoginAdvice& advice) {
    auto [mirrors, errors] = separateMirrors(allErrors);
    auto lines = explainRegistryFailure(skopeoMessage(errors), server, credentialsGiven, policyFile, advice);
    lines.insert(lines.end(), mirrors.begin(), mirrors.end());
    return lines;
}

bool isRegistrysAnswer(std::string_view errors) {
    const auto message = skopeoMessage(errors);
    const auto answer = answerIn(message);
    return answer.status >= 400 && answer.status < 500 && answer.status != 407 && !answer.isProxys &&
           !isForeign(answer, message);
}

std::optional<PassingFailure> passingFailure(std::string_view errors) {
    const auto message = skopeoMessage(errors);
    const auto answer = answerIn(message);
    constexpr std::array passing{429, 500, 502, 503, 504};
    if (std::find(passing.begin(), passing.end(), answer.status) != passing.end()) {
        return PassingFailure{statusText(answer.status), answer.status == 429};
    }
    const bool isCut = contains(message, cutConnection) || contains(message, "connection reset by peer") ||
                       message.ends_with(": EOF");
    return isCut ? std::optional(PassingFailure{"closed connection"}) : std::nullopt;
}

std::optional<std::chrono::seconds> requestedPause(std::string_view log) {
    constexpr std::string_view mark = "Detected 'Retry-After' header \\\"";
    const auto found = log.rfind(mark);
    if (found == std::string_view::npos) {
        return std::nullopt;
    }
    const auto value = log.substr(found + mark.size());
    const std::string text(value.substr(0, value.find('\\')));
    if (const auto seconds = parseNumber(text)) {
        return std::chrono::seconds(std::min<std::uint64_t>(*seconds, INT32_MAX));
    }
    struct tm date {};
    const char* const end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
    return end != nullptr && *end == '\0'
               ? std::optional(std::chrono::seconds(::timegm(&date) - ::time(nullptr)))
               : std::nullopt;
}

}  // namespace sarus::image
