#pragma once

#include <string>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

// How the hook knows that podman-hpc has started the container. Podman takes over annotations of images, and
// a build takes over variables, too. No image can write a hook's file.

/// The hook's annotation in hook files.
inline constexpr const char* hookAnnotation = "podman_hpc.hook_tool";
/// The variable in the hook's `env` that only podman-hpc sets: the command.
inline constexpr const char* callVariable = "PODMANHPC_CALL";
inline constexpr const char* modulesVariable = "PODMANHPC_MODULES_DIR";

/// The file of `hooks_dir` that starts podman-hpc's hook.
struct HookRegistration {
    std::string file;
    std::string program;
};

/// Throws Error with a hint if no file starts the hook, or if its program cannot be executed: then Podman
/// starts containers without it, and modules copy and bind nothing.
HookRegistration requireHook(const Settings& settings);

/// Writes the hook files of `hooks_dir` that start podman-hpc's hook into a directory below `config_home`,
/// with `modules_dir` and `command` in their `env`. With a later `--hooks-dir`, they replace those of the
/// same name. Returns the directory, or "" if there are no such files. Throws Error if somebody other than
/// root and the caller can change the modules.
std::string provideOwnHooks(const Settings& settings, const std::string& command, uid_t uid);

}  // namespace sarus::podman_hpc
