#pragma once

#include "hooks/kit/hook_context.hpp"
#include "hooks/kit/hook_logger.hpp"
#include "hooks/mpi/configuration.hpp"
#include "hooks/mpi/injection_plan.hpp"

namespace sarus::hooks::mpi {

/// Executes a plan without problems: BIND_MOUNTS with their devices, the libraries, the links, and the linker
/// cache. Throws Error; completed mounts remain in the mount namespace of the container, which will not
/// start.
void inject(const InjectionPlan& plan, const Configuration& configuration, HookContext& context,
            const HookLogger& log);

}  // namespace sarus::hooks::mpi
