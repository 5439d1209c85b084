#pragma once

#include "hooks/kit/injection/version_check.hpp"
#include "hooks/mpi/configuration.hpp"
#include "hooks/mpi/injection_plan.hpp"
#include "hooks/mpi/started_program.hpp"

namespace sarus::hooks::mpi {

/// All decisions of the hook before it changes anything.
struct Survey {
    InjectionPlan plan;
    std::vector<MissingNeed> missing{};
    std::string program{};  ///< the program whose libraries were examined; empty if unknown
};

/// Examines the container's libraries below the root directory `root`, as the command's program finds them.
/// Changes nothing. Missing symbol versions become problems or warnings of the plan. `glibc`: the libraries
/// with which a glibc hook will replace older ones of the container.
Survey makeSurvey(const Configuration& configuration, int root, const StartedCommand& command,
                  const std::vector<HostLibrary>& glibc = {});

}  // namespace sarus::hooks::mpi
