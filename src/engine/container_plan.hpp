#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"
#include "oci/container_edits.hpp"
#include "oci/hook_config.hpp"

namespace sarus::engine {

/// What the kernel and the node say about the caller; gathered by the starter, never taken from the request.
struct HostFacts {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> supplementaryGroups;
    std::vector<int> cpus;                  ///< the caller's CPU affinity, ascending
    bool privileged = false;                ///< true: set-user-ID (or real root); false: rootless
    std::vector<int> inheritedDescriptors;  ///< open at entry, ascending
    mode_t umask = 022;
    std::optional<gid_t> ttyGroup;  ///< gid of the group "tty" in <prefix>/etc/group
    std::string randomName;         ///< 16 letters for the default container name
    std::string hookOutput;         ///< the FIFO, in a directory of the starter's, through which hooks talk to the user
};

/// Who asked for a mount or a device. A site's may go anywhere but to the engine's own places. A user's source is opened with the
/// user's rights alone, and its destination obeys `userMounts`. The workload manager's path comes through the user's environment:
/// its source is opened like a user's, and its destination is free only where no symbolic link of the image leads it elsewhere. A
/// CDI file is the administrator's word, so its destinations are free; but what tools put into such files may name a path below
/// /tmp, so its sources are looked up with the user's rights.
enum class MountOrigin { site, user, workloadManager, cdi };

struct PlannedMount {
    std::string source;
    std::string destination;  ///< absolute, inside the container
    bool readonly = false;
    MountOrigin origin = MountOrigin::user;
    std::string request;  ///< how it was asked for, for messages
    bool nodev = false;   ///< of CDI mounts; those of users never have devices, those of the site do
    bool noexec = false;
};

struct PlannedDevice {
    std::string source;
    std::string destination;
    std::string access;  ///< a combination of r, w and m; CDI: may be empty
    MountOrigin origin = MountOrigin::user;
    std::string request;
    std::optional<oci::DeviceNodeEdit> node{};  ///< CDI: what the node has to be
};

/// A descriptor of the caller which the container keeps (PMI_FD): `from` is its number at entry, `to` in the container.
struct PreservedDescriptor {
    int from = -1;
    int to = -1;
};

/// A hook whose conditions all hold.
struct PlannedHook {
    std::string name;  ///< of its file, for messages
    std::string stage;
    oci::RuntimeHook hook;  ///< as its file says
    std::string file{};     ///< path of the file
    std::string reason{};   ///< the conditions that hold, in words; only where wantsReasons()
};

/// What a CDI device does to the container.
struct CdiEdits {
    std::string device;  ///< its qualified name
    std::string file;
    oci::ContainerEdits edits;
};

/// Everything that the container will have. Carrying it out takes no more decisions.
struct ContainerPlan {
    std::string name;
    std::vector<std::string> args;
    std::vector<std::pair<std::string, std::string>> environment;  ///< sorted by name, names unique
    std::map<std::string, std::string> environmentOrigins;         ///< where each came from, in words; only for a dry run
    std::string workdir;
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> supplementaryGroups;
    std::vector<int> cpus;
    mode_t umask = 022;
    bool terminal = false;
    bool privatePid = false;
    bool readonlyRoot = false;
    std::optional<std::string> initPath;  ///< bound on /dev/init if present
    std::optional<gid_t> ttyGroup;
    std::vector<PlannedMount> mounts;  ///< in the order in which they are performed
    std::vector<PlannedDevice> devices;
    std::map<std::string, std::string> annotations;
    std::vector<PreservedDescriptor> descriptors;
    std::string hookOutput;              ///< as in HostFacts; "" if no hook fires
    std::vector<PlannedHook> hooks;      ///< by file name, each once for every stage
    std::vector<PlannedHook> idleHooks;  ///< whose conditions do not hold, each once, with the reason; only where wantsReasons()
    std::vector<std::string> warnings;   ///< for the user, at level WARN
};

/// Whether somebody reads why hooks run or do not: a dry run, or messages of the level DEBUG.
bool wantsReasons(const LaunchRequest& request);

/// What the conditions of hooks are held against. It refers to the plan.
oci::HookSubject hookSubject(const ContainerPlan& plan);

/// Decides everything about the container, or throws Error with the documented message. Pure: makes no system call. `hooks` are
/// those of `hooksDir`, in the order of their file names; `cdi` is what the CDI devices of the request resolved to (cdi.hpp).
ContainerPlan plan(const SiteConfig& config, const LaunchRequest& request, const HostFacts& facts,
                   const std::vector<oci::HookConfig>& hooks = {}, const std::vector<CdiEdits>& cdi = {});

/// What a command in a running container takes over from it.
struct ExecBase {
    std::vector<std::string> environment;  ///< "NAME=value"
    std::string workdir;
};

/// Decides about a command in a running container: its arguments, variables, directory and identity; the rest of the plan is
/// empty. Of the request, `name`, `command`, `env`, `hostEnvironment`, `workdir` and `tty` count. Pure; throws Error.
ContainerPlan planExec(const LaunchRequest& request, const HostFacts& facts, const ExecBase& base);

}  // namespace sarus::engine
