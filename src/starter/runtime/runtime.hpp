#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_checker.hpp"
#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/runtime_config_builder.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter {

/// The OCI runtime of the site.
struct RuntimeProgram {
    std::string path;  ///< without symbolic links
    engine::OciRuntime kind = engine::OciRuntime::crun;
};

/// Follows `runcPath`. A real name that contains "crun" selects crun's dialect, any other runc's. `verified`:
/// a checker that may already have followed the path; nullptr for none. Throws Error naming the package to
/// install if the program does not exist.
RuntimeProgram findRuntime(const std::string& runcPath, PathChecker* verified = nullptr);

/// The starter's directories that outlive a container. Only root (rootless: the caller) can change them.
struct StateDirectories {
    std::string runtimeRoot;  ///< the runtime's option --root
    std::string bundleDir;  ///< where the bundle's ram filesystem is mounted, in the private mount namespace
};

/// Privileged: /run/sarus/<uid> (0700, root) and the configured bundle directory. Rootless: below
/// `$XDG_RUNTIME_DIR/sarus` of the caller's environment, otherwise below `<tempDir>/sarus-<uid>`. Creates
/// missing directories; verifies owner and mode. Throws Error.
StateDirectories prepareStateDirectories(const Credentials& credentials, const engine::SiteConfig& config,
                                         const std::vector<std::string>& callerEnvironment);

/// Removes the compiled seccomp filters that crun keeps in its root, if it has no container: also no
/// record, which is made before crun starts.
void removeCrunsCache(const std::string& runtimeRoot) noexcept;

/// Removes the directories of users without containers from /run/sarus, as far as this process may, with what
/// crun has left there. A concurrent start recreates its directory.
void removeEmptyRuntimeRoots() noexcept;

/// Where the caller's rootless containers find each other's user namespaces, independent of the environment:
/// `<tempDir>/sarus-<uid>/namespaces`, or beside the runtime root if that is impossible. Empty if there is no
/// such directory, and with privileges.
std::string prepareNamespacesDirectory(const Credentials& credentials, const engine::SiteConfig& config,
                                       const StateDirectories& directories);

/// All of the caller's directories in which a runtime may keep containers. Without privileges: that of
/// prepareStateDirectories() and those of the caller's other environments, which the directory below tempDir
/// lists.
std::vector<std::string> findRuntimeRoots(const Credentials& credentials, const engine::SiteConfig& config,
                                          const std::vector<std::string>& callerEnvironment);

/// Those of all users with set-user-ID containers on this node, for root with privileges; empty for others.
std::vector<std::string> findAllRuntimeRoots(const Credentials& credentials);

/// The first of findRuntimeRoots() in which a runtime has a container of this (valid) name.
std::optional<std::string> findRuntimeRootOf(const std::string& containerName, const Credentials& credentials,
                                             const engine::SiteConfig& config,
                                             const std::vector<std::string>& callerEnvironment);

/// The input of startRuntime().
struct RuntimeInvocation {
    RuntimeProgram program;
    std::string runtimeRoot;
    std::string bundleDir;
    std::string containerName;
    uid_t uid = static_cast<uid_t>(-1);  ///< the container's user, as this process sees it; -1: unknown
    gid_t gid = static_cast<gid_t>(-1);
    bool terminal = false;
    std::array<int, 3> streams{0, 1, 2};  ///< become the runtime's standard streams
    std::string consoleSocket{};          ///< to which it sends the container's terminal; empty: nowhere
    std::vector<engine::PreservedDescriptor> descriptors{};  ///< `to` counts up from 3
    /// runc's warnings go only to a file in the bundle; crun's errors go there and to the user
    bool keepLog = false;
    bool deviceRulesByHook = false;  ///< runc continues if it cannot set them itself
    std::string pidFile{};           ///< empty: none (pid_file.hpp)
    std::vector<int> cgroups{};      ///< cgroup.procs of each cgroup that the runtime enters
    int execProcess = -1;            ///< file describing the process to run in the running container, or -1
    int janitor = -1;                ///< pipe to which the child first writes its Process, or -1
};

/// The log file of the runtime.
std::string runtimeLogPath(const std::string& bundleDir);

/// argv of the runtime, in its dialect. crun never chooses a cgroup.
std::vector<std::string> runtimeArguments(const RuntimeInvocation& invocation);

/// Starts the runtime with a clean environment and only the standard streams and the preserved descriptors.
/// It receives SIGHUP if this process ends, unless it runs a command in an existing container. It has a
/// session of its own: signals of the caller's terminal then reach it once, through the starter, and runc,
/// which copies terminal input, is not stopped for reading in the background. A start in the background has
/// no input, unless the container has a terminal of its own. Throws Error if the runtime cannot be executed.
Child startRuntime(const RuntimeInvocation& invocation);

/// True for this session's terminal while another job is in the foreground. The container would read input
/// meant for that job, usually the shell: being in another session, it is not stopped when it reads.
bool isInBackground(int terminal) noexcept;

}  // namespace sarus::starter
