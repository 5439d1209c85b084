#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "oci/runtime_config.hpp"

namespace sarus::oci {

template <typename Json>
class JsonNode;

/// `containerEdits` of the Container Device Interface (CDI 1.1.0, "containerEdits"): what a container gets together with a
/// device. The names are the specification's; an absent optional was absent in the file.

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

struct MountEdit {
    std::string hostPath;
    std::string containerPath;
    std::optional<std::string> type{};
    std::optional<std::vector<std::string>> options{};
};

struct HookEdit {
    std::string stage;  ///< key `hookName`; a stage of the runtime, never "precreate"
    RuntimeHook hook;
};

/// Values go to the resctrl filesystem as they are.
struct IntelRdtEdit {
    std::string closId;
    std::string l3CacheSchema;
    std::string memBwSchema;
    std::vector<std::string> schemata;
    bool enableMonitoring = false;
};

struct NetDeviceEdit {
    std::string hostInterfaceName;
    std::string name;
};

struct ContainerEdits {
    std::vector<std::pair<std::string, std::string>> env;
    std::vector<DeviceNodeEdit> deviceNodes;
    std::vector<MountEdit> mounts;
    std::vector<HookEdit> hooks;
    std::vector<gid_t> additionalGids;
    std::optional<IntelRdtEdit> intelRdt;
    std::vector<NetDeviceEdit> netDevices;

    bool empty() const noexcept;
};

/// Who wrote the edits, and hence how strictly they are read.
enum class EditsDialect {
    cdi,        ///< every key of CDI; an unknown key, a relative path or a value that CDI does not know is an error
    precreate,  ///< edits of config.json by a precreate hook: paths of mounts as they are, and their `type` and `options` may be
                ///< null; unknown keys are ignored, but not in what only CDI has (`deviceNodes`, `hooks`...)
};

/// Reads one `containerEdits` object. Throws Error which names the file, the key's path and what was expected.
ContainerEdits readContainerEdits(const JsonNode<nlohmann::ordered_json>& node, EditsDialect dialect);

/// What the container may do with the device: "rwm" in this order, each letter at most once.
std::string deviceAccess(const DeviceNodeEdit& node);

/// The lowest version of CDI that knows everything which the edits use, such as "0.5.0".
std::string_view minimumCdiVersion(const ContainerEdits& edits);

}  // namespace sarus::oci
