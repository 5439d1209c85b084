#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarus {

/// This process speaks for a task of a Slurm step, whose variables (SLURM_JOB_ID, SLURM_STEP_ID,
/// SLURM_PROCID, SLURM_STEP_NUM_TASKS) the function returns. From then on, log() and printError() leave out
/// the errors and warnings that another task of the step has printed on this node in the last minute: a
/// mistake in a command line is said once, not by each of a hundred tasks. Has no effect outside of steps and
/// for single tasks, and for messages of level info or debug, with which people look for what differs. Call
/// it before the process enters a user namespace: there, each task would have a keyring of its own.
void speakForTask(const std::function<std::optional<std::string>(const std::string&)>& variable);

/// Whether another task has said this. If not, it counts as said by this one, which may repeat it. Tasks tell
/// each other by keys in the keyring of their user (keyrings(7)), which the kernel drops after a minute;
/// where it has none, each task speaks.
bool saidByAnotherTask(std::string_view message);

}  // namespace sarus
