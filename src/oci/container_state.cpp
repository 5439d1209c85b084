#include "oci/container_state.hpp"

#include <limits>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "oci/json_depth.hpp"

namespace sarus::oci {

namespace {

using nlohmann::json;

constexpr std::string_view kWhat = "The container state";

const json* member(const json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text(const json& object, const char* key) {
    const json* value = member(object, key);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_string()) {
        throw Error(cat(kWhat, " has a key '", key, "' that is not a string"));
    }
    auto result = value->get<std::string>();
    if (result.find('\0') != std::string::npos) {
        throw Error(cat(kWhat, " has a key '", key, "' that holds a NUL character"));
    }
    return result;
}

std::string absolutePath(const json& object, const char* key) {
    auto path = text(object, key);
    if (!path.empty() && path.front() != '/') {
        throw Error(cat(kWhat, " has a key '", key, "' that is not an absolute path: ", printable(path)));
    }
    return path;
}

pid_t processId(const json& object) {
    const json* value = member(object, "pid");
    if (value == nullptr) {
        return 0;
    }
    constexpr std::int64_t highest = std::numeric_limits<pid_t>::max();
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<std::uint64_t>() > highest) ||
        value->get<std::int64_t>() < 0) {
        throw Error(cat(kWhat, " has a key 'pid' that is not a process id: ", printable(value->dump())));
    }
    return static_cast<pid_t>(value->get<std::int64_t>());
}

ContainerStatus statusFromText(std::string_view word) {
    return word == "creating"  ? ContainerStatus::creating
           : word == "created" ? ContainerStatus::created
           : word == "running" ? ContainerStatus::running
           : word == "stopped" ? ContainerStatus::stopped
                               : ContainerStatus::unknown;
}

std::map<std::string, std::string> annotationsOf(const json& object) {
    std::map<std::string, std::string> result;
    const json* value = member(object, "annotations");
    if (value == nullptr) {
        return result;
    }
    if (!value->is_object()) {
        throw Error(cat(kWhat, " has a key 'annotations' that is not an object"));
    }
    for (const auto& [key, annotation] : value->items()) {
        if (annotation.is_string()) {
            result.emplace(key, annotation.get<std::string>());
        }
    }
    return result;
}

}  // namespace

ContainerState parseContainerState(std::string_view text_) {
    checkJsonDepth(text_, kWhat);
    json object;
    try {
        object = json::parse(text_);
    } catch (const json::exception& failure) {
        throw Error(cat(kWhat, " is not valid JSON: ", printable(failure.what())),
                    "hooks are started by an OCI runtime, which writes the state to standard input");
    }
    if (!object.is_object()) {
        throw Error(cat(kWhat, " is not a JSON object"));
    }
    ContainerState state;
    state.ociVersion = text(object, "ociVersion");
    state.id = text(object, "id");
    state.status = statusFromText(text(object, "status"));
    state.pid = processId(object);
    state.bundle = absolutePath(object, "bundle");
    if (state.bundle.empty()) {
        state.bundle = absolutePath(object, "bundlePath");
    }
    state.root = text(object, "root");
    if (!state.root.starts_with('/')) {
        state.root.clear();  // crun repeats a relative root.path of config.json, which tells nothing new
    }
    state.annotations = annotationsOf(object);
    return state;
}

}  // namespace sarus::oci
