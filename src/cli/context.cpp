#include "cli/context.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/installation_prefix.hpp"
#include "base/text.hpp"
#include "cli/place/repository_place.hpp"

namespace sarus::cli {

const std::string& Context::prefix() {
    if (!installation) {
        installation = installationPrefix();
    }
    return *installation;
}

const engine::SiteConfig& Context::config() {
    if (!site) {
        const auto file = cat(prefix(), "/etc/sarus.json");
        try {
            site = engine::parseSiteConfig(readFile(file), file);
        } catch (Error& error) {
            if (error.errnum() != 0) {
                error.setHint("Ask your administrator to run configure_installation.sh")
                    .setId("configuration-missing");
            }
            throw;
        }
    }
    return *site;
}

std::string Context::repositoryDirectory(bool centralized) {
    return centralized ? image::centralizedRepositoryDirectory(repositorySettings(config()))
                       : findRepositoryPlace(config()).directory;
}

}  // namespace sarus::cli
