#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc {

/// A site module: a file of `modules_dir`.
struct Module {
    std::string file;
    std::string name;
    std::string flag{};  ///< without the dashes; "" if no option enables it
    std::string help{};
    bool hidden = false;
    std::string variable{};  ///< its presence in a container's environment enables the hook's part
    std::vector<std::string> podmanArguments{};
    bool sharedRun = false;
    std::vector<std::string> conflicts{};
    std::vector<std::string> dependencies{};
    std::vector<std::string> copyRules{};  ///< for the hook tool
    std::vector<std::string> bindRules{};
};

/// A remark about a file of modules.
struct ModuleProblem {
    bool isError;  ///< the module cannot be used
    std::string message;
};

/// What is wrong with one file, for `podman-hpc module check`.
struct CheckedModule {
    std::string file;
    std::optional<Module> module;
    std::vector<ModuleProblem> problems;
};

/// Parses a module. Throws Error "FILE:LINE: reason" for one that cannot be used.
Module parseModule(const std::string& text, const std::string& file);

/// Parses a file and looks for mistakes that the parser accepts. `podmanOptions`: long options of `podman
/// run` that a module would hide.
CheckedModule checkModule(const std::string& file, const std::set<std::string>& podmanOptions);

/// The paths of all modules of the directory, by name. None if there is no directory.
std::vector<std::string> moduleFiles(const std::string& directory);

/// The modules of the directory, by the name of their file. One that is broken is left out and reported to
/// `warn`. Of two with the same name, the last counts.
std::vector<Module> loadModules(const std::string& directory,
                                const std::function<void(const std::string&)>& warn);

/// The options that enable modules, without the dashes.
std::set<std::string> flagsOf(const std::vector<Module>& modules);

/// Warnings for enabled modules that conflict or lack what they depend on.
std::vector<std::string> selectionWarnings(const std::vector<Module>& modules,
                                           const std::set<std::string>& flags);

/// Whether the hook has anything to do for a module: its option is among `flags`, or the caller sets its
/// variable himself (`-e ENABLE_X=1` in `words`).
bool needsHook(const Module& module, const std::set<std::string>& flags,
               const std::vector<std::string>& words);

/// The annotations that carry variables to the hook: `podman_hpc.variables=NAME...` lists those of
/// `podman_hpc.env.NAME=VALUE` that come from the caller. It is always there, because Podman takes over
/// annotations of the image.
inline constexpr std::string_view variablesAnnotation = "podman_hpc.variables";
inline constexpr std::string_view variableAnnotationPrefix = "podman_hpc.env.";

/// The variable of the container that names the hook's log. The hook takes it from podman-hpc, as it takes
/// variables in rules.
inline constexpr const char* hookLogVariable = "LOG_PLUGIN";

/// The absolute path in `-e LOG_PLUGIN=FILE` among options of Podman; "" if there is none.
std::string hookLogOf(const std::vector<std::string>& words);

/// The first line of the hook's log (LOG_PLUGIN). The hook writes only to files that begin so.
inline constexpr std::string_view firstLogLine = "input";

/// Podman's arguments of the enabled modules, in the order of the modules. The hook sees neither the caller's
/// environment nor its home: variables in rules of these modules, and of those whose variable the caller sets
/// himself (`-e ENABLE_X=1` in `words`), become annotations.
std::vector<std::string> moduleArguments(const std::vector<Module>& modules,
                                         const std::set<std::string>& flags, const Surroundings& from,
                                         const std::vector<std::string>& words = {});

/// Those of the enabled modules' arguments that set variables: all that a running container can be given.
std::vector<std::string> environmentArguments(const std::vector<Module>& modules,
                                              const std::set<std::string>& flags);

}  // namespace sarus::podman_hpc
