#include "hooks/slurm_global_sync/synchronization.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "hooks/slurm_global_sync/node_tasks.hpp"

namespace sarus::hooks::slurm_global_sync {

namespace {

/// For what takes no waiting for others.
constexpr std::chrono::seconds patience{5};

std::chrono::seconds wallClock() {
    return std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now().time_since_epoch());
}

bool isFirstIn(const std::vector<Rank>& ranks) {
    return std::find(ranks.begin(), ranks.end(), 0U) != ranks.end();
}

class Synchronization {
public:
    Synchronization(SharedFiles& files, const Part& thePart, std::chrono::seconds theTimeout,
                    const HookLogger& theLog)
        : part(thePart), timeout(theTimeout), log(theLog), barrier(files, part.step) {}

    void run() {
        const auto address = cat("sarus-slurm-sync-", ::geteuid(), '-', part.step.name, "-node-", part.node);
        auto untilAlone = Clock::now() + patience;
        while (true) {
            if (auto leader = NodeLeader::lead(address)) {
                return lead(*leader);
            }
            NodeFollower follower;
            const auto answer = follower.join(address, part.ranks.front());
            // Everybody can take the address, and can also do so without ever taking a connection.
            if (answer == Contact::With::foreign ||
                (answer == Contact::With::nobody && Clock::now() >= untilAlone)) {
                log.info("Another user's process has the address of the step's tasks on this node");
                auto leader = NodeLeader::alone();
                return lead(leader);
            }
            if (answer == Contact::With::own) {
                if (follow(follower)) {
                    return;
                }
                deadLeader = follower.leader();
                untilAlone = Clock::now() + patience;
            }
            if (Clock::now() >= deadline + patience) {
                throw Error("The tasks of the step on this node have found no leader in time");
            }
            std::this_thread::sleep_for(LookIntervals().next());
        }
    }

private:
    /// False if the leader has died.
    bool follow(NodeFollower& follower) {
        using Message = NodeFollower::Message;
        while (true) {
            switch (follower.receive(deadline + patience)) {
                case Message::welcome:
                    forAll(part.ranks, &Barrier::arrive);
                    break;
                case Message::complete:
                    forAll(part.ranks, &Barrier::depart);
                    follower.sayDeparted();
                    return true;
                case Message::failed:
                    forAll(part.ranks, &Barrier::withdraw);
                    follower.sayDeparted();
                    fail(follower.reason());
                case Message::none:
                    return false;
            }
        }
    }

    void lead(NodeLeader& leader) {
        open();
        if (deadLeader) {
            barrier.withdraw(*deadLeader);
        }
        forAll(part.ranks, &Barrier::arrive);
        const auto state = waitForAll(leader);
        const bool failed = state == Barrier::State::failed;
        const auto reason = failed ? std::optional(barrier.failure()) : std::nullopt;
        leader.dismiss(reason);
        const auto end = failed ? &Barrier::withdraw : &Barrier::depart;
        forAll(part.ranks, end);
        forAll(leader.waitUntilDeparted(Clock::now() + patience), end);
        barrier.leave();
        if (failed) {
            fail(*reason);
        }
        if (isCounting(leader)) {
            removeForgotten();
        }
    }

    void forAll(const std::vector<Rank>& ranks, void (Barrier::*action)(Rank)) {
        for (const auto rank : ranks) {
            (barrier.*action)(rank);
        }
    }

    void open() {
        auto end = std::min(Clock::now() + patience, deadline);
        LookIntervals intervals;
        while (!barrier.open(wallClock())) {
            if (Clock::now() >= end) {
                log.debug(cat("Removing what an earlier round of ", part.step.name, " has left behind"));
                barrier.sweep();
                end = Clock::now() + patience;
            }
            std::this_thread::sleep_for(intervals.next());
        }
    }

    Barrier::State waitForAll(NodeLeader& leader) {
        LookIntervals intervals;
        while (true) {
            leader.serve(std::min(Clock::now() + intervals.next(), deadline), part.ranks.front(),
                         [this](Rank killed) { barrier.withdraw(killed); });
            const auto state = isCounting(leader) ? barrier.count() : barrier.look();
            if (state != Barrier::State::waiting) {
                return state;
            }
            if (Clock::now() >= deadline) {
                return barrier.giveUp(timeout);
            }
        }
    }

    bool isCounting(const NodeLeader& leader) const {
        return isFirstIn(part.ranks) || isFirstIn(leader.ranks());
    }

    /// Directories of other steps are no reason to fail.
    void removeForgotten() {
        try {
            barrier.removeForgotten(wallClock());
        } catch (const Error& error) {
            log.debug(error.what());
        }
    }

    [[noreturn]] void fail(const std::string& reason) const {
        throw Error(reason,
                    cat("Look for errors of the missing tasks; ", timeoutVariable,
                        " in the hook's JSON file sets how many seconds the tasks wait for each other"));
    }

    const Part& part;
    std::chrono::seconds timeout;
    const HookLogger& log;
    Barrier barrier;
    Clock::time_point deadline = Clock::now() + timeout;
    std::optional<Rank> deadLeader;  ///< whose file is in the directory still
};

}  // namespace

void synchronize(SharedFiles& files, const Part& part, std::chrono::seconds timeout, const HookLogger& log) {
    Synchronization(files, part, timeout, log).run();
}

}  // namespace sarus::hooks::slurm_global_sync
