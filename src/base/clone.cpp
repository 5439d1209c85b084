#include "base/clone.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <memory>

namespace sarus {

bool runInClone(int flags, const std::function<void()>& work) {
    constexpr std::size_t stackSize = 64U << 10U;
    const std::unique_ptr<std::byte[]> stack(new std::byte[stackSize]);
    const auto main = [](void* function) -> int {
        (*static_cast<const std::function<void()>*>(function))();
        return 0;
    };
    const pid_t child =
        ::clone(main, stack.get() + stackSize, CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD | flags,
                const_cast<std::function<void()>*>(&work));
    if (child < 0) {
        return false;
    }
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return true;
}

}  // namespace sarus
