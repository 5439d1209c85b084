#pragma once

#include <string_view>

#include "hooks/mpi/configuration.hpp"
#include "hooks/mpi/injection_plan.hpp"
#include "hooks/mpi/version_check.hpp"

namespace sarus::hooks::mpi {

/// Everything that the hook decides before it changes anything.
struct Survey {
    InjectionPlan plan;
    std::vector<MissingNeed> missing;
};

/// Reads the host's libraries and looks at the container's, whose root directory is `root`; `libraryPath` is the value of its
/// LD_LIBRARY_PATH. Changes nothing. Symbol versions that are missing have become problems or warnings of the plan.
/// Throws Error if a host library cannot be read.
Survey makeSurvey(const Configuration& configuration, int root, std::string_view libraryPath);

}  // namespace sarus::hooks::mpi
