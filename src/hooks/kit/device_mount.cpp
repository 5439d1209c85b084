#include "hooks/kit/device_mount.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/device_access.hpp"

namespace sarus::hooks {

void mountDevice(const container_root::Editor& editor, const HookContext& context, const std::string& source,
                 const std::string& destination, std::string_view access, const HookLogger& log) {
    struct stat status {};
    checkErrno(::stat(source.c_str(), &status),
               cat("Failed to check if file \"", printable(source), "\" is a device file. Stat failed"));
    const bool isCharacter = S_ISCHR(status.st_mode);
    if (!isCharacter && !S_ISBLK(status.st_mode)) {
        throw Error(cat("Source path \"", printable(source), "\" is not a device file"));
    }
    editor.bind(source, destination, {});
    log.info(cat("Mounted the device ", printable(source), " on the container's ", printable(destination)));
    if (!isInitialUserNamespace()) {
        return;
    }
    const auto grant = grantDevice(context.state().pid, isCharacter ? 'c' : 'b', status.st_rdev, access);
    const auto why = explainGrant(grant, source);
    if (!why.empty() && !mayUseDevice(context.state().pid, source, access).value_or(false)) {
        log.warn(why);
    }
}

}  // namespace sarus::hooks
