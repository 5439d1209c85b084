#pragma once

#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_log.hpp"
#include "hooks/mpi/configuration.hpp"
#include "hooks/mpi/injection_plan.hpp"

namespace sarus::hooks::mpi {

/// Carries out a plan without problems: the mounts, the links, BIND_MOUNTS with their devices, and the linker cache.
/// Throws Error; what was mounted until then remains, in the mount namespace of a container which will not start.
void inject(const InjectionPlan& plan, const Configuration& configuration, HookContext& context, const HookLog& log);

}  // namespace sarus::hooks::mpi
