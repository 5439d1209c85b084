#include "cli/edf_access.hpp"

#include <cstdlib>

#include "base/log.hpp"
#include "cli/edf.hpp"

namespace sarus::cli {

std::optional<std::string> hostVariable(const std::string& name) {
    const char* value = ::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

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
