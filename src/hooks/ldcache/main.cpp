#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

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

/// The line by which sites see in the runtime's log that there is a cache, and how old it is.
std::string summarize(const std::string& rootfs, const std::optional<CacheFile>& file) {
    const auto path = cat("cache=", printable(rootfs), "/etc/ld.so.cache");
    return file ? cat(path, " exists size=", file->size, " mtime_unix=", file->modified) : cat(path, " missing");
}

void runAsHook(HookContext& context, const HookEnvironment&, const HookLog& log) {
    const auto result = updateLinkerCache(context.rootfs());
    log.debug(describe(result.update));
    printError(cat("ldcache_hook: ", summarize(context.rootfsPath(), result.file)));
}

}  // namespace

int main() {
    return runHook("ldcache hook", runAsHook);
}
