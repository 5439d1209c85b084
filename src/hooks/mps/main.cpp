#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/mount_table.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/container_user.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/mps/control.hpp"
#include "hooks/mps/directories.hpp"
#include "hooks/mps/settings.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using mps::Control;

constexpr std::string_view usage =
    "Usage: mps_hook              (an OCI hook: reads the container's state)\n"
    "       mps_hook < /dev/null  (without a container: for the caller)\n"
    "       mps_hook --check      (looks for mistakes in its configuration)\n"
    "       mps_hook --explain    (shows what it would do)\n"
    "\n"
    "Starts the control daemon of CUDA MPS (nvidia-cuda-mps-control) and a server for the container's user, "
    "unless they run.\n"
    "Exit status: 0 the server is ready, 127 nvidia-cuda-mps-control is not in PATH, 1 any other failure.\n";

std::string findControl(const mps::Settings& settings) {
    if (auto path = findProgram(mps::controlProgram, settings.searchPath)) {
        return *path;
    }
    constexpr int notFound = 127;
    throw Error(
        cat(mps::controlProgram, " was not found in PATH (", printable(settings.searchPath), ')'),
        "It comes with NVIDIA's driver; PATH in the \"env\" of the hook's JSON file says where to look")
        .setExitStatus(notFound);
}

/// The user as this user namespace knows him. In one that is not the node's own, the hook is the user
/// already.
uid_t localUidOf(const oci::BundleConfig& config) {
    return mapContainerUser(config.user(), config.uidMappings(), config.gidMappings()).uid;
}

uid_t localUidOf(const HookContext& context) {
    return isInitialUserNamespace() ? localUidOf(context.config()) : ::geteuid();
}

/// Where the container's programs look for the control daemon, or write their logs.
std::string insidePath(const std::optional<std::string>& variable, std::string_view byDefault) {
    return std::string(variable && variable->starts_with('/') ? *variable : byDefault);
}

void check(const HookSetup& setup, Findings& findings) {
    const auto settings = mps::parseSettings(setup.environment);
    findings.attempt([&] { findControl(settings); });
    if (!settings.userDirectory.empty()) {
        findings.requireFile("MPS_USER_DIRECTORY", settings.userDirectory);
    }
}

void explain(const HookSetup& setup, const ExplainRequest&) {
    const auto settings = mps::parseSettings(setup.environment);
    const auto uid = callersUid();
    printLine(cat("start ", printable(findControl(settings)),
                  " -d, unless it runs, and a server for the container's user"));
    if (settings.userDirectory.empty()) {
        printLine(cat("pipe directory ", printable(settings.pipeDirectory)));
    } else {
        printLine(cat("mount ", printable(settings.directoryOf(uid)), "/pipe on ", mps::defaultPipeDirectory,
                      " (for uid ", uid, ')'));
    }
}

/// Gives this process mounts of its own without those of the container: the daemon lives longer, and would
/// keep the image mounted. Only those can do this who see the engine's mounts at all. `rootfs`: as
/// config.json calls it, relative to the bundle where the engine has mounts of its own. The bundle is a file
/// system in memory, which no user can mount: root looks up no path that leads to somebody's file server.
void leaveMounts(const std::string& rootfs) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
        return;
    }
    const auto table = readMountTable();
    for (const auto& bundle : table) {
        const auto root = cat(bundle.mountPoint, '/', rootfs);
        if ((bundle.type == "tmpfs" || bundle.type == "ramfs") &&
            std::any_of(table.begin(), table.end(),
                        [&](const auto& mount) { return mount.mountPoint == root; })) {
            ::umount2(bundle.mountPoint.c_str(),
                      MNT_DETACH | UMOUNT_NOFOLLOW);  // with all that is mounted in it
        }
    }
}

/// Starts the daemon and the server, with the rights that this process has.
void ensureServer(const mps::Settings& settings, uid_t uid, uid_t localUid, const HookLogger& log) {
    const auto deadline = Control::Clock::now() + settings.timeout;
    mps::ensureServer(Control(findControl(settings), settings.environment(), deadline), uid, localUid,
                      deadline, log);
    log.info(cat("CUDA MPS has a server for uid ", uid));
}

/// At the stage precreate: nothing of the container exists yet, so the daemon is no process of it and
/// outlives it.
void runBeforeCreation(const HookSetup& setup, const std::string& input, const HookLogger& log) {
    auto settings = mps::parseSettings(setup.environment);
    auto config = oci::BundleConfig::parse(input, "standard input");
    findControl(settings);
    const auto localUid = isInitialUserNamespace() ? localUidOf(config) : ::geteuid();
    const auto uid = callersUid(config);
    leaveMounts(config.rootPath());
    becomeContainerUser(config);
    if (settings.userDirectory.empty()) {
        mps::requireOwnPipeDirectory(settings.pipeDirectory, localUid);
    } else {
        mps::prepareUserDirectories(settings, uid, localUid);
        for (const auto& [variable, byDefault] : {std::pair(mps::pipeVariable, mps::defaultPipeDirectory),
                                                  std::pair(mps::logVariable, mps::defaultLogDirectory)}) {
            config.setVariable(variable, insidePath(config.variable(variable), byDefault));
        }
    }
    ensureServer(settings, uid, localUid, log);
    answerWith(config);
}

/// Mounts the user's directories where the container's programs look for them.
void mountUserDirectories(mps::Settings& settings, HookContext& context, uid_t uid, uid_t localUid,
                          const HookLogger& log) {
    const container_root::Editor editor(context.rootfs());
    const auto directories = [&] {
        const container_root::ContainerView asUser;
        return mps::prepareUserDirectories(settings, uid, localUid);
    }();
    const auto mount = [&](int source, const std::string& shown, std::string_view variable,
                           std::string_view byDefault) {
        const auto destination = insidePath(context.containerVariable(variable), byDefault);
        editor.bind(cat("/proc/self/fd/", source), destination, {.noexec = true});
        log.info(cat("Mounted ", printable(shown), " on the container's ", printable(destination)));
    };
    mount(directories.pipe.get(), settings.pipeDirectory, mps::pipeVariable, mps::defaultPipeDirectory);
    mount(directories.log.get(), settings.logDirectory, mps::logVariable, mps::defaultLogDirectory);
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    auto settings = mps::parseSettings(setup.environment);
    findControl(settings);
    const auto localUid = localUidOf(context);
    const auto uid = callersUid(context);
    const auto engineMounts = openFile("/proc/self/ns/mnt", O_RDONLY);
    if (settings.userDirectory.empty()) {
        mps::requireOwnPipeDirectory(settings.pipeDirectory, localUid);
    } else {
        mountUserDirectories(settings, context, uid, localUid, log);
        ::setns(engineMounts.get(), CLONE_NEWNS);
    }
    leaveMounts(context.config().rootPath());
    checkErrno(::chdir("/"), "Failed to enter the root directory");
    becomeContainerUser(context);
    ensureServer(settings, uid, localUid, log);
}

/// As an administrator tries it out.
void runForCaller(const HookSetup& setup, const HookLogger& log) {
    auto settings = mps::parseSettings(setup.environment);
    findControl(settings);
    const auto uid = callersUid();
    if (settings.userDirectory.empty()) {
        mps::requireOwnPipeDirectory(settings.pipeDirectory, ::geteuid());
    } else {
        mps::prepareUserDirectories(settings, uid, ::geteuid());
    }
    ensureServer(settings, uid, ::geteuid(), log);
    printLine(cat("CUDA MPS has a server for uid ", uid, ", in ", printable(settings.pipeDirectory)));
}

}  // namespace

int main(int argc, char** argv) {
    return hookMain(argc, argv,
                    {.program = "mps_hook",
                     .logName = "MPS hook",
                     .usage = usage,
                     .variables = {"PATH", mps::pipeVariable, mps::logVariable, "CUDA_VISIBLE_DEVICES",
                                   "MPS_USER_DIRECTORY", "MPS_TIMEOUT"},
                     .check = check,
                     .explain = explain,
                     .run = runAsHook,
                     .filter = runBeforeCreation,
                     .runByHand = runForCaller});
}
