#pragma once

#include "engine/starter_request.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// Runs the requested command in a running container of the caller, and waits until it or the container ends.
/// Returns the exit status for the program. Throws Error.
int execInContainer(Session& session, const engine::ExecRequest& request);

}  // namespace sarus::starter
