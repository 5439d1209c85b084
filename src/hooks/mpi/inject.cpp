#include "hooks/mpi/inject.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/device_mount.hpp"
#include "hooks/kit/library_directories.hpp"
#include "hooks/kit/root_editor.hpp"
#include "hooks/mpi/cache_amendment.hpp"

namespace sarus::hooks::mpi {

namespace {

/// Errors which say that the place cannot be written; the container may work nevertheless.
bool isNotWritable(const Error& error) {
    return error.errnum() == EROFS || error.errnum() == EXDEV;
}

void makeLinks(const RootEditor& editor, const Injection& injection, const HookLog& log) {
    const auto& target = injection.destinations.front();
    for (const std::string directory : {"/lib", "/lib64"}) {
        for (const auto& name : injection.links) {
            try {
                if (editor.link(directory, name, target) == RootEditor::LinkResult::made) {
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

void mountFile(const RootEditor& editor, const std::string& path, const Configuration& configuration, const HookContext& context,
               const HookLog& log) {
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

void updateSearch(int root, const std::vector<Injection>& injections, const HookLog& log) {
    const bool isAdded = std::any_of(injections.begin(), injections.end(),
                                     [](const Injection& injection) { return injection.method == Method::add; });
    try {
        for (const auto& linker : findDynamicLinkers(root)) {
            if (isAdded && linker.library == CLibrary::musl) {
                addMuslLibraryDirectories(root, linker.name, {"/lib", "/usr/lib"});
            }
        }
        amendLinkerCache(root, injections);
    } catch (const Error& error) {
        if (!isNotWritable(error)) {
            throw;
        }
        log.warn(error.what());
    }
}

}  // namespace

void inject(const InjectionPlan& plan, const Configuration& configuration, HookContext& context, const HookLog& log) {
    const int root = context.rootfs();
    const RootEditor editor(root);
    for (const auto& injection : plan.injections) {
        for (const auto& destination : injection.destinations) {
            editor.bind(injection.library.path, destination, {.readonly = true, .nodev = true},
                        RootEditor::Destination::notTheKernels);
            log.info(cat(injection.method == Method::replace ? "Replaced the container's " : "Added ", printable(destination),
                         injection.method == Method::replace ? " by " : " from ", printable(injection.library.path)));
        }
        makeLinks(editor, injection, log);
    }
    for (const auto& path : configuration.bindMounts) {
        mountFile(editor, path, configuration, context, log);
    }
    updateSearch(root, plan.injections, log);
}

}  // namespace sarus::hooks::mpi
