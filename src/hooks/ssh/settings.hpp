#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_environment.hpp"

namespace sarus::hooks::ssh {

/// What the hook's JSON file configures.
struct Settings {
    std::string baseDirectory;      ///< HOOK_BASE_DIR
    std::string passwdFile;         ///< PASSWD_FILE
    std::string dropbearDirectory;  ///< DROPBEAR_DIR
    std::uint16_t port = 0;         ///< SERVER_PORT_DEFAULT, else SERVER_PORT
    bool overlay = true;            ///< OVERLAY_MOUNT_HOME_SSH
    bool joinNamespaces = true;     ///< JOIN_NAMESPACES
};

/// Throws Error if a variable is missing or has no meaning.
Settings readSettings(const HookEnvironment& environment);

/// A port from 1024 to 65535; `name` is for the message. Throws Error.
std::uint16_t parsePort(std::string_view name, const std::string& text);

/// What the user asks for. The values come from users and images.
struct Wishes {
    std::optional<std::uint16_t> port;          ///< com.hooks.ssh.port
    std::optional<std::string> authorizedKey;   ///< com.hooks.ssh.authorize_ssh_key
    std::optional<std::string> pidFileInside;   ///< com.hooks.ssh.pidfile_container
    std::optional<std::string> pidFileOutside;  ///< com.hooks.ssh.pidfile_host
};

/// Throws Error.
Wishes readWishes(const HookContext& context);

}  // namespace sarus::hooks::ssh
