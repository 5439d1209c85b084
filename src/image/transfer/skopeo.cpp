#include "image/transfer/skopeo.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "image/transfer/pull_failure.hpp"

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
    throw Error(
        "No containers policy file found",
        cat("Create ~/.config/containers/policy.json or ", systemPolicy,
            " (Debian package golang-github-containers-common), or set containersPolicy in sarus.json"));
}

namespace {

/// Without XDG_RUNTIME_DIR skopeo looks for credentials below /run/containers, and fails if only root may
/// read that.
bool runtimeDirectoryIsClosed() {
    if (nonEmptyHostVariable("XDG_RUNTIME_DIR")) {
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
    policy = policyOptions(settings.policy, hostVariable("HOME").value_or(""));
}

Command Skopeo::command(const ImageSource& source, std::vector<std::string> arguments) const {
    std::vector<std::string> all{"skopeo", "--tmpdir", temporary};
    // Only there it says for how long a registry wants not to be asked.
    if (logLevel() == LogLevel::debug || !source.server.empty()) {
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

namespace {

/// Pauses between attempts, in seconds.
constexpr int pauses[] = {1, 2, 4, 8};

/// Runs a tool that contacts a registry. Tries again while the registry's failure may pass, as long as the
/// time spent on waiting stays below that of all pauses and of the registry's timeout.
ToolResult runWithRetry(const Command& command, ToolStreams streams, TransferMonitor& monitor,
                        const RegistryTimings& timings) {
    using std::chrono::steady_clock;
    const std::chrono::duration<double> bound(
        std::min(static_cast<double>(timings.timeoutMs) / 1000,
                 1.0 * std::reduce(std::begin(pauses), std::end(pauses))));
    std::chrono::duration<double> waited{};
    for (const int seconds : pauses) {
        const auto begin = steady_clock::now();
        auto result = runTool(command, streams, "skopeo", monitor.watch());
        const auto failure = result.status.ok() ? std::nullopt : passingFailure(result.err);
        if (failure && failure->tooManyRequests) {
            waited += steady_clock::now() - begin;  // skopeo has waited itself
        }
        waited += std::chrono::seconds(seconds);
        if (!failure || waited > bound) {
            return result;
        }
        logInfo("ImageManager",
                cat("The registry fails (", failure->cause, "); trying again in ", seconds, " s"));
        const timespec pause{.tv_sec = seconds, .tv_nsec = 0};
        ::nanosleep(&pause, nullptr);
        monitor.skipPause();
    }
    return runTool(command, streams, "skopeo", monitor.watch());
}

}  // namespace

ToolResult Skopeo::inspectRaw(const ImageSource& source) const {
    std::vector<std::string> arguments{"inspect", "--raw"};
    if (source.authenticationFile) {
        arguments.insert(arguments.end(), {"--authfile", *source.authenticationFile});
    }
    arguments.push_back(source.name);
    TransferMonitor monitor({.server = source.server, .image = source.image, .timings = settings.timings});
    auto result = runWithRetry(command(source, std::move(arguments)), ToolStreams::captureBoth, monitor,
                               settings.timings);
    if (result.status.ok() && !source.server.empty() && !trim(result.out).starts_with('{')) {
        return {.status = {.code = 1}, .out = {}, .err = std::string(answerIsNoManifest)};
    }
    return result;
}

ToolResult Skopeo::copy(const ImageSource& source, const std::string& layout,
                        std::uint64_t missingBytes) const {
    return copyTo(source, "oci:", layout, ":sarus-oci-image", missingBytes);
}

ToolResult Skopeo::copyUnchanged(const ImageSource& source, const std::string& directory) const {
    return copyTo(source, "dir:", directory, "", 0);
}

ToolResult Skopeo::copyTo(const ImageSource& source, std::string_view transport, const std::string& directory,
                          std::string_view name, std::uint64_t missingBytes) const {
    // The policy has already checked them, and a layout cannot store them.
    std::vector<std::string> arguments{"copy", "--remove-signatures"};
    // On a terminal, our own line shows the progress of both download and conversion.
    if (settings.quiet || ::isatty(STDOUT_FILENO) == 1) {
        arguments.emplace_back("--quiet");
    }
    if (source.authenticationFile) {
        arguments.insert(arguments.end(), {"--src-authfile", *source.authenticationFile});
    }
    if (source.keepUncompressed) {
        // They are read once and deleted: compressing them, which is the default, would be most of the work.
        arguments.emplace_back("--dest-oci-accept-uncompressed-layers");
    }
    // A colon in the path would separate path and name, so skopeo gets the directory by descriptor.
    const auto target = openFile(directory, O_PATH | O_DIRECTORY);
    const bool byDescriptor = directory.find(':') != std::string::npos;
    arguments.push_back(source.name);
    arguments.push_back(cat(transport, byDescriptor ? cat("/proc/self/fd/", target.get()) : directory, name));
    auto copyCommand = command(source, std::move(arguments));
    if (byDescriptor) {
        copyCommand.keepFds.push_back(target.get());
    }
    if (source.descriptor >= 0) {
        copyCommand.keepFds.push_back(source.descriptor);
    }
    TransferMonitor monitor(transfer(source, directory, missingBytes));
    return runWithRetry(copyCommand, ToolStreams::captureErrors, monitor, settings.timings);
}

Transfer Skopeo::transfer(const ImageSource& source, const std::string& directory,
                          std::uint64_t missingBytes) const {
    return {.label = settings.quiet          ? ""
                     : source.server.empty() ? "Copying layers"
                                             : "Downloading layers",
            .directory = directory,
            .totalBytes = missingBytes,
            .server = source.server,
            .image = source.image,
            .timings = settings.timings};
}

ProxyProgram Skopeo::startProxy(const ImageSource& source) const {
    std::vector<std::string> arguments{"experimental-image-proxy"};  // listens on its standard input
    if (source.authenticationFile) {
        arguments.insert(arguments.end(), {"--authfile", *source.authenticationFile});
    }
    auto proxy = command(source, std::move(arguments));
    std::array<int, 2> ends{};
    checkErrno(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
               "Failed to create a socket");
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const auto nowhere = openFile("/dev/null", O_WRONLY);
    auto log = makeMemoryFile("skopeo");
    proxy.stdinFd = theirs.get();
    proxy.stdoutFd = nowhere.get();
    proxy.stderrFd = logLevel() == LogLevel::debug ? -1 : log.get();
    return {startTool(std::move(proxy), "skopeo"), std::move(ours), std::move(log)};
}

}  // namespace sarus::image
