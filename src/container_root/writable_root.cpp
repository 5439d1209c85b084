#include "container_root/writable_root.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/mounts.hpp"

namespace sarus::container_root {

WritableRoot::WritableRoot(int root) {
    struct statvfs status {};
    if (::fstatvfs(root, &status) != 0 || (status.f_flag & ST_RDONLY) == 0) {
        return;
    }
    UniqueFd own(::fcntl(root, F_DUPFD_CLOEXEC, 3));
    if (own && setMountReadOnly(own.get(), false)) {
        changed = std::move(own);
    }
}

WritableRoot::~WritableRoot() {
    if (changed && !setMountReadOnly(changed.get(), true)) {
        printError("hook: the container's root filesystem could not be made read-only again");
        ::_exit(1);
    }
}

}  // namespace sarus::container_root
