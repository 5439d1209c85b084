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

/// The part of a bundle's config.json (OCI runtime-spec 1.0.2) that this project writes, as plain types with the
/// specification's names. An absent optional or an empty list is left out of the file unless a comment says otherwise.

struct RuntimeUser {
    uid_t uid = 0;
    gid_t gid = 0;
    std::optional<mode_t> umask;
    std::vector<gid_t> additionalGids;
};

/// Names such as "CAP_SETFCAP"; all five sets are always written, also when they are empty.
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

struct RuntimeProcess {
    bool terminal = false;
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
    std::string type;
    std::string source;
    std::vector<std::string> options;
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

/// One rule of the device cgroup. Absent numbers mean all; `type` 'a' (all) is written by leaving the type out.
struct RuntimeDeviceRule {
    bool allow = false;
    char type = 'a';  ///< 'c', 'b' or 'a'
    std::optional<std::int64_t> major;
    std::optional<std::int64_t> minor;
    std::string access = "rwm";
};

struct RuntimeResources {
    std::vector<RuntimeDeviceRule> devices;
    std::optional<std::string> cpus;  ///< list format of cpuset(7): "0-3,8"
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
    std::optional<std::string> seccomp;  ///< the text of a JSON object, embedded after it was checked to be one
};

struct RuntimeHook {
    std::string path;
    std::vector<std::string> args;
    std::vector<std::string> env;
    std::optional<std::uint64_t> timeout;  ///< seconds
};

struct RuntimeConfig {
    std::string ociVersion = "1.0.0";
    RuntimeProcess process;
    RuntimeRoot root;
    std::vector<RuntimeMount> mounts;
    RuntimeLinux linux_;  ///< key `linux` (some compilers predefine the bare name as a macro)
    std::vector<std::pair<std::string, std::vector<RuntimeHook>>> hooks;  ///< stage and its hooks, in order; always written
    std::map<std::string, std::string> annotations;
};

/// The section `process` alone, as the option --process of a runtime's `exec` wants it.
std::string serializeRuntimeProcess(const RuntimeProcess& process);

/// The text of config.json. Bytes which are not UTF-8 become U+FFFD, because runtimes refuse a file that is not valid JSON;
/// see json_writer.hpp. Throws Error if a string holds a NUL character or if `seccomp` is not a JSON object.
std::string serializeRuntimeConfig(const RuntimeConfig& config);

/// "0-3,8" for the ascending list 0 1 2 3 8.
std::string formatCpuList(const std::vector<int>& cpus);

}  // namespace sarus::oci
