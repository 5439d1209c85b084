#pragma once

#include <cstdint>
#include <string>

#include "container_root/editor.hpp"
#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_logger.hpp"

namespace sarus::hooks::ssh {

/// Where the SSH software is in a container. /opt/oci-hooks/dropbear leads there, too. Dropbear has these
/// names compiled in: packaging/dropbear/localoptions.h.
inline constexpr const char* directoryInside = "/opt/oci-hooks/ssh/dropbear";
inline constexpr const char* pidFileInside = "/opt/oci-hooks/ssh/dropbear/dropbear.pid";
inline constexpr const char* otherPidFileInside = "/var/run/dropbear/dropbear.pid";

/// Of the command `ssh` in the container.
struct ClientSettings {
    std::string home;           ///< of the user, where the key is
    std::uint16_t port = 0;     ///< that it connects to
    std::string publicHostKey;  ///< the only one that it accepts, in base64
};

/// Brings the programs, the environment of login shells and the command `ssh`. Throws Error.
void installFiles(const container_root::Editor& editor, int root, const std::string& dropbearDirectory,
                  const oci::BundleConfig& config, const ClientSettings& client, const HookLogger& log);

}  // namespace sarus::hooks::ssh
