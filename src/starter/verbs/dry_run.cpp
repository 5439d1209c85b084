#include "starter/verbs/dry_run.hpp"

#include "engine/plan_report.hpp"
#include "engine/runtime_config_builder.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/verbs/planning.hpp"
#include "starter/verbs/unprivileged.hpp"

namespace sarus::starter {

std::string describeContainer(const Session& session, const engine::LaunchRequest& request) {
    const bool privileged = session.credentials.privileged();
    checkNode(session);
    if (privileged && request.remapRoot) {
        continueWithoutPrivileges(session, request);
    }
    const auto plan = planContainer(session, request, session.config.ociBundleDir);
    const auto runtime = findRuntime(session.config.runcPath, session.checker());
    const engine::RuntimeDialect dialect{.runtime = runtime.kind, .privileged = privileged};
    const engine::PlanReport report{
        .plan = plan,
        .request = request,
        .runtime = runtime.path,
        .privileged = privileged,
        .systemMounts = engine::makeRuntimeConfig(plan, session.config, dialect, {}).mounts};
    return request.json ? engine::formatPlanJson(report) : engine::formatPlan(report);
}

}  // namespace sarus::starter
