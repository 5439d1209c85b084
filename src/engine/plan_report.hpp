#pragma once

#include <string>
#include <vector>

#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime_config.hpp"

namespace sarus::engine {

/// A container which is only being talked about: `sarus run --dry-run`.
struct PlanReport {
    const ContainerPlan& plan;
    const LaunchRequest& request;
    std::string runtime;                            ///< path of the OCI runtime
    bool privileged = false;                        ///< as in HostFacts
    std::vector<oci::RuntimeMount> systemMounts{};  ///< what the OCI runtime mounts
};

/// The plan with the reason of each mount, variable, device, annotation and hook, for readers. Pure.
std::string formatPlan(const PlanReport& report);

/// The same as one JSON object (keys: docs/man/sarus-run.1) and a newline. Pure.
std::string formatPlanJson(const PlanReport& report);

}  // namespace sarus::engine
