#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"
#include "engine/starter_request.hpp"
#include "oci/cdi/container_edits.hpp"
#include "oci/hooks/hook_config.hpp"

namespace sarus::engine {

/// Facts about the caller from the kernel and the node. The starter gathers them; never taken from the
/// request.
struct HostFacts {
    uid_t uid = 0;
    std::optional<uid_t> nodeUid;  ///< the same outside of the caller's user namespace, which usually is the
                                   ///< node's own
    gid_t gid = 0;
    std::vector<gid_t> supplementaryGroups;
    std::vector<int> cpus;                  ///< the caller's CPU affinity, ascending
    bool privileged = false;                ///< true: set-user-ID (or real root); false: rootless
    std::vector<int> inheritedDescriptors;  ///< open at entry, ascending
    mode_t umask = 022;
    std::optional<gid_t> ttyGroup;  ///< gid of the group "tty" in <prefix>/etc/group
    std::string randomName;         ///< 16 letters for the default container name
    /// The FIFO, in a directory of the starter's, for the hooks' output.
    std::string hookOutput;
};

/// Who asked for a mount or device.
/// - site: may use any destination except the engine's own.
/// - user: the source is opened with only the user's rights, and the destination obeys `userMounts`.
/// - workloadManager: the path comes through the user's environment. The source is opened like a user's; the
///   destination is free only if no symbolic link of the image redirects it.
/// - cdi: the administrator's file, so the destination is free. Tools may write paths below /tmp into such
///   files, so the source is looked up with the user's rights.
enum class MountOrigin { site, user, workloadManager, cdi };

struct PlannedMount {
    std::string source;
    std::string destination;  ///< absolute, inside the container
    bool readonly = false;
    MountOrigin origin = MountOrigin::user;
    std::string request;  ///< the original text, for messages
    bool nodev = false;   ///< users' mounts never allow devices, the site's do, CDI mounts choose here
    bool noexec = false;
    std::optional<std::uint64_t> tmpfsSize{};  ///< a memory file system of this size (0: the kernel's limit)
    std::optional<std::uint64_t> tmpfsMode{};
    bool isSquashfs = false;                ///< the source is a squashfs file, whose content is mounted
    std::optional<bool> mustBeDirectory{};  ///< as in the request
};

struct PlannedDevice {
    std::string source;
    std::string destination;
    std::string access;  ///< a combination of r, w and m; CDI: may be empty
    MountOrigin origin = MountOrigin::user;
    std::string request;
    std::optional<oci::DeviceNodeEdit> node{};  ///< CDI: the requested node
};

/// A descriptor of the caller that the container keeps (PMI_FD): `from` is its number at entry, `to` its
/// number in the container.
struct PreservedDescriptor {
    int from = -1;
    int to = -1;
};

/// A hook whose conditions all hold.
struct PlannedHook {
    std::string name;  ///< of its file, for messages
    std::string stage;
    oci::RuntimeHook hook;  ///< as in its file
    std::string file{};     ///< path of the file
    std::string reason{};   ///< the conditions that hold, in words; only if wantsReasons()
};

/// The edits that a CDI device makes to the container.
struct CdiEdits {
    std::string device;  ///< its qualified name
    std::string file;
    oci::ContainerEdits edits;
};

/// The complete container. Executing the plan requires no further decisions.
struct ContainerPlan {
    std::string name;
    std::vector<std::string> args;
    std::vector<std::pair<std::string, std::string>> environment;  ///< sorted by name, names unique
    /// The origin of each, in words; only for a dry run.
    std::map<std::string, std::string> environmentOrigins;
    std::vector<std::string> localeVariables;  ///< unset if the container lacks the locale
    std::string workdir;
    std::vector<std::string> volumes;  ///< directories of the image to be made if they are missing
    bool workdirChosen = false;  ///< by the user; the image's gives way to "/" if the user may not enter it
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> supplementaryGroups;
    std::vector<int> cpus;
    mode_t umask = 022;
    bool terminal = false;
    bool privatePid = false;
    bool privateNetwork = false;
    bool privateIpc = false;
    bool privateUts = false;
    bool readonlyRoot = false;
    bool remapRoot = false;               ///< the caller is root inside, in a user namespace
    bool hold = false;                    ///< as in LaunchRequest
    std::optional<std::string> initPath;  ///< bound on /dev/init if present
    std::optional<gid_t> ttyGroup;
    std::vector<PlannedMount> mounts;  ///< in the order in which they are performed
    std::vector<PlannedDevice> devices;
    std::map<std::string, std::string> annotations;
    std::vector<PreservedDescriptor> descriptors;
    std::string hookOutput;          ///< as in HostFacts; "" if no hook runs
    std::vector<PlannedHook> hooks;  ///< by file name, each once for every stage
    /// Hooks whose conditions do not hold, each once, with the reason; only if wantsReasons()
    std::vector<PlannedHook> idleHooks;
    std::vector<std::string> warnings;  ///< for the user, at level WARN
};

/// Whether anybody reads why hooks run or not: in a dry run, or at log level DEBUG.
bool wantsReasons(const LaunchRequest& request);

/// The home directory in the container: its HOME, if that is an absolute path.
std::optional<std::string> homeOf(const ContainerPlan& plan);

/// What the conditions of hooks are matched against. Refers to the plan.
oci::HookSubject hookSubject(const ContainerPlan& plan);

/// Decides everything about the container, or throws Error with the documented message. Pure: makes no system
/// call. `hooks`: those of `hooksDir`, in file name order; `cdi`: the resolved CDI devices of the request
/// (cdi.hpp).
ContainerPlan plan(const SiteConfig& config, const LaunchRequest& request, const HostFacts& facts,
                   const std::vector<oci::HookConfig>& hooks = {}, const std::vector<CdiEdits>& cdi = {});

/// What a command in a running container inherits from it.
struct ExecBase {
    std::vector<std::string> environment;  ///< "NAME=value"
    std::string workdir;
    std::vector<std::string> ownVariables;  ///< ownVariables() (environment.hpp) of the container
    bool remapRoot = false;
};

/// Plans a command in a running container: its arguments, variables, descriptors, directory and identity; the
/// rest of the plan is empty. Pure; throws Error.
ContainerPlan planExec(const SiteConfig& config, const ExecRequest& request, const HostFacts& facts,
                       const ExecBase& base);

}  // namespace sarus::engine
