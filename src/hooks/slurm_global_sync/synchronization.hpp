#pragma once

#include <chrono>

#include "hooks/kit/hook_logger.hpp"
#include "hooks/slurm_global_sync/settings.hpp"
#include "hooks/slurm_global_sync/shared_files.hpp"

namespace sarus::hooks::slurm_global_sync {

/// Returns when this has been called for all tasks of the step. Throws Error that names the missing tasks
/// after the timeout.
void synchronize(SharedFiles& files, const Part& part, std::chrono::seconds timeout, const HookLogger& log);

}  // namespace sarus::hooks::slurm_global_sync
