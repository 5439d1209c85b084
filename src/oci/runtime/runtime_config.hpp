#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sarus::oci {

/// The parts of a bundle's config.json (OCI runtime-spec 1.0.2) that this project uses, as plain types with
/// the specification's names. This project writes RuntimeConfig; BundleConfig (bundle_config.hpp) reads and
/// edits files of other programs. Absent optionals and empty lists are omitted from the file unless a comment
/// says otherwise.

struct RuntimeUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::optional<mode_t> umask;
    std::vector<gid_t> additionalGids;
};

/// Names such as "CAP_SETFCAP"; all five sets are always written, even if empty.
struct RuntimeCapabilities {
    std::vector<std::string> bounding;
    std::vector<std::string> effective;
    std::vector<std::string> inheritable;
    std::vector<std::string> permitted;
    std::vector<std::string> ambient;
};

struct RuntimeRlimit {
    std::string type;  ///< "RLIMIT_NOFILE" and so on
    std::uint64_t soft = 0;
    std::uint64_t hard = 0;
};

/// In characters.
struct RuntimeConsoleSize {
    unsigned height = 0;
    unsigned width = 0;
};

struct RuntimeProcess {
    bool terminal = false;
    std::optional<RuntimeConsoleSize> consoleSize{};  ///< of the terminal; empty: the runtime decides
    RuntimeUser user;
    std::vector<std::string> args;
    std::vector<std::pair<std::string, std::string>> env;  ///< written as "NAME=value"
    std::string cwd = "/";
    RuntimeCapabilities capabilities;
    std::vector<RuntimeRlimit> rlimits;
    bool noNewPrivileges = true;
    std::optional<std::string> apparmorProfile;
    std::optional<std::string> selinuxLabel;
};

struct RuntimeRoot {
    std::string path;  ///< relative to the bundle, or absolute
    bool readonly = false;
};

struct RuntimeMount {
    std::string destination;
    std::optional<std::string> type;
    std::string source;
    std::optional<std::vector<std::string>> options;  ///< written even if empty
};

/// A device node of `linux.devices`.
struct RuntimeDevice {
    std::string path;
    char type = 'c';  ///< 'c', 'b', 'u' or 'p'
    std::int64_t major = 0;
    std::int64_t minor = 0;
    std::optional<mode_t> fileMode;
    std::optional<uid_t> uid;
    std::optional<gid_t> gid;
};

struct RuntimeIdMapping {
    std::uint32_t containerId = 0;
    std::uint32_t hostId = 0;
    std::uint32_t size = 1;
};

struct RuntimeNamespace {
    std::string type;  ///< "mount", "pid", "user", ...
    std::optional<std::string> path;
};

/// One rule of the device cgroup. Absent numbers mean all; type 'a' (all) is written by omitting the type.
struct RuntimeDeviceRule {
    bool allow = false;
    char type = 'a';  ///< 'c', 'b' or 'a'
    std::optional<std::int64_t> major;
    std::optional<std::int64_t> minor;
    std::string access = "rwm";
    bool operator==(const RuntimeDeviceRule&) const = default;
};

struct RuntimeResources {
    std::vector<RuntimeDeviceRule> devices;
    std::optional<std::string> cpus;  ///< list format of cpuset(7): "0-3,8"
};

/// `linux.intelRdt`; values go to the resctrl filesystem unchanged.
struct RuntimeIntelRdt {
    std::string closId;
    std::string l3CacheSchema;
    std::string memBwSchema;
    std::vector<std::string> schemata;
    bool enableMonitoring = false;
};

struct RuntimeLinux {
    std::vector<RuntimeNamespace> namespaces;
    std::vector<RuntimeIdMapping> uidMappings;
    std::vector<RuntimeIdMapping> gidMappings;
    std::optional<RuntimeResources> resources;
    std::optional<std::string> cgroupsPath;
    std::optional<std::string> rootfsPropagation;
    std::vector<std::string> maskedPaths;
    std::vector<std::string> readonlyPaths;
    std::optional<std::string> mountLabel;
    /// The text of a JSON object, checked and then embedded.
    std::optional<std::string> seccomp;
};

struct RuntimeHook {
    std::string path;
    std::vector<std::string> args;  ///< includes argv[0]
    std::vector<std::string> env;
    std::optional<std::uint64_t> timeout;  ///< seconds
};

struct RuntimeConfig {
    std::string ociVersion = "1.0.0";
    RuntimeProcess process;
    RuntimeRoot root;
    std::vector<RuntimeMount> mounts;
    RuntimeLinux linux_;  ///< key `linux` (some compilers predefine the bare name as a macro)
    /// Stage and its hooks, in order; always written.
    std::vector<std::pair<std::string, std::vector<RuntimeHook>>> hooks;
    std::map<std::string, std::string> annotations;
};

/// Only the section `process`, as for the option --process of a runtime's `exec`.
std::string serializeRuntimeProcess(const RuntimeProcess& process);

/// The text of config.json. Bytes that are not UTF-8 become U+FFFD, because runtimes refuse invalid JSON; see
/// json_writer.hpp. Throws Error if a string contains a NUL character or `seccomp` is not a JSON object.
std::string serializeRuntimeConfig(const RuntimeConfig& config);

/// "0-3,8" for the ascending list 0 1 2 3 8.
std::string formatCpuList(const std::vector<int>& cpus);

}  // namespace sarus::oci
