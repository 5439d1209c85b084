#include "cli/edf_access.hpp"

#include "base/host_variable.hpp"
#include "base/log.hpp"
#include "cli/edf.hpp"

namespace sarus::cli {

EdfFile loadDefinition(Context& context, const std::string& reference) {
    return loadEdf(reference, edfSearchPath(hostVariable, context.config().edfSystemSearchPath),
                   hostVariable);
}

EdfFile readEdf(Context& context, const std::string& reference) {
    auto definition = loadDefinition(context, reference);
    for (const auto& warning : definition.warnings) {
        logWarn("CLI", warning);
    }
    return definition;
}

}  // namespace sarus::cli
