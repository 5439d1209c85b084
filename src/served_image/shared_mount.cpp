#include "served_image/shared_mount.hpp"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/clone.hpp"
#include "base/error.hpp"

namespace sarus::served_image {

bool hasTimeLimit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max != RLIM_INFINITY;
}

bool canAnswer(const Process& server) {
    const char state = server.state();
    return state != '\0' && std::string_view("TtZX").find(state) == std::string_view::npos;
}

UniqueFd copyMount(int mountNamespace, int mount) {
    int tree = -1;
    int error = 0;
    const bool wasThere = runInClone(0, [&] {
        if (::setns(mountNamespace, CLONE_NEWNS) == 0) {
            tree = static_cast<int>(
                ::syscall(SYS_open_tree, mount, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
        }
        error = errno;
    });
    if (tree < 0) {
        throw Error::fromErrno("Failed to copy its mount", wasThere ? error : errno);
    }
    return UniqueFd(tree);
}

}  // namespace sarus::served_image
