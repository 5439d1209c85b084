#pragma once

#include <string>
#include <vector>

#include "base/log.hpp"
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

/// A line of the log about a container: what it gets (level INFO), or why (level DEBUG).
struct PlanLine {
    LogLevel level = LogLevel::info;
    std::string text;
};

/// What the log tells about a container which is being started: its mounts, devices and hooks, and the OCI runtime; not its
/// variables. With `withReasons`, the origin of each, and hooks which do not run. Longer plans are cut off: all lines together
/// have at most some 32 KiB, which a pipe holds when nobody reads it. Pure.
std::vector<PlanLine> describePlan(const PlanReport& report, bool withReasons);

}  // namespace sarus::engine
