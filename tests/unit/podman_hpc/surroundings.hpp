#pragma once

#include <map>
#include <string>

#include "podman_hpc/config/settings.hpp"

namespace sarus::podman_hpc::test {

/// User 1000 with these variables, and an installation without files.
inline Surroundings surroundings(std::map<std::string, std::string> variables = {}) {
    variables.emplace("PODMANHPC_CONFIG_FILE", "/nonexistent/podman_hpc.yaml");
    return {.variable = [variables](const std::string& name) -> std::optional<std::string> {
                const auto found = variables.find(name);
                return found == variables.end() ? std::nullopt : std::optional(found->second);
            },
            .uid = 1000,
            .prefix = "/nonexistent"};
}

}  // namespace sarus::podman_hpc::test
