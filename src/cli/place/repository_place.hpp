#pragma once

#include <string>

#include "engine/site_config.hpp"
#include "image/store/repository_location.hpp"

namespace sarus::cli {

/// The variable with which users choose the place of their images.
inline constexpr const char* repositoryVariable = "SARUS_REPOSITORY_DIR";

/// Where the images of the caller are.
struct RepositoryPlace {
    std::string directory;
    std::string usual;       ///< the directory below localRepositoryBaseDir; "" for a caller without a name
    std::string chosenBy{};  ///< the variable or key that names another one, for messages; "" for none

    /// Whether images are in the usual directory, though another one is chosen.
    bool leavesImages() const;
    /// The command that moves them.
    std::string moveCommand() const;
};

image::RepositorySettings repositorySettings(const engine::SiteConfig& config);

/// In this order: the variable SARUS_REPOSITORY_DIR, the key userRepositoryDir, the usual directory. No
/// privileged program reads any of this: the starter gets images as open files. Throws Error.
RepositoryPlace findRepositoryPlace(const engine::SiteConfig& config);

}  // namespace sarus::cli
