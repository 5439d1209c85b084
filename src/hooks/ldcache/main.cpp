#include <sys/stat.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache.hpp"
#include "hooks/kit/root_files.hpp"
#include "hooks/kit/run_hook.hpp"

namespace {

using namespace sarus;
using namespace sarus::hooks;

std::string_view describe(LinkerCacheUpdate update) {
    switch (update) {
        case LinkerCacheUpdate::unchanged:
            return "unchanged";
        case LinkerCacheUpdate::written:
            return "written";
        case LinkerCacheUpdate::notNeeded:
            break;
    }
    return "not needed";
}

/// The line by which sites see in the runtime's log that there is a cache, and how old it is.
std::string summarize(HookContext& context, LinkerCacheUpdate update) {
    const auto path = cat(context.rootfsPath(), "/etc/ld.so.cache");
    const auto file = tryOpenFileInRoot(context.rootfs(), "/etc/ld.so.cache");
    struct stat status {};
    const bool exists = file && ::fstat(file.get(), &status) == 0;
    return exists ? cat("cache=", printable(path), " exists size=", status.st_size, " mtime_unix=", status.st_mtim.tv_sec, " (",
                        describe(update), ")")
                  : cat("cache=", printable(path), " missing (", describe(update), ")");
}

void runAsHook(HookContext& context, const HookEnvironment&, const HookLog& log) {
    const auto update = updateLinkerCache(context.rootfs());
    log.info(summarize(context, update));
}

}  // namespace

int main() {
    return runHook("ldcache hook", runAsHook);
}
