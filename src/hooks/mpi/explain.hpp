#pragma once

#include <string>

#include "hooks/mpi/configuration.hpp"
#include "hooks/mpi/survey.hpp"

namespace sarus::hooks::mpi {

/// What the hook would do, as text: an aligned table, then mounts, warnings and problems. Ends with a
/// newline.
std::string explainAsTable(const Survey& survey, const Configuration& configuration);

/// The same as one JSON object (docs/reference/hooks.md): "program", "injections", "missing", "bindMounts",
/// "notes", "warnings", "problems".
std::string explainAsJson(const Survey& survey, const Configuration& configuration);

}  // namespace sarus::hooks::mpi
