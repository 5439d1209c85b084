#include "hooks/mpi/inject.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "container_root/editor.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/linker_cache/cache_amendment.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"

namespace sarus::hooks::mpi {

namespace {

/// Whether the destination is not writable; the container may work nevertheless.
bool isNotWritable(const Error& error) {
    return error.errnum() == EROFS || error.errnum() == EXDEV;
}

void makeLinks(const container_root::Editor& editor, const std::vector<Injection>& injections,
               const HookLogger& log) {
    std::vector<std::string> targets;
    for (const auto& injection : injections) {
        targets.push_back(injection.destinations.front());
    }
    editor.requireTargets(targets);
    for (const std::string directory : {"/lib", "/lib64"}) {
        const auto place = editor.findDirectory(directory);
        for (auto injection = injections.begin(); place && injection != injections.end(); ++injection) {
            const auto& target = injection->destinations.front();
            try {
                for (const auto& name : editor.link(directory, place.get(), injection->links, target)) {
                    log.debug(cat("Linked ", directory, '/', printable(name), " to ", printable(target)));
                }
            } catch (const Error& error) {
                if (!isNotWritable(error)) {
                    throw;
                }
                log.warn(error.what());
            }
        }
    }
}

void mountFile(const container_root::Editor& editor, const std::string& path,
               const Configuration& configuration, const HookContext& context, const HookLogger& log) {
    struct stat status {};
    checkErrno(::stat(path.c_str(), &status), cat("Failed to find ", printable(path), " of BIND_MOUNTS"));
    const bool isDevice = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
    if (isDevice && !configuration.isRootless) {
        mountDevice(editor, context, path, path, "rw", log);
        return;
    }
    editor.bind(path, path, {});
    log.info(cat("Mounted ", printable(path)));
}

void mountLibrary(const container_root::Editor& editor, const Injection& injection,
                  const std::string& destination, UniqueFd present, const HookLogger& log) {
    const bool isReplacing = injection.method == Method::replace;
    const auto source = printable(injection.library.path);
    try {
        editor.bind(injection.library.path, destination, {.readonly = true, .nodev = true},
                    std::move(present));
    } catch (const Error& error) {
        if (!isReplacing || !isNotWritable(error)) {
            throw;
        }
        // The file existed until its directory was covered.
        log.warn(cat("BIND_MOUNTS hides the container's ", printable(destination), ", which ", source,
                     " was to replace"));
        return;
    }
    log.info(cat(isReplacing ? "Replaced the container's " : "Added ", printable(destination),
                 isReplacing ? " by " : " from ", source));
}

void mountLibraries(const container_root::Editor& editor, const std::vector<Injection>& injections,
                    const HookLogger& log) {
    std::vector<std::string> destinations;
    for (const auto& injection : injections) {
        destinations.insert(destinations.end(), injection.destinations.begin(), injection.destinations.end());
    }
    auto found = editor.findAll(destinations);
    auto present = found.begin();
    for (const auto& injection : injections) {
        for (const auto& destination : injection.destinations) {
            mountLibrary(editor, injection, destination, std::move(*present++), log);
        }
    }
}

/// The linker cache entries for the injected libraries: each name of each library, with its path.
std::vector<LdCacheRecord> recordsOf(const std::vector<Injection>& injections) {
    std::vector<LdCacheRecord> records;
    for (const auto& injection : injections) {
        const auto flags = ldCacheFlags(injection.library.elf);
        for (const auto& name : injection.links) {
            if (flags) {
                records.push_back({name, injection.destinations.front(), *flags, {}});
            }
        }
    }
    return records;
}

void updateSearch(int root, const std::vector<Injection>& injections, const HookLogger& log) {
    const bool isAdded = std::any_of(injections.begin(), injections.end(), [](const Injection& injection) {
        return injection.method == Method::add;
    });
    try {
        for (const auto& linker : isAdded ? findDynamicLinkers(root) : std::vector<DynamicLinker>()) {
            if (linker.library == CLibrary::musl) {
                addMuslLibraryDirectories(root, linker.name, {"/lib", "/usr/lib"});
            }
        }
        const bool isBigEndian = !injections.empty() && injections.front().library.elf.isBigEndian;
        amendLinkerCache(root, recordsOf(injections), isBigEndian);
    } catch (const Error& error) {
        if (!isNotWritable(error)) {
            throw;
        }
        log.warn(error.what());
    }
}

}  // namespace

void inject(const InjectionPlan& plan, const Configuration& configuration, HookContext& context,
            const HookLogger& log) {
    const int root = context.rootfs();
    const container_root::Editor editor(root);
    // First, so that they do not hide a library.
    for (const auto& path : configuration.bindMounts) {
        mountFile(editor, path, configuration, context, log);
    }
    mountLibraries(editor, plan.injections, log);
    makeLinks(editor, plan.injections, log);
    updateSearch(root, plan.injections, log);
}

}  // namespace sarus::hooks::mpi
