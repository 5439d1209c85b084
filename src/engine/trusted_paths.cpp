#include "engine/trusted_paths.hpp"

#include "base/text.hpp"

namespace sarus::engine {

std::vector<TrustedPath> trustedPaths(const SiteConfig& config) {
    std::vector<TrustedPath> paths;
    if (config.initPath) {
        paths.push_back({*config.initPath, false});
    }
    paths.push_back({config.runcPath, false});
    if (config.seccompProfile) {
        paths.push_back({*config.seccompProfile, false});
    }
    paths.push_back({config.ociBundleDir, true});
    for (const auto* directory : {"/bin", "/libexec", "/dropbear"}) {
        paths.push_back({cat(config.prefixDir, directory), true});
    }
    return paths;
}

}  // namespace sarus::engine
