#include "hooks/ssh/container_files.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/root_files.hpp"
#include "hooks/ssh/login_environment.hpp"

namespace sarus::hooks::ssh {

namespace {

constexpr std::string_view profileScript =
    "#!/bin/sh\n"
    "if [ \"$SSH_CONNECTION\" ]; then\n"
    "    . /opt/oci-hooks/dropbear/environment\n"
    "fi\n";

constexpr std::string_view profileLine =
    "\n[ ! -r /etc/profile.d/ssh-hook.sh ] || . /etc/profile.d/ssh-hook.sh\n";

constexpr std::string_view sftpServer =
    "#!/bin/sh\n"
    "for program in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server "
    "\\\n"
    "    /usr/libexec/sftp-server /usr/libexec/ssh/sftp-server; do\n"
    "    [ ! -x \"$program\" ] || exec \"$program\" \"$@\"\n"
    "done\n"
    "echo 'The image has no SFTP server (package openssh-sftp-server)' >&2\n"
    "exit 127\n";

/// With the key by its path, because the client would look for it in $HOME. Launchers of MPI call `ssh -x`:
/// Dropbear, which never forwards X11, would warn that it does not know the option.
std::string clientScript(const ClientSettings& client) {
    return cat("#!/bin/sh\nwhile [ \"$1\" = -x ]; do shift; done\nSSH_HOOK_HOST_KEY=", client.publicHostKey,
               " exec ", directoryInside, "/bin/dbclient -i ",
               quoteForShell(cat(client.home, "/.ssh/id_dropbear")), " -p ", client.port, " \"$@\"\n");
}

/// So that a login shell has PATH as the container's command has it, although /etc/profile sets it.
void extendProfile(const container_root::Editor& editor, int root) {
    constexpr std::size_t maxProfile = 1U << 20U;
    const auto profile = container_root::tryReadFileInRoot(root, "/etc/profile", maxProfile);
    if (profile && profile->find("/etc/profile.d") == std::string::npos) {
        editor.replaceFile("/etc/profile", cat(*profile, profileLine), 0644);
    }
}

}  // namespace

void installFiles(const container_root::Editor& editor, int root, const std::string& dropbearDirectory,
                  const oci::BundleConfig& config, const ClientSettings& client, const HookLogger& log) {
    const auto inside = [](std::string_view name) { return cat(directoryInside, '/', name); };
    editor.makeDirectory(inside("bin"));
    editor.copyFile(cat(dropbearDirectory, "/bin/dropbearmulti"), inside("bin/dropbearmulti"));
    editor.link(inside("bin"), {"dropbear", "dbclient", "dropbearkey"}, inside("bin/dropbearmulti"));
    editor.link("/opt/oci-hooks", {"dropbear"}, directoryInside);
    editor.replaceFile(inside("bin/sftp-server"), sftpServer, 0755);

    const auto variables = config.environment();
    editor.replaceFile(inside("login-environment"), formatEnvironment(variables), 0644);
    editor.replaceFile(inside("environment"), formatExports(variables), 0744);
    editor.makeDirectory("/usr/bin");
    editor.replaceFile("/usr/bin/ssh", clientScript(client), 0755);
    try {
        editor.makeDirectory("/etc/profile.d");
        editor.replaceFile("/etc/profile.d/ssh-hook.sh", profileScript, 0644);
        extendProfile(editor, root);
    } catch (const Error& error) {  // Dropbear gives login shells the environment, too
        log.warn(cat("A login shell may have another environment: ", error.what()));
    }
}

}  // namespace sarus::hooks::ssh
