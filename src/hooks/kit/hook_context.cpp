#include "hooks/kit/hook_context.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_in_root.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "hook_contracts/callers_settings.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/container_user.hpp"
#include "oci/json/json_writer.hpp"

namespace sarus::hooks {

namespace {

constexpr std::size_t maxStateSize = 16U << 20U;

/// Podman's layout: <store>/overlay/<layer>/merged and <store>/overlay-containers/<id>/userdata/config.json.
std::string podmanBundle(const oci::ContainerState& state) {
    const auto driver = directoryOf(directoryOf(state.root));
    if (state.id.empty() || state.id.find('/') != std::string::npos || driver == "/" || driver == ".") {
        return {};
    }
    return cat(driver, "-containers/", state.id, "/userdata");
}

}  // namespace

HookContext::HookContext() = default;
HookContext::HookContext(HookContext&&) noexcept = default;
HookContext& HookContext::operator=(HookContext&&) noexcept = default;
HookContext::~HookContext() = default;

HookContext HookContext::read(int stateFd) {
    HookContext context;
    context.containerState =
        oci::parseContainerState(readAll(stateFd, maxStateSize, "the container state on standard input"));
    context.findConfig();
    context.annotations = context.containerState.annotations;
    if (context.bundleConfig) {
        context.annotations.merge(context.bundleConfig->annotations());
    }
    return context;
}

HookContext HookContext::ofRoot(const std::string& path, const std::vector<std::string>& variables) {
    HookContext context;
    context.containerState.root = path;
    oci::JsonWriter json;
    json.beginObject().key("process").beginObject().member("env", variables).endObject().endObject();
    context.bundleConfig = oci::BundleConfig::parse(json.text(), "--env");
    return context;
}

HookContext HookContext::ofConfiguration(oci::BundleConfig config, std::string bundle) {
    if (bundle.empty() && !config.rootPath().starts_with('/')) {
        throw Error(cat("root.path is not an absolute path: '", printable(config.rootPath()), "'"));
    }
    HookContext context;
    context.bundlePath = std::move(bundle);
    context.bundleConfig = std::move(config);
    return context;
}

void HookContext::findConfig() {
    const auto& state = containerState;
    bundlePath = state.bundle;
    std::vector<std::string> candidates;
    // A runtime may use its own working directory as bundle: config.json in `/` belongs to no container.
    if (!state.bundle.empty() && state.bundle != "/") {
        candidates.push_back(state.bundle);
    }
    if (!state.root.empty()) {
        candidates.push_back(podmanBundle(state));
    }
    int lastError = ENOENT;
    for (const auto& candidate : candidates) {
        const auto path = cat(candidate, "/config.json");
        const UniqueFd file(
            candidate.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        if (!file) {
            lastError = candidate.empty() ? lastError : errno;
            continue;
        }
        bundleConfig = oci::BundleConfig::parse(readAll(file.get(), maxStateSize, printable(path)), path);
        bundlePath = candidate;
        return;
    }
    if (state.root.empty()) {
        throw Error::fromErrno(cat("Failed to open the configuration of container ", printable(state.id),
                                   " in the bundle '", printable(state.bundle), "'"),
                               lastError);
    }
}

const oci::BundleConfig& HookContext::config() const {
    if (!bundleConfig) {
        throw Error(
            cat("The OCI runtime did not report where the configuration of container ",
                printable(containerState.id), " is (bundle '", printable(containerState.bundle), "')"),
            "Some versions of crun give a wrong bundle: update crun, or use runc");
    }
    return *bundleConfig;
}

std::optional<std::string> HookContext::containerVariable(std::string_view name) const {
    return config().variable(name);
}

std::optional<std::string> HookContext::callersVariable(std::string_view name) const {
    if (!hook_contracts::isCallersVariable(name)) {  // the engine would let the image set it
        throw std::logic_error(cat(name, " is missing in the list of the caller's variables"));
    }
    return isTrusted ? containerVariable(name) : std::nullopt;
}

std::string HookContext::distrust() {
    isTrusted = false;
    return hook_contracts::firstCallersAnnotation(annotations);
}

std::optional<std::string> HookContext::annotation(std::string_view key) const {
    if (!isTrusted && hook_contracts::isCallersAnnotation(key)) {
        return std::nullopt;
    }
    const auto found = annotations.find(std::string(key));
    return found == annotations.end() ? std::nullopt : std::optional(found->second);
}

std::string HookContext::rootfsPath() const {
    if (!containerState.root.empty()) {
        return containerState.root;
    }
    const auto path = config().rootPath();
    if (path.empty()) {
        throw Error(
            cat("The configuration in ", printable(bundlePath), " names no root filesystem (root.path)"));
    }
    return path.front() == '/' ? path : cat(bundlePath, '/', path);
}

int HookContext::rootfs() {
    if (root) {
        return root.get();
    }
    if (const auto stage = oci::stageAfterStart(containerState)) {
        throw Error(cat("A hook must not change the container's root filesystem at the stage ", *stage,
                        ": the container has started"));
    }
    const auto path = rootfsPath();
    const auto top =
        entersNamespace ? topOfContainer(containerState.pid) : openFile("/", O_PATH | O_DIRECTORY);
    if (entersNamespace) {
        enterNamespace(containerState.pid, NamespaceKind::mount);
    }
    root = openInRoot(top.get(), path);
    const auto inside = statusOf(root.get(), "the container's root filesystem");
    if (!S_ISDIR(inside.st_mode)) {
        root.reset();
        throw Error::fromErrno(cat("Failed to open the container's root filesystem ", printable(path)),
                               ENOTDIR);
    }
    if (isSameFile(inside, statusOf(openFile("/", O_PATH | O_DIRECTORY).get(), "/"))) {
        root.reset();
        throw Error(
            cat("The container's root filesystem ", printable(path), " is the root directory of the host"));
    }
    if (bundleConfig && ::geteuid() == 0 && isInitialUserNamespace()) {
        viewer = std::make_unique<container_root::ContainerViewer>(
            mapContainerUser(bundleConfig->user(), bundleConfig->uidMappings(), bundleConfig->gidMappings()));
    }
    return root.get();
}

}  // namespace sarus::hooks
