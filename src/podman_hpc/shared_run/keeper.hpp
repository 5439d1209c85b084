#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "podman_hpc/shared_run/rendezvous.hpp"

namespace sarus::podman_hpc {

/// What the keeper of a shared container needs.
struct KeeperPlan {
    std::vector<std::string> runCommand{};  ///< Podman's argv, without the words that the keeper adds
    std::string image{};
    std::vector<std::string> imageCommand{};   ///< behind the image
    std::vector<std::string> podmanOptions{};  ///< program and options in front of `kill` and `rm`
    std::string containerName{};
    std::string fingerprint{};  ///< tasks with another one belong to another container
    unsigned tasks = 1;
    bool holdsLifeline = false;  ///< the container's command ends when descriptor 3 does
    std::chrono::milliseconds startTimeout{};
    std::chrono::milliseconds arrivalTimeout{};
};

// Messages of a task: "hello LOCALID FINGERPRINT"; "done" when its command has ended. It then closes its side
// of the connection and waits for the keeper to close the other one. Messages of the keeper: "accept",
// "other"; "enter ID KINDS" with a descriptor for each letter, see ContainerEntry; "exec ID": only Podman can
// enter; "failed STATUS REASON"; "missing COUNT": the tasks that have not come.

/// Creates a process that starts the container, lets tasks in, and ends the container when all tasks have
/// ended or were killed. It outlives this process. Throws Error.
void startKeeper(const KeeperPlan& plan, const MeetingPlace& place, MeetingPlace::Seat seat);

}  // namespace sarus::podman_hpc
