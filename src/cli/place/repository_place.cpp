#include "cli/place/repository_place.hpp"

#include <unistd.h>

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/host_variable.hpp"
#include "base/text.hpp"
#include "cli/place/expansion.hpp"
#include "image/store/repository_paths.hpp"

namespace sarus::cli {

namespace {

constexpr const char* key = "userRepositoryDir in sarus.json";

std::string expand(const engine::SiteConfig& config) {
    const auto lookup = [&](const std::string& name) {
        return name == "USER" ? std::optional(image::userName(config.prefixDir, ::geteuid()))
                              : nonEmptyHostVariable(name);
    };
    try {
        return expandVariables(*config.userRepositoryDir, lookup, key);
    } catch (Error& error) {
        throw error.setHint(cat("Set it, or choose another place for your images with ", repositoryVariable));
    }
}

/// "" for a caller without a name.
std::string usualDirectory(const image::RepositorySettings& settings) {
    try {
        return image::usualRepositoryDirectory(settings);
    } catch (const Error&) {
        return {};  // the chosen place needs no name
    }
}

}  // namespace

bool RepositoryPlace::leavesImages() const {
    const image::RepositoryPaths paths{usual};
    return !usual.empty() && directory != usual && pathExists(paths.index()) && isDirectory(paths.images());
}

std::string RepositoryPlace::moveCommand() const {
    const auto from = shellWord(image::RepositoryPaths{usual}.images());
    const auto to = shellWord(image::RepositoryPaths{directory}.images());
    // Unlike mv, also where both have images of one server.
    return cat("mkdir -p ", to, " && cp -a ", from, "/. ", to, "/ && rm -r ", from);
}

image::RepositorySettings repositorySettings(const engine::SiteConfig& config) {
    return {.localRepositoryBaseDir = config.localRepositoryBaseDir,
            .centralizedRepositoryDir = config.centralizedRepositoryDir,
            .prefixDir = config.prefixDir};
}

RepositoryPlace findRepositoryPlace(const engine::SiteConfig& config) {
    const auto settings = repositorySettings(config);
    if (auto chosen = nonEmptyHostVariable(repositoryVariable)) {
        return {.directory = image::chosenRepositoryDirectory(std::move(*chosen), repositoryVariable),
                .usual = usualDirectory(settings),
                .chosenBy = repositoryVariable};
    }
    if (config.userRepositoryDir) {
        return {.directory = image::chosenRepositoryDirectory(expand(config), key),
                .usual = usualDirectory(settings),
                .chosenBy = key};
    }
    const auto directory = image::localRepositoryDirectory(settings);
    return {.directory = directory, .usual = directory};
}

}  // namespace sarus::cli
