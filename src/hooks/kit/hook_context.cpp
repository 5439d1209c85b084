#include "hooks/kit/hook_context.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/namespaces.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t kMaxState = 16U << 20U;

std::string parentOf(const std::string& path) {
    const auto slash = path.find_last_of('/');
    return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

/// Podman's layout: <store>/overlay/<layer>/merged and <store>/overlay-containers/<id>/userdata/config.json.
std::string podmanBundle(const oci::ContainerState& state) {
    const auto driver = parentOf(parentOf(state.root));
    if (state.id.empty() || state.id.find('/') != std::string::npos || driver == "/") {
        return {};
    }
    return cat(driver, "-containers/", state.id, "/userdata");
}

}  // namespace

HookContext HookContext::read(int stateFd) {
    HookContext context;
    context.containerState = oci::parseContainerState(readAll(stateFd, kMaxState, "the container state on standard input"));
    context.findConfig();
    context.annotations = context.containerState.annotations;
    if (context.bundleConfig) {
        context.annotations.merge(context.bundleConfig->annotations());
    }
    return context;
}

void HookContext::findConfig() {
    const auto& state = containerState;
    bundlePath = state.bundle;
    std::vector<std::string> candidates;
    // A runtime may take its own working directory for the bundle: config.json in `/` is nobody's.
    if (!state.bundle.empty() && state.bundle != "/") {
        candidates.push_back(state.bundle);
    }
    if (!state.root.empty()) {
        candidates.push_back(podmanBundle(state));
    }
    int lastError = ENOENT;
    for (const auto& candidate : candidates) {
        const auto path = cat(candidate, "/config.json");
        const UniqueFd file(candidate.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (!file) {
            lastError = candidate.empty() ? lastError : errno;
            continue;
        }
        bundleConfig = oci::BundleConfig::parse(readAll(file.get(), kMaxState, printable(path)), path);
        bundlePath = candidate;
        return;
    }
    if (state.root.empty()) {
        throw Error::fromErrno(cat("Failed to open the configuration of container ", printable(state.id), " in the bundle '",
                                   printable(state.bundle), "'"),
                               lastError);
    }
}

const oci::BundleConfig& HookContext::config() const {
    if (!bundleConfig) {
        throw Error(cat("The OCI runtime did not tell where the configuration of container ", printable(containerState.id),
                        " is (bundle '", printable(containerState.bundle), "')"),
                    "some versions of crun give a wrong bundle: update crun, or use runc");
    }
    return *bundleConfig;
}

std::optional<std::string> HookContext::containerVariable(std::string_view name) const {
    return config().variable(name);
}

std::optional<std::string> HookContext::annotation(std::string_view key) const {
    const auto found = annotations.find(std::string(key));
    return found == annotations.end() ? std::nullopt : std::optional(found->second);
}

std::string HookContext::rootfsPath() const {
    if (!containerState.root.empty()) {
        return containerState.root;
    }
    const auto path = config().rootPath();
    if (path.empty()) {
        throw Error(cat("The configuration in ", printable(bundlePath), " names no root filesystem (root.path)"));
    }
    return path.front() == '/' ? path : cat(bundlePath, '/', path);
}

int HookContext::rootfs() {
    if (root) {
        return root.get();
    }
    const auto path = rootfsPath();
    enterNamespace(containerState.pid, NamespaceKind::mount);
    root = openFile(path, O_PATH | O_DIRECTORY);
    struct stat inside {};
    struct stat own {};
    checkErrno(::fstat(root.get(), &inside), "Failed to examine the root filesystem");
    checkErrno(::stat("/", &own), "Failed to examine /");
    if (inside.st_dev == own.st_dev && inside.st_ino == own.st_ino) {
        root.reset();
        throw Error(cat("The container's root filesystem ", printable(path), " is the root directory of the host"));
    }
    return root.get();
}

}  // namespace sarus::hooks
