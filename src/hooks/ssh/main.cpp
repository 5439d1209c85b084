#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/passwd_file.hpp"
#include "base/path_in_root.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "container_root/container_view.hpp"
#include "container_root/editor.hpp"
#include "container_root/root_files.hpp"
#include "hook_contracts/enter_call.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/run_hook.hpp"
#include "hooks/ssh/container_files.hpp"
#include "hooks/ssh/daemon.hpp"
#include "hooks/ssh/pid_file.hpp"
#include "hooks/ssh/port_owner.hpp"
#include "hooks/ssh/public_keys.hpp"
#include "hooks/ssh/settings.hpp"
#include "hooks/ssh/ssh_directory.hpp"
#include "hooks/ssh/user_keys.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using namespace sarus::hooks::ssh;

constexpr std::string_view usage =
    "Usage: ssh_hook start-ssh-daemon                  (an OCI hook: reads the container's state)\n"
    "       ssh_hook keygen [--overwrite]              (makes the caller's SSH keys)\n"
    "       ssh_hook check-user-has-sshkeys            (status 0 if the caller has SSH keys)\n"
    "       ssh_hook start-ssh-daemon --check          (looks for mistakes in its configuration)\n"
    "       ssh_hook start-ssh-daemon --explain [--root=DIRECTORY]  (shows what it would do)\n"
    "\n"
    "Starts an SSH daemon in the container, and gives it a command ssh that reaches the user's other "
    "containers.\n"
    "keygen and check-user-has-sshkeys also accept --verbose and --debug.\n";

struct Login {
    std::string name;
    std::string home;
};

Login findLogin(const HookContext& context, int root) {
    constexpr std::size_t maxPasswd = 64U << 20U;
    const auto ids = hook_contracts::findEnteredIds(context.config());
    const uid_t uid = ids ? ids->uid : context.config().user().uid;
    const auto text = container_root::tryReadFileInRoot(root, "/etc/passwd", maxPasswd);
    const auto entry = text ? findPasswdEntry(*text, uid) : std::nullopt;
    if (!entry) {
        throw Error(cat("The container's /etc/passwd has no entry for the user ", uid));
    }
    if (entry->home.empty() || entry->home == "/nonexistent" || entry->home.front() != '/') {
        throw Error(cat("SSH needs a home directory, but the container's /etc/passwd has '",
                        printable(entry->home), "' for the user ", uid));
    }
    return {entry->name, entry->home};
}

void patchPasswd(const container_root::Editor& editor, int root, const HookLogger& log) {
    constexpr std::size_t maxPasswd = 64U << 20U;
    const auto text = container_root::tryReadFileInRoot(root, "/etc/passwd", maxPasswd).value_or("");
    const auto exists = [&](const std::string& shell) {
        const auto file = container_root::tryFindInRoot(root, shell);
        struct stat status {};
        return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
               (status.st_mode & 0111U) != 0;
    };
    try {
        if (const auto patched = replaceMissingShells(text, exists)) {
            editor.replaceFile("/etc/passwd", *patched, 0644);
        }
    } catch (const Error& error) {
        log.warn(cat("Login shells that do not exist stay in /etc/passwd: ", error.what()));
    }
}

/// With the user's rights: the path is the user's or the image's.
std::string readAuthorizedKey(const std::string& path) {
    constexpr std::size_t maxFile = 64U << 10U;
    const container_root::ContainerView view;
    try {
        const auto place = openFile(path, O_PATH);
        struct stat status {};
        const auto file = container_root::tryOpenFound(place.get(), status);
        if (!file && errno == EINVAL) {
            throw Error("it is not a regular file");
        }
        checkErrno(file.get(), "Failed to open it");
        return parsePublicKeys(readAll(file.get(), maxFile, printable(path)));
    } catch (Error& error) {
        error.addContext(cat("Cannot authorize the SSH key ", printable(path)));
        throw;
    }
}

UserKeys requireKeys(const std::string& directory, uid_t owner) {
    auto keys = loadKeys(directory, owner);
    if (!keys) {
        throw Error(cat("There are no SSH keys in ", printable(directory)),
                    "Make them with 'sarus ssh-keygen'");
    }
    return std::move(*keys);
}

/// Returns false if a process of the user listens on the port already.
bool isPortFree(std::uint16_t port, uid_t uid, const HookLogger& log) {
    const auto listener = listenerOf(port, uid);
    if (!listener) {
        return true;
    }
    if (listener->uid != uid) {
        throw Error(cat("Another user's process listens on the SSH port ", port, " of this node"),
                    "Choose another port with the annotation com.hooks.ssh.port");
    }
    const auto process = processOfSocket(listener->inode);
    log.warn(cat("No SSH daemon starts in this container: port ", port, " of this node is in use by process ",
                 process ? cat(*process) : "(unknown)", " of yours"));
    return false;
}

/// nullopt if another container of the user, which started at the same time, has taken the port.
std::optional<StartedDaemon> startUnlessAnotherDid(const DaemonRequest& request, uid_t uid) {
    try {
        return startDaemon(request);
    } catch (const Error&) {
        if (isPortFree(request.port, uid, request.log)) {
            throw;
        }
        return std::nullopt;
    }
}

std::string hostName() {
    std::string name(256, '\0');
    ::gethostname(name.data(), name.size() - 1);
    return name.substr(0, name.find('\0'));
}

std::string defaultPidFile(const HookContext& context, std::uint16_t port) {
    return cat(context.bundle(), "/dropbear-", hostName(), '-', context.state().id, '-', port, ".pid");
}

void writePidFiles(const HookContext& context, const container_root::Editor& editor,
                   const ContainerUser& user, const Wishes& wishes, std::uint16_t port,
                   const StartedDaemon& daemon, const HookLogger& log) {
    const auto attempt = [&](auto write) {
        try {
            write();
        } catch (const Error& error) {
            log.warn(error.what());
        }
    };
    const auto attemptAsUser = [&](auto write) {
        attempt([&] {
            runAsContainerUser(user, [&] {
                write();
                return std::string();
            });
        });
    };
    const auto inside = cat(daemon.pidInside, '\n');
    const auto outside = cat(daemon.pid, '\n');
    if (wishes.pidFileInside) {
        attemptAsUser([&] { writePidFileInside(editor, *wishes.pidFileInside, inside); });
    } else {
        attempt([&] { editor.replaceFile(pidFileInside, inside, 0644); });
        attempt([&] {
            editor.makeDirectory("/var/run/dropbear");
            editor.replaceFile(otherPidFileInside, inside, 0644);
        });
    }
    if (wishes.pidFileOutside) {
        attemptAsUser([&] { writePidFile(*wishes.pidFileOutside, outside); });
    } else {
        attempt([&] { writePidFile(defaultPidFile(context, port), outside); });
    }
}

void startInContainer(const Settings& settings, const Wishes& wishes, HookContext& context,
                      const HookLogger& log) {
    const auto& config = context.config();
    const auto user = mapContainerUser(config.user(), config.uidMappings(), config.gidMappings());
    const auto port = wishes.port.value_or(settings.port);
    requireDropbear(settings.dropbearDirectory);
    const auto keysPath = keysDirectory(settings, callersUid(context));
    const auto [keys, extraKeys] = [&] {
        const bool isRoot = ::geteuid() == 0 && isInitialUserNamespace();
        const auto viewer = isRoot ? std::make_unique<container_root::ContainerViewer>(user) : nullptr;
        const container_root::ContainerView view;
        return std::pair(requireKeys(keysPath, user.uid),
                         wishes.authorizedKey ? readAuthorizedKey(*wishes.authorizedKey) : std::string());
    }();
    const auto identity = findIdentity(context, user);
    // A mount that the container does not see would stay.
    const bool isOutside =
        !settings.joinNamespaces && isInOtherNamespace(context.state().pid, NamespaceKind::mount);
    if (!settings.joinNamespaces) {
        context.stayOutside();
    }
    const int root = context.rootfs();
    const auto login = findLogin(context, root);
    const container_root::Editor editor(root);
    installFiles(editor, root, settings.dropbearDirectory, config,
                 {.home = login.home, .port = port, .publicHostKey = publicHalf(keys.hostKey)}, log);
    patchPasswd(editor, root, log);
    fillSshDirectory(editor, root, login.home, user, keys, extraKeys, settings.overlay && !isOutside, log);
    if (!isPortFree(port, user.uid, log)) {
        return;
    }
    const auto daemon = startUnlessAnotherDid({.context = context,
                                               .identity = identity,
                                               .root = root,
                                               .joinsPidNamespace = settings.joinNamespaces,
                                               .port = port,
                                               .hostKey = cat(login.home, "/.ssh/dropbear_ecdsa_host_key"),
                                               .log = log},
                                              user.uid);
    if (!daemon) {
        return;
    }
    log.info(
        cat("SSH daemon ", daemon->pid, " listens on port ", port, " for the user ", printable(login.name)));
    writePidFiles(context, editor, user, wishes, port, *daemon, log);
}

/// The keeper ends the daemon. What remains is the file; and the daemon, if its keeper was killed.
void cleanUp(const Settings& settings, const Wishes& wishes, const HookContext& context) {
    const auto port = wishes.port.value_or(settings.port);
    if (!wishes.pidFileOutside) {
        endDaemonOf(takePidFile(defaultPidFile(context, port)), context);
        return;
    }
    becomeContainerUser(context);
    endDaemonOf(takePidFile(*wishes.pidFileOutside), context);
}

void requireArguments(const HookSetup& setup) {
    if (setup.arguments != std::vector<std::string>{"start-ssh-daemon"}) {
        throw Error("The arguments must be: start-ssh-daemon",
                    "\"args\": [\"ssh_hook\", \"start-ssh-daemon\"] in the hook's JSON file");
    }
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    requireArguments(setup);
    const auto settings = readSettings(setup.environment);
    const auto wishes = readWishes(context);
    if (oci::stageAfterStart(context.state())) {
        cleanUp(settings, wishes, context);
    } else {
        startInContainer(settings, wishes, context, log);
    }
}

void check(const HookSetup& setup, Findings& findings) {
    findings.attempt([&] { requireArguments(setup); });
    const auto settings = readSettings(setup.environment);
    findings.requireFile("HOOK_BASE_DIR", settings.baseDirectory);
    findings.requireFile("PASSWD_FILE", settings.passwdFile);
    findings.attempt([&] { requireDropbear(settings.dropbearDirectory); });
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto settings = readSettings(setup.environment);
    auto& context = request.container();
    const auto wishes = readWishes(context);
    printLine(cat("start an SSH daemon on port ", wishes.port.value_or(settings.port)));
    printLine(cat("mount an overlay on ~/.ssh: ", settings.overlay ? "yes" : "no"));
    if (wishes.authorizedKey) {
        printLine(cat("authorize the public keys in ", printable(*wishes.authorizedKey)));
    }
}

int generate(const Settings& settings, const std::string& directory, bool overwrite) {
    printLine(generateKeys(directory, settings.dropbearDirectory, overwrite)
                  ? cat("Generated SSH keys in ", printable(directory))
                  : cat("SSH keys exist already in ", printable(directory),
                        ". Use the option '--overwrite' to replace them"));
    return 0;
}

/// keygen and check-user-has-sshkeys: with the rights of the caller, and without a container.
int runForUser(const std::vector<std::string>& words) {
    const bool isKeygen = words.front() == "keygen";
    bool overwrite = false;
    for (const auto& word : std::span(words).subspan(1)) {
        if (word == "--overwrite" && isKeygen) {
            overwrite = true;
        } else if (word == "--verbose" || word == "--debug") {
            setLogLevel(word == "--debug" ? LogLevel::debug : LogLevel::info);
        } else {
            throw Error(cat("Unknown argument ", printable(word)), "ssh_hook --help lists what there is");
        }
    }
    const auto environment = HookEnvironment::take();
    Settings settings;
    settings.baseDirectory = environment.require("HOOK_BASE_DIR");
    settings.passwdFile = environment.require("PASSWD_FILE");
    const auto directory = keysDirectory(settings, callersUid());
    if (isKeygen) {
        settings.dropbearDirectory = environment.require("DROPBEAR_DIR");
        return generate(settings, directory, overwrite);
    }
    if (!loadKeys(directory, ::getuid())) {
        logInfo("SSH hook", cat("There are no SSH keys in ", printable(directory)));
        return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    if (!words.empty() && (words.front() == "keygen" || words.front() == "check-user-has-sshkeys")) {
        try {
            ::umask(077);
            std::signal(SIGPIPE, SIG_IGN);
            return runForUser(words);
        } catch (const Error& error) {
            printError(cat("ssh_hook: ", error.what()));
            if (!error.hint().empty()) {
                printError(cat("hint: ", error.hint()));
            }
            return 1;
        }
    }
    return hookMain(argc, argv,
                    {.program = "ssh_hook",
                     .logName = "SSH hook",
                     .usage = usage,
                     .variables = {"HOOK_BASE_DIR", "PASSWD_FILE", "DROPBEAR_DIR", "SERVER_PORT_DEFAULT",
                                   "SERVER_PORT", "OVERLAY_MOUNT_HOME_SSH", "JOIN_NAMESPACES"},
                     .takesArguments = true,
                     .check = check,
                     .explain = explain,
                     .run = runAsHook});
}
