#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace sarus::squashfs {

/// Work that nobody waits for: dropped if there is too much of it.
class Chores {
public:
    using Chore = std::function<void()>;

    void add(Chore chore);
    /// Once `pause` has passed without a chore, one thread carries this out. Call it before the threads
    /// start.
    void whenIdle(std::chrono::milliseconds pause, Chore chore);
    /// Carries out chores. A thread's function; never returns. Chores must not throw.
    [[noreturn]] void work();

private:
    Chore next();

    std::mutex mutex;
    std::condition_variable added;
    std::deque<Chore> waiting;
    std::chrono::milliseconds idlePause{};
    Chore idleChore;
    bool idleIsDue = false;
};

}  // namespace sarus::squashfs
