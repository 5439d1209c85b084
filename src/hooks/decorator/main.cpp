#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/namespaces.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/kit/run_hook.hpp"
#include "oci/inventory.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;
using oci::Inventory;
using oci::InventoryFeature;

constexpr std::string_view kUsage =
    "Usage: decorator_hook [--config-dir=DIRECTORY] [--mode=bind|copy]\n"
    "\n"
    "An OCI hook: it reads the container's state on standard input, and brings what the inventories in DIRECTORY\n"
    "(default /etc/oci-decorator/oci-decorator.d) list into containers whose environment asks for it.\n"
    "With --mode=copy files are copied instead of mounted, so that they get the container's SELinux label.\n";

struct Options {
    std::string directory{oci::defaultInventoryDirectory};
    bool isDefaultDirectory = true;
    bool copy = false;
};

Options parseOptions(std::span<const char* const> arguments) {
    constexpr std::string_view configDirectory = "--config-dir=";
    Options options;
    for (const std::string_view argument : arguments) {
        if (argument.starts_with(configDirectory)) {
            options.directory = argument.substr(configDirectory.size());
            options.isDefaultDirectory = false;
            if (!options.directory.starts_with('/')) {
                throw Error(cat("--config-dir: not an absolute path: '", printable(options.directory), "'"));
            }
        } else if (argument == "--mode=bind" || argument == "--mode=copy") {
            options.copy = argument == "--mode=copy";
        } else {
            throw Error(
                cat("Unknown argument ", printable(argument)),
                "\"args\" in the hook's JSON file are decorator_hook, --config-dir=DIRECTORY and --mode=bind or --mode=copy");
        }
    }
    return options;
}

std::vector<Inventory> readInventories(const Options& options, const HookLog& log) {
    try {
        return oci::readInventories(options.directory, isInitialUserNamespace());
    } catch (const Error& error) {
        if (!options.isDefaultDirectory || error.errnum() != ENOENT || pathExists(options.directory)) {
            throw;
        }
        log.info(cat("There is no ", options.directory, " on this node: nothing to do"));
        return {};
    }
}

/// What one vendor brings, after all vendors have been found to be able to do what the container asks of them.
struct Decoration {
    const Inventory* inventory;
    InventoryFeature edits;
};

std::vector<Decoration> planDecorations(const std::vector<Inventory>& inventories, const HookContext& context,
                                        const HookLog& log) {
    std::vector<Decoration> decorations;
    for (const auto& inventory : inventories) {
        if (const auto value = context.containerVariable(inventory.activationFlag)) {
            const auto features = oci::selectFeatures(inventory, *value);
            log.info(cat(inventory.activationFlag, ": ", features.empty() ? "off" : join(features, ", ")));
            if (!features.empty()) {
                decorations.push_back({&inventory, oci::mergeFeatures(inventory, features)});
            }
        }
    }
    return decorations;
}

class Decorator {
public:
    Decorator(HookContext& hookContext, bool copyFiles, const HookLog& hookLog)
        : context(hookContext), log(hookLog), root(context.rootfs()), editor(root), copies(copyFiles) {}

    void apply(const InventoryFeature& edits) {
        for (const auto& device : edits.devices) {
            if (!pathExists(device)) {
                throw Error(cat("There is no device ", printable(device), " on this node, which the container asks for"));
            }
            mountDevice(editor, context, device, device, "rw", log);
        }
        for (const auto& directory : edits.directories) {
            editor.makeDirectory(directory);
        }
        for (const auto* files : {&edits.binaries, &edits.libraries, &edits.miscellaneous}) {
            for (const auto& file : *files) {
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
            editor.bind(path, path, {.readonly = true}, RootEditor::Destination::notTheKernels);
            log.info(cat("Mounted ", printable(path), " in the container"));
        }
    }

    HookContext& context;
    const HookLog& log;
    int root;
    RootEditor editor;
    bool copies;
    bool needsCache = false;
};

void runAsHook(std::span<const char* const> arguments, HookContext& context, const HookLog& log) {
    const auto options = parseOptions(arguments);
    const auto inventories = readInventories(options, log);
    const auto decorations = planDecorations(inventories, context, log);
    if (decorations.empty()) {
        return;
    }
    Decorator decorator(context, options.copy, log);
    const auto usualLevel = logLevel();
    const bool isLevelGiven = context.annotation(kLogLevelAnnotation).has_value();
    for (const auto& [inventory, edits] : decorations) {
        setLogLevel(isLevelGiven ? usualLevel : inventory->logLevel.value_or(usualLevel));
        log.debug(cat(printable(inventory->file), ": version ", printable(inventory->version)));
        decorator.apply(edits);
    }
    setLogLevel(usualLevel);
    decorator.finish();
}

}  // namespace

int main(int argc, char** argv) {
    const auto arguments = std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(argc > 0 ? 1 : 0);
    if (arguments.size() == 1 && std::string_view(arguments[0]) == "--help") {
        return ::write(STDOUT_FILENO, kUsage.data(), kUsage.size()) == static_cast<ssize_t>(kUsage.size()) ? 0 : 1;
    }
    return runHook("Decorator hook", [arguments](HookContext& context, const HookEnvironment&, const HookLog& log) {
        runAsHook(arguments, context, log);
    });
}
