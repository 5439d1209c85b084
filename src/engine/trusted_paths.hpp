#pragma once

#include <string>
#include <vector>

#include "engine/site_config.hpp"

namespace sarus::engine {

/// A path that nobody but root may be able to change (key `securityChecks`).
struct TrustedPath {
    std::string path;
    bool isTree;  ///< with everything below it
};

/// Those of an installation. They need not exist.
std::vector<TrustedPath> trustedPaths(const SiteConfig& config);

}  // namespace sarus::engine
