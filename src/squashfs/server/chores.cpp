#include "squashfs/server/chores.hpp"

#include <utility>

namespace sarus::squashfs {

namespace {
constexpr std::size_t maxWaiting = 64;
}

void Chores::add(Chore chore) {
    {
        const std::lock_guard lock(mutex);
        if (waiting.size() >= maxWaiting) {
            return;
        }
        waiting.push_back(std::move(chore));
    }
    added.notify_one();
}

void Chores::whenIdle(std::chrono::milliseconds pause, Chore chore) {
    idlePause = pause;
    idleChore = std::move(chore);
}

Chores::Chore Chores::next() {
    const auto come = [&] { return !waiting.empty(); };
    std::unique_lock lock(mutex);
    while (!come()) {
        if (!idleIsDue) {
            added.wait(lock);
        } else if (!added.wait_for(lock, idlePause, come) && std::exchange(idleIsDue, false)) {
            return idleChore;
        }
    }
    auto chore = std::move(waiting.front());
    waiting.pop_front();
    idleIsDue = static_cast<bool>(idleChore);
    return chore;
}

void Chores::work() {
    for (;;) {
        next()();
    }
}

}  // namespace sarus::squashfs
