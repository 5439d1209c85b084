#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace sarus::spank {

/// The container of all tasks of a step on a node.
struct StepContainer {
    std::string sarus{};  ///< the program
    /// Its argv, to hold the container open (`sarus run --hold`).
    std::function<std::vector<std::string>(const std::string& edfPath)> words{};
    std::string edf{};        ///< the text of the definition, "" for none
    unsigned tasks = 1;       ///< of the step on this node
    std::string firstRank{};  ///< the lowest of them: for `sarus`, the container is that of this task
    /// Called when the container has ended. False fails the last task.
    std::function<bool()> ended = [] { return true; };
};

/// Starts the keeper: a process that starts the container and ends it when the last task has ended, however
/// that happens. It keeps this process's standard error for messages. Returns its address. Throws Error.
std::string startKeeper(const StepContainer& container);

/// Waits until the container runs. Returns the connection for the engine (`sarus run --join --keeper`), which
/// survives the start of programs. Without a container, ends this process with the status of `sarus run`,
/// which has told the reason. Throws Error if the keeper has ended.
UniqueFd joinKeeper(const std::string& address, const std::string& localId);

}  // namespace sarus::spank
