#include "hooks/ssh/settings.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::ssh {

namespace {

std::string requirePath(std::string_view name, const std::string& path) {
    if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos) {
        throw Error(cat(name, " is not an absolute path: ", printable(path)));
    }
    return path;
}

}  // namespace

std::uint16_t parsePort(std::string_view name, const std::string& text) {
    const auto number = parseNumber(text);
    if (!number || *number < 1024 || *number > 65535) {
        throw Error(cat(name, " is '", printable(text), "', but must be a port from 1024 to 65535"));
    }
    return static_cast<std::uint16_t>(*number);
}

Settings readSettings(const HookEnvironment& environment) {
    Settings settings;
    for (const auto& [name, path] :
         {std::pair("HOOK_BASE_DIR", &settings.baseDirectory), std::pair("PASSWD_FILE", &settings.passwdFile),
          std::pair("DROPBEAR_DIR", &settings.dropbearDirectory)}) {
        *path = requirePath(name, environment.require(name));
    }
    const bool isNew = environment.find("SERVER_PORT_DEFAULT").has_value();
    const auto* const port = isNew ? "SERVER_PORT_DEFAULT" : "SERVER_PORT";
    settings.port = parsePort(port, environment.require(port));
    settings.overlay = environment.isTrue("OVERLAY_MOUNT_HOME_SSH", true);
    settings.joinNamespaces = environment.isTrue("JOIN_NAMESPACES", true);
    return settings;
}

Wishes readWishes(const HookContext& context) {
    Wishes wishes;
    if (const auto port = context.annotation("com.hooks.ssh.port")) {
        wishes.port = parsePort("The annotation com.hooks.ssh.port", *port);
    }
    for (const auto& [key, path] : {std::pair("com.hooks.ssh.authorize_ssh_key", &wishes.authorizedKey),
                                    std::pair("com.hooks.ssh.pidfile_container", &wishes.pidFileInside),
                                    std::pair("com.hooks.ssh.pidfile_host", &wishes.pidFileOutside)}) {
        if (const auto value = context.annotation(key)) {
            *path = requirePath(cat("The annotation ", key), *value);
        }
    }
    return wishes;
}

}  // namespace sarus::hooks::ssh
