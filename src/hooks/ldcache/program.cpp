#include "hooks/ldcache/program.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"

namespace sarus::hooks {

namespace {

std::string_view describe(LinkerCacheUpdate update) {
    switch (update) {
        case LinkerCacheUpdate::unchanged:
            return "The linker cache is right, and kept";
        case LinkerCacheUpdate::written:
            return "The linker cache was written";
        case LinkerCacheUpdate::notNeeded:
            break;
    }
    return "No linker cache is needed: the container has no dynamic linker of glibc, or no /etc";
}

/// The line in the runtime's log that tells sites that there is a cache, and its age.
std::string summarize(const std::string& rootfs, const std::optional<CacheFile>& file) {
    const auto path = cat("cache=", printable(rootfs), "/etc/ld.so.cache");
    return file ? cat(path, " exists size=", file->size, " mtime_unix=", file->modified)
                : cat(path, " missing");
}

constexpr std::string_view usage =
    "Usage: ldcache_hook                               (an OCI hook: reads the container's state)\n"
    "       ldcache_hook --check                       (looks for mistakes in its configuration)\n"
    "       ldcache_hook --explain [--root=DIRECTORY]  (shows what it would do and changes nothing)\n"
    "\n"
    "Updates /etc/ld.so.cache of the container. Without --root, --explain reads the container's state, "
    "too.\n";

void explain(const HookSetup&, const ExplainRequest& request) {
    switch (predictLinkerCache(request.container().rootfs())) {
        case LinkerCacheUpdate::unchanged:
            printLine("keep the linker cache: it is right");
            break;
        case LinkerCacheUpdate::written:
            printLine("write the linker cache /etc/ld.so.cache");
            break;
        case LinkerCacheUpdate::notNeeded:
            printLine("nothing: the container has no dynamic linker of glibc, or no /etc");
            break;
    }
}

void runAsHook(const HookSetup&, HookContext& context, const HookLogger& log) {
    const auto result = updateLinkerCache(context.rootfs());
    log.debug(describe(result.update));
    printError(cat("ldcache_hook: ", summarize(context.rootfsPath(), result.file)));
}

}  // namespace

HookProgram ldcache::program() {
    return {.program = "ldcache_hook",
            .logName = "ldcache hook",
            .usage = usage,
            .variables = {"LDCONFIG_PATH"},
            .explain = explain,
            .run = runAsHook};
}

}  // namespace sarus::hooks
