#pragma once

#include <string>
#include <vector>

#include "engine/starter_request.hpp"
#include "node/slurm_job.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

// A set-user-ID installation also has containers without privileges: those whose caller is root inside, and
// those of a caller whose starter got no privileges. Their files are the caller's, so a privileged starter
// only looks whether there are any, with the caller's rights, and leaves the rest to one without privileges
// (continueWithoutPrivileges()). A starter without privileges has no others: false.

/// Whether the caller may have any that run.
bool mayRunUnprivileged(const Session& session);
/// Whether one of this name runs. `callerEnvironment`: "NAME=value".
bool runsUnprivileged(const Session& session, const std::vector<std::string>& callerEnvironment,
                      const std::string& name);

/// Whether the caller may have kept any.
bool mayHaveKeptUnprivileged(const Session& session);
/// Whether one that a caller in `job` means by this name was kept.
bool wasKeptUnprivileged(const Session& session, const std::string& name, const node::SlurmJobMark& job);

/// Executes the starter again, with the caller's descriptors, limits and ids and Entry's option
/// `withoutPrivileges`, to answer the request. Nothing else of this process is left to it. Throws Error.
[[noreturn]] void continueWithoutPrivileges(const Session& session, const engine::StarterRequest& request);

}  // namespace sarus::starter
