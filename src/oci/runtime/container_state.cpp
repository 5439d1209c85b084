#include "oci/runtime/container_state.hpp"

#include <limits>

#include "oci/json/json_node.hpp"
#include "oci/runtime/bundle_config.hpp"

namespace sarus::oci {

namespace {

using Json = nlohmann::ordered_json;
using Node = JsonNode<Json>;

/// Empty if the key is absent or null.
std::optional<Node> find(const Node& state, const std::string& key) {
    const auto found = state.value().find(key);
    return found == state.value().end() || found->is_null() ? std::nullopt
                                                            : std::optional(state.member(key, *found));
}

std::string text(const Node& state, const std::string& key) {
    const auto node = find(state, key);
    return node ? node->string() : std::string();
}

std::string absolutePath(const Node& state, const std::string& key) {
    const auto path = text(state, key);
    return path.empty() ? path : state.member(key, state.value().at(key)).absolutePath();
}

ContainerStatus statusFromText(std::string_view word) {
    return word == "creating"  ? ContainerStatus::creating
           : word == "created" ? ContainerStatus::created
           : word == "running" ? ContainerStatus::running
           : word == "stopped" ? ContainerStatus::stopped
                               : ContainerStatus::unknown;
}

std::map<std::string, std::string> annotationsOf(const Node& state) {
    std::map<std::string, std::string> result;
    if (const auto node = find(state, "annotations")) {
        for (const auto& [key, annotation] : node->object().items()) {
            if (annotation.is_string()) {
                result.emplace(key, annotation.get<std::string>());
            }
        }
    }
    return result;
}

Json parse(std::string_view text, std::string_view name) {
    try {
        return parseJson<Json>(text, name);
    } catch (Error& error) {
        throw error.setHint("Hooks are started by an OCI runtime, which writes the state to standard input");
    }
}

}  // namespace

ContainerState parseContainerState(std::string_view json) {
    constexpr std::string_view name = "The container state";
    const auto document = parse(json, name);
    const Node object(document, "", name);
    object.object();
    ContainerState state;
    state.ociVersion = text(object, "ociVersion");
    state.id = text(object, "id");
    state.status = statusFromText(text(object, "status"));
    if (const auto pid = find(object, "pid")) {
        state.pid = static_cast<pid_t>(pid->number(std::numeric_limits<pid_t>::max(), "a process id"));
    }
    state.bundle = absolutePath(object, "bundle");
    if (state.bundle.empty()) {
        state.bundle = absolutePath(object, "bundlePath");
    }
    const auto root = find(object, "root");
    if (root && root->value().is_object()) {
        throw Error(cat(name, " is a container's configuration"),
                    "This hook does not support the stage precreate");
    }
    state.tellsRoot = root.has_value();
    state.root = text(object, "root");
    if (!state.root.starts_with('/')) {
        state.root.clear();  // crun repeats a relative root.path of config.json, which adds no information
    }
    state.annotations = annotationsOf(object);
    return state;
}

bool isContainerState(std::string_view json) {
    try {
        return BundleConfig::parse(json, "").arguments().empty() &&
               parseContainerState(json).status != ContainerStatus::unknown;
    } catch (const Error&) {
        return false;
    }
}

std::optional<std::string_view> stageAfterStart(const ContainerState& state) {
    if (state.status == ContainerStatus::stopped) {
        return "poststop";
    }
    // crun, which also says "created" before the start, sets the root then.
    const bool isCreated = state.status == ContainerStatus::created && !state.tellsRoot;
    return isCreated || state.status == ContainerStatus::running
               ? std::optional<std::string_view>("poststart")
               : std::nullopt;
}

}  // namespace sarus::oci
