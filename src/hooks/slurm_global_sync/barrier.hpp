#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/slurm_global_sync/shared_files.hpp"

namespace sarus::hooks::slurm_global_sync {

using Rank = std::uint32_t;

/// The tasks that wait for each other.
struct Step {
    std::string name;  ///< of its directory: "jobid-7-stepid-0"
    Rank tasks = 0;

    bool operator==(const Step&) const = default;
};

/// How often a node looks: at first soon, because a step usually starts within a second, then ever less.
class LookIntervals {
public:
    /// Until the next look.
    std::chrono::milliseconds next();

private:
    std::chrono::milliseconds interval{10};
};

/// The barrier of a step in the shared directory. In `<step>/`
/// - `arrival/slurm-procid-P` says that the task P has arrived; when all have, task 0's node marks `arrival`,
/// - `departure/slurm-procid-P` says that the task P has seen this,
/// - `failed` says why the step waits no longer.
///
/// One process a node, its leader, calls open(), look() or count(), and leave(); of the nodes, that of task 0
/// calls count(). Every task calls arrive() and depart(). The directory of one round of a step goes with the
/// last node that leaves, and the next round of the same step makes a new one. All functions throw Error.
class Barrier {
public:
    Barrier(SharedFiles& files, Step step);

    /// Makes the step's directory. False as long as tasks of an earlier round leave it: try again later.
    bool open(std::chrono::seconds now);
    /// Removes what an earlier round has left behind: its tasks were killed.
    void sweep();

    void arrive(Rank rank);

    enum class State { waiting, complete, failed };
    /// One operation as long as the state is `waiting`.
    State look();
    /// Lists who has arrived.
    State count();

    /// Ends the waiting of all nodes: `failed`, unless no task is missing.
    State giveUp(std::chrono::seconds waited);
    /// Why, in the state `failed`: what the node says that gave up first.
    std::string failure();

    void depart(Rank rank);
    /// A task that does not wait any more.
    void withdraw(Rank rank);
    /// When the tasks of this node have departed.
    void leave();

    /// Removes the directories of other steps which nobody has changed for a day.
    void removeForgotten(std::chrono::seconds now);

private:
    void makeDirectories();
    void removeAll(const std::string& name);
    std::vector<bool> arrived();

    SharedFiles& files;
    Step step;
    std::string arrivals;
    std::string departures;
    std::string failureFile;
    std::string ownFailure;  ///< why this node gave up
};

/// The tasks as ranges, such as "0, 3-7 and 5 more"; at most ten ranges.
std::string describeRanks(const std::vector<Rank>& ranks);

}  // namespace sarus::hooks::slurm_global_sync
