#include "image/skopeo.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
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
    return runTool(command(std::move(arguments)), ToolStreams::captureBoth, "skopeo");
}

ToolResult Skopeo::copy(const ImageSource& source, const std::string& layout) const {
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
    return runTool(copyCommand, ToolStreams::captureErrors, "skopeo");
}

std::string skopeoMessage(std::string_view errors) {
    std::string last;
    for (const auto& line : split(errors, '\n')) {
        const bool fatal = line.find("level=fatal") != std::string::npos || line.find("level=error") != std::string::npos;
        if (!trim(line).empty() && (last.empty() || fatal || last.find("level=") == std::string::npos)) {
            last = line;
        }
    }
    constexpr std::string_view marker = "msg=\"";
    const auto begin = last.find(marker);
    if (begin == std::string::npos) {
        return printable(trim(last));
    }
    std::string message;
    for (std::size_t i = begin + marker.size(); i < last.size() && last[i] != '"'; ++i) {
        if (last[i] == '\\' && i + 1 < last.size()) {
            ++i;
            message += last[i] == 'n' ? ' ' : last[i];
        } else {
            message += last[i];
        }
    }
    return printable(message);
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
    {"toomanyrequests", "The registry refuses more requests for some time. A login may raise the limit (--login option)."},
    {"Source image rejected", "The signature policy (containers-policy.json) does not accept this image."},
    {"no space left on device", "There is no space left on the disk of the cache or of the temporary directory."},
    {"disk quota exceeded", "Your disk quota is exceeded."},
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

std::vector<std::string> explainPullFailure(std::string_view errors, const std::string& server) {
    if (contains(errors, "invalid username/password:")) {
        return {"Unable to retrieve auth token: invalid username or password provided."};
    }
    std::vector<std::string> lines;
    if (contains(errors, "reading manifest")) {
        lines.emplace_back("Error reading manifest from registry.");
    }
    if (contains(errors, "unauthorized:") || contains(errors, "requested access to the resource is denied")) {
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
