#pragma once

#include <string>
#include <vector>

#include "base/log.hpp"
#include "engine/container_plan.hpp"
#include "engine/launch_request.hpp"
#include "engine/site_config.hpp"
#include "oci/runtime/runtime_config.hpp"

namespace sarus::engine {

/// A container for `sarus run --dry-run`.
struct PlanReport {
    const ContainerPlan& plan;
    const LaunchRequest& request;
    std::string runtime;                            ///< path of the OCI runtime
    bool privileged = false;                        ///< as in HostFacts
    std::vector<oci::RuntimeMount> systemMounts{};  ///< mounted by the OCI runtime
};

/// The plan with the reason for each mount, variable, device, annotation and hook, as text. Pure.
std::string formatPlan(const PlanReport& report);

/// The same as one JSON object (keys: docs/man/sarus-run.1) and a newline. Pure.
std::string formatPlanJson(const PlanReport& report);

/// A log line about a container: what it gets (level INFO), or why (level DEBUG).
struct PlanLine {
    LogLevel level = LogLevel::info;
    std::string text;
};

/// The log lines about a container that is being started: its mounts, devices and hooks, and the OCI runtime,
/// but not its variables. With `withReasons`, also the origin of each, and hooks that do not run. Truncates
/// longer plans: all lines together have at most about 32 KiB, which fit into a pipe that nobody reads. Pure.
std::vector<PlanLine> describePlan(const PlanReport& report, bool withReasons);

}  // namespace sarus::engine
