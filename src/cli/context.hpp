#pragma once

#include <optional>
#include <string>

#include "engine/site_config.hpp"

namespace sarus::cli {

/// What the commands share. Nothing is read before a command needs it: help and version work with a broken
/// configuration.
class Context {
public:
    /// The installation's directory: two levels above the running program.
    const std::string& prefix();
    /// `<prefix>/etc/sarus.json`, read and validated once. Throws Error that names the file.
    const engine::SiteConfig& config();
    /// The repository of the calling user, or the centralized one.
    std::string repositoryDirectory(bool centralized);

private:
    std::optional<std::string> installation;
    std::optional<engine::SiteConfig> site;
};

}  // namespace sarus::cli
