#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.hpp"
#include "base/unique_fd.hpp"
#include "engine/container_plan.hpp"
#include "engine/runtime_config_builder.hpp"
#include "starter/credentials.hpp"
#include "starter/security_checks.hpp"

namespace sarus::starter {

/// The OCI runtime of the site.
struct RuntimeProgram {
    std::string path;  ///< without symbolic links
    engine::OciRuntime kind = engine::OciRuntime::crun;
};

/// Follows `runcPath`. A real name which contains "crun" means crun, everything else speaks runc's dialect.
/// `verified`: a checker which may have followed the path already, so that it is not asked for again; nullptr for none.
/// Throws Error with the package to install if the program does not exist.
RuntimeProgram findRuntime(const std::string& runcPath, PathChecker* verified = nullptr);

/// Directories of the starter which outlive a container; nobody but root (rootless: the caller) can change them.
struct StateDirectories {
    std::string runtimeRoot;  ///< the runtime's option --root
    std::string bundleDir;    ///< where the bundle's ram filesystem is mounted, in the private mount namespace
};

/// Privileged: /run/sarus/<uid> (0700, root) and the configured bundle directory. Rootless: below `$XDG_RUNTIME_DIR/sarus` of the
/// caller's environment, else `<tempDir>/sarus-<uid>`. Creates what is missing and verifies owner and mode. Throws Error.
StateDirectories prepareStateDirectories(const Credentials& credentials, const engine::SiteConfig& config,
                                         const std::vector<std::string>& callerEnvironment);

/// Where the caller's rootless containers find each other's user namespaces, whatever environments they are started from:
/// `<tempDir>/sarus-<uid>/namespaces`, or beside the runtime root if that cannot be. Empty if there is no such directory, with
/// privileges too.
std::string prepareNamespacesDirectory(const Credentials& credentials, const engine::SiteConfig& config,
                                       const StateDirectories& directories);

/// Every directory of the caller in which a runtime may keep containers: without privileges that of prepareStateDirectories() and
/// those which other environments of the caller led to. They are listed in the directory below tempDir, which is always looked
/// at.
std::vector<std::string> findRuntimeRoots(const Credentials& credentials, const engine::SiteConfig& config,
                                          const std::vector<std::string>& callerEnvironment);

/// The first of findRuntimeRoots() in which a runtime knows a container of this (valid) name.
std::optional<std::string> findRuntimeRootOf(const std::string& containerName, const Credentials& credentials,
                                             const engine::SiteConfig& config, const std::vector<std::string>& callerEnvironment);

/// What a runtime is started with.
struct RuntimeInvocation {
    RuntimeProgram program;
    std::string runtimeRoot;
    std::string bundleDir;
    std::string containerName;
    bool terminal = false;
    std::vector<engine::PreservedDescriptor> descriptors{};  ///< `to` counts up from 3
    bool keepLog = false;                                    ///< runc's warnings go to a file in the bundle, not to the user;
                                                             ///< what crun complains of goes there and to the user
    bool deviceRulesByHook = false;                          ///< runc goes on if it cannot make them itself
    std::string pidFile{};                                   ///< none if empty (pid_file.hpp)
    std::vector<int> cgroups{};                              ///< cgroup.procs of each cgroup which the runtime enters
    int execProcess = -1;                                    ///< a file with the process to run in the running container, or -1
};

/// Where the runtime is told to write its log.
std::string runtimeLogPath(const std::string& bundleDir);

/// argv of the runtime, in its dialect. crun never chooses a cgroup.
std::vector<std::string> runtimeArguments(const RuntimeInvocation& invocation);

/// Starts the runtime with a clean environment, the standard streams and the preserved descriptors alone. It receives SIGHUP if
/// this process ends, unless it runs a command in a container that runs already. Unless it makes a terminal for the container, it
/// has a session of its own: signals of the caller's terminal reach it once, through the starter, and runc, which copies what is
/// typed there, is not stopped for reading in the background. A start in the background has no input. Throws Error if it cannot
/// be executed.
Child startRuntime(const RuntimeInvocation& invocation);

}  // namespace sarus::starter
