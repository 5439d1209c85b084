#pragma once

#include <string>
#include <vector>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

// What Podman reads and writes besides its arguments: configuration files, the stores' directories, and
// variables of the environment.

/// Text of `<config_home>/containers/storage.conf`.
std::string storageConfiguration(const Settings& settings, const std::string& squashDir);

/// Text of `<config_home>/containers/containers.conf`.
std::string containersConfiguration();

/// Writes both files if they are absent, and links the user's own registries, policy and credentials beside
/// them, which XDG_CONFIG_HOME would hide. Throws Error.
void provideConfigHome(const Settings& settings, const std::string& squashDir, const Surroundings& from);

/// Creates the directory, and those above it, with this mode if they are absent. Throws Error if another user
/// owns a directory on the way that lies in a directory which everybody can write.
void requireOwnDirectory(const std::string& path, uid_t uid, mode_t mode = 0700);

/// Makes `link` lead to `target`, if `target` exists and `link` is nothing else than such a link. Throws
/// Error.
void provideLink(const std::string& link, const std::string& target);

/// Creates a file that is absent, as a whole: ranks of a job do this at the same time. Throws Error.
void writeIfAbsent(const std::string& path, const std::string& text, mode_t mode);

/// Whether a list of a store is missing beside files of images or layers.
bool hasLostList(const std::string& list);

/// Makes the squash store usable: a store without images, where it is absent. Podman refuses an additional
/// store that does not exist. The caller's umask says who else can read it. Throws Error like
/// requireOwnDirectory.
void provideSquashStore(const std::string& squashDir, uid_t uid);

/// A variable to set, or without value to remove.
struct VariableChange {
    std::string name;
    std::optional<std::string> value;
};

/// What Podman's environment has other than ours. `login`: the command is `login`, which may create the file
/// with the credentials.
std::vector<VariableChange> podmanEnvironment(const Settings& settings, const Surroundings& from, bool login);

}  // namespace sarus::podman_hpc
