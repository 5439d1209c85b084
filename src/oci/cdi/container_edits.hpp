#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "oci/runtime/runtime_config.hpp"

namespace sarus::oci {

template <typename Json>
class JsonNode;

/// `containerEdits` of the Container Device Interface (CDI 1.1.0, "containerEdits"): what a container gets
/// with a device. The names are the specification's; an absent optional was absent in the file.

struct DeviceNodeEdit {
    std::string path;      ///< in the container
    std::string hostPath;  ///< "": the same path
    std::string type;      ///< "", "b", "c", "u" or "p"
    std::optional<std::int64_t> major{};
    std::optional<std::int64_t> minor{};
    std::optional<mode_t> fileMode{};
    std::string permissions;  ///< of 'r', 'w' and 'm'; "": "rwm"; "none"
    std::optional<uid_t> uid{};
    std::optional<gid_t> gid{};
};

struct HookEdit {
    std::string stage;  ///< key `hookName`; a stage of the runtime, never "precreate"
    RuntimeHook hook;
};

struct NetDeviceEdit {
    std::string hostInterfaceName;
    std::string name;
};

struct ContainerEdits {
    std::vector<std::pair<std::string, std::string>> env;
    std::vector<DeviceNodeEdit> deviceNodes;
    std::vector<RuntimeMount> mounts;  ///< keys `containerPath` and `hostPath`
    std::vector<HookEdit> hooks;
    std::vector<gid_t> additionalGids;
    std::optional<RuntimeIntelRdt> intelRdt;
    std::vector<NetDeviceEdit> netDevices;

    bool empty() const noexcept;
};

/// The origin of the edits, which determines how strictly they are read.
enum class EditsDialect {
    cdi,  ///< every key of CDI; an unknown key, a relative path or a value that CDI does not know is an error
    /// Edits of config.json by a precreate hook. `type` and `options` of mounts may be null. A mount without
    /// a type gets the option rbind, unless it has bind. Unknown keys are ignored, except in objects specific
    /// to CDI (`deviceNodes`, `hooks`...).
    precreate,
};

/// Reads one `containerEdits` object. Throws Error naming the file, the key's path and the expected value.
ContainerEdits readContainerEdits(const JsonNode<nlohmann::ordered_json>& node, EditsDialect dialect);

/// The container's access to the device: "rwm" in this order, each letter at most once.
std::string deviceAccess(const DeviceNodeEdit& node);

/// The lowest version of CDI that supports everything used by the edits, such as "0.5.0".
std::string_view minimumCdiVersion(const ContainerEdits& edits);

}  // namespace sarus::oci
