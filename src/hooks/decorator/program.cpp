#include "hooks/decorator/program.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/config_files.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "hook_contracts/decorator.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"

namespace sarus::hooks {

namespace {

using hook_contracts::Decoration;
using hook_contracts::DecoratorArguments;
using hook_contracts::InventoryFeature;
using hook_contracts::parseDecoratorArguments;

constexpr std::string_view usage =
    "Usage: decorator_hook [OPTION]...                (an OCI hook: reads the container's state)\n"
    "       decorator_hook [OPTION]... --check        (looks for mistakes in the inventories)\n"
    "       decorator_hook [OPTION]... --explain [--root=DIRECTORY] [--env=NAME=VALUE]...  (shows what it "
    "would do)\n"
    "\n"
    "Brings what the inventories list into containers whose environment asks for it.\n"
    "\n"
    "--config-dir=DIRECTORY  directory of the inventories (default /etc/oci-decorator/oci-decorator.d)\n"
    "--mode=bind|copy        copy: copy files, so that they get the container's SELinux label; bind: mount "
    "them (default)\n"
    "--env=NAME=VALUE        give the container of --explain a variable\n";

/// A process without root's rights may read its user's own inventories: it can do nothing that the user
/// cannot.
bool mustBeRoots(const std::string& directory) {
    struct stat status {};
    const bool isOwn =
        ::geteuid() != 0 && ::stat(directory.c_str(), &status) == 0 && status.st_uid == ::geteuid();
    return isInitialUserNamespace() && !isOwn;
}

hook_contracts::Inventories readInventories(const std::string& directory) {
    return hook_contracts::parseInventories(
        readTrustedFiles(directory, {".cfg", ".json"}, mustBeRoots(directory)));
}

/// Refuses a container that requests a broken inventory. Other containers are not affected.
void refuseBroken(const std::vector<hook_contracts::BrokenInventory>& broken, const HookContext& context,
                  const HookLogger& log) {
    for (const auto& inventory : broken) {
        if (inventory.activationFlag.empty()) {
            log.warn(cat("Ignoring an inventory: ", inventory.problem));
        } else if (const auto value = context.containerVariable(inventory.activationFlag);
                   value && !hook_contracts::isSwitchedOff(*value)) {
            throw Error(inventory.problem, cat("The container asks for it with the variable ",
                                               printable(inventory.activationFlag)));
        }
    }
}

/// The edits for each vendor, after checking that all of them can provide what the container requests.
std::vector<Decoration> planDecorations(const DecoratorArguments& options, const HookContext& context,
                                        const HookLogger& log) {
    hook_contracts::Inventories inventories;
    try {
        inventories = readInventories(options.directory);
    } catch (const Error& error) {
        if (!options.isDefaultDirectory || error.errnum() != ENOENT || pathExists(options.directory)) {
            throw;
        }
        log.info(cat("There is no ", options.directory, " on this node: nothing to do"));
        return {};
    }
    refuseBroken(inventories.broken, context, log);
    auto decorations = hook_contracts::selectDecorations(
        std::move(inventories.usable),
        [&](const std::string& name) { return context.containerVariable(name); });
    for (const auto& decoration : decorations) {
        const auto& features = decoration.features;
        log.info(
            cat(decoration.inventory.activationFlag, ": ", features.empty() ? "off" : join(features, ", ")));
    }
    std::erase_if(decorations, [](const Decoration& decoration) { return decoration.features.empty(); });
    return decorations;
}

constexpr std::array fileLists{&InventoryFeature::binaries, &InventoryFeature::libraries,
                               &InventoryFeature::miscellaneous};

class Decorator {
public:
    Decorator(HookContext& hookContext, bool copyFiles, const HookLogger& hookLog)
        : context(hookContext), log(hookLog), root(context.rootfs()), editor(root), copies(copyFiles) {}

    void apply(const InventoryFeature& edits) {
        for (const auto& device : edits.devices) {
            if (!pathExists(device)) {
                throw Error(cat("There is no device ", printable(device),
                                " on this node, which the container asks for"));
            }
            mountDevice(editor, context, device, device, "rw", log);
        }
        for (const auto& directory : edits.directories) {
            editor.makeDirectory(directory);
        }
        for (const auto list : fileLists) {
            for (const auto& file : edits.*list) {
                bring(file);
            }
        }
        needsCache = needsCache || !edits.libraries.empty();
    }

    void finish() const {
        if (needsCache) {
            updateLinkerCacheIfPossible(root, log);
        }
    }

private:
    void bring(const std::string& path) {
        if (!pathExists(path)) {
            log.warn(cat("There is no ", printable(path), " on this node: the container does not get it"));
        } else if (copies) {
            editor.copyFile(path, path);
            log.info(cat("Copied ", printable(path), " into the container"));
        } else {
            editor.bind(path, path, {.readonly = true});
            log.info(cat("Mounted ", printable(path), " in the container"));
        }
    }

    HookContext& context;
    const HookLogger& log;
    int root;
    container_root::Editor editor;
    bool copies;
    bool needsCache = false;
};

void check(const HookSetup& setup, Findings& findings) {
    const auto options = parseDecoratorArguments(setup.arguments);
    if (options.isDefaultDirectory && !pathExists(options.directory)) {
        findings.note(cat("there is no ", options.directory, " on this node, so the hook does nothing"));
        return;
    }
    const auto inventories = readInventories(options.directory);
    for (const auto& broken : inventories.broken) {
        findings.problem(broken.problem);
    }
    for (const auto& inventory : inventories.usable) {
        const auto all = hook_contracts::mergeFeatures(inventory, inventory.features);
        for (const auto list : {&InventoryFeature::devices, fileLists[0], fileLists[1], fileLists[2]}) {
            for (const auto& path : all.*list) {
                findings.requireFile(printable(inventory.file), path);
            }
        }
    }
}

void explain(const HookSetup& setup, const ExplainRequest& request) {
    const auto options = parseDecoratorArguments(setup.arguments);
    const auto decorations = planDecorations(options, request.container(), HookLogger("Decorator hook"));
    if (decorations.empty()) {
        printLine("nothing: the container asks for no inventory");
    }
    for (const auto& [inventory, features, edits] : decorations) {
        printLine(cat("inventory ", printable(inventory.file), " (", inventory.activationFlag, ')'));
        for (const auto& device : edits.devices) {
            printLine(cat("device ", printable(device), " (rw)"));
        }
        for (const auto& directory : edits.directories) {
            printLine(cat("directory ", printable(directory)));
        }
        for (const auto list : fileLists) {
            for (const auto& file : edits.*list) {
                printLine(cat(options.copy ? "copy " : "mount ", printable(file),
                              pathExists(file) ? "" : " (not on this node)"));
            }
        }
    }
}

void runAsHook(const HookSetup& setup, HookContext& context, const HookLogger& log) {
    const auto options = parseDecoratorArguments(setup.arguments);
    const auto decorations = planDecorations(options, context, log);
    if (decorations.empty()) {
        return;
    }
    Decorator decorator(context, options.copy, log);
    const auto usualLevel = logLevel();
    const bool isLevelGiven = context.annotation(logLevelAnnotation).has_value();
    for (const auto& [inventory, features, edits] : decorations) {
        setLogLevel(isLevelGiven ? usualLevel : inventory.logLevel.value_or(usualLevel));
        log.debug(cat(printable(inventory.file), ": version ", printable(inventory.version)));
        decorator.apply(edits);
    }
    setLogLevel(usualLevel);
    decorator.finish();
}

}  // namespace

HookProgram decorator::program() {
    return {.program = "decorator_hook",
            .logName = "Decorator hook",
            .usage = usage,
            .takesArguments = true,
            .check = check,
            .explain = explain,
            .run = runAsHook};
}

}  // namespace sarus::hooks
