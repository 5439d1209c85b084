#include "cli/context.hpp"

#include <unistd.h>

#include <climits>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "image/repository_location.hpp"

namespace sarus::cli {

namespace {

std::string findPrefix() {
    std::string path(PATH_MAX, '\0');
    const auto size = checkErrno(::readlink("/proc/self/exe", path.data(), path.size()), "Failed to read /proc/self/exe");
    path.resize(static_cast<std::size_t>(size));
    for (int level = 0; level < 2; ++level) {
        const auto slash = path.rfind('/');
        path.resize(slash == std::string::npos ? 0 : slash);
    }
    return path;
}

}  // namespace

const std::string& Context::prefix() {
    if (!installation) {
        installation = findPrefix();
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
                error.setHint("An administrator creates the configuration with configure_installation.sh");
            }
            throw;
        }
    }
    return *site;
}

std::string Context::repositoryDirectory(bool centralized) {
    const image::RepositorySettings settings{.localRepositoryBaseDir = config().localRepositoryBaseDir,
                                             .centralizedRepositoryDir = config().centralizedRepositoryDir,
                                             .prefixDir = config().prefixDir};
    return centralized ? image::centralizedRepositoryDirectory(settings) : image::localRepositoryDirectory(settings);
}

}  // namespace sarus::cli
