#pragma once

#include <functional>
#include <string>

#include "spank/step_request.hpp"

namespace sarus::spank {

enum class Action : char {
    run = 'r',     ///< each starts a container, if they share none
    join = 'j',    ///< the container with the name of the request runs
    share = 's',   ///< a keeper starts one container for all of them
    failed = 'f',  ///< nothing: the user has the message
};

/// What the tasks of a step on a node do.
struct Decision {
    Action action = Action::failed;
    std::string image{};   ///< of the container that was kept, if the request names none
    std::string target{};  ///< the address of the keeper, or the name of the container to join
};

bool namesImage(const StepRequest& request);

/// Looks for the container of that name ("": none is wanted) on this node, and pulls the image if one is to
/// be started. `job`: the caller's. `script`: the command is that of sbatch, which joins none. Throws Error.
Decision decide(const StepRequest& request, const std::string& container, const std::string& job,
                bool script);

/// What the first task of the step on this node has decided, by a file that all of them have inherited; this
/// one decides if it is the first, or those before were killed. Throws Error, as `decideForAll` may; the
/// other tasks then get Action::failed.
Decision agree(int descriptor, const std::function<Decision()>& decideForAll);

}  // namespace sarus::spank
