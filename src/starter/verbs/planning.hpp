#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "node/slurm_job.hpp"
#include "starter/entry/installation.hpp"

namespace sarus::starter {

/// Throws Error if the site forbids such a container, or the node cannot confine it as the site requires.
void checkNode(const Session& session);

/// The plan of the container, with hook and CDI files read and the hooks' programs checked. `bundleDir`:
/// where the starter and the hooks exchange files. Throws Error.
engine::ContainerPlan planContainer(const Session& session, const engine::LaunchRequest& request,
                                    const std::string& bundleDir);

/// Adds to the session's records who asks for what: the verb, the user and the job. No effect without
/// records.
void recordCaller(Session& session, std::string_view verb,
                  const std::vector<std::string>& callerEnvironment) noexcept;

/// Adds what the container gets beyond what every container gets.
void recordPlan(Session& session, const engine::ContainerPlan& plan) noexcept;

/// Adds the image, with what its file tells if the kernel may mount that (whyNotByKernel()): reading may wait
/// for a foreign server else. In the caller's mount namespace.
void recordImage(Session& session, const engine::LaunchRequest& request) noexcept;

/// The value of a variable in the caller's environment ("NAME=value"), or "".
std::string callerVariable(const std::vector<std::string>& environment, std::string_view name);

/// The Slurm job of the caller, whose variables those are.
node::SlurmJobMark markJob(const std::vector<std::string>& environment);

void logWarnings(const engine::ContainerPlan& plan);

}  // namespace sarus::starter
