#include "starter/installation.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestConfiguration = 4U << 20U;
constexpr uid_t overflowUid = 65534;

/// A regular file which nobody else can change.
UniqueFd openChecked(int directory, const std::string& name, const std::string& shown, const TrustedOwners& owners) {
    // O_NONBLOCK: a FIFO in the file's place must not stop the starter.
    UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd) {
        throwErrno(cat("Failed to open ", printable(shown)));
    }
    struct stat status {};
    checkErrno(::fstat(fd.get(), &status), cat("Failed to examine ", printable(shown)));
    if (!S_ISREG(status.st_mode)) {
        throw Error(cat(printable(shown), " is not a regular file"));
    }
    checkStatus(status, shown, owners);
    return fd;
}

}  // namespace

TrustedOwners trustedOwners(const Entry& entry, const Credentials& credentials) {
    TrustedOwners owners;
    if (!credentials.privileged()) {
        owners.alsoTrusted.push_back(credentials.uid());
        owners.stickyParents = true;
        if (entry.ownUserNamespace) {
            owners.alsoTrusted.push_back(overflowUid);  // root outside of the namespace is one of those who look like this
        }
    }
    return owners;
}

engine::SiteConfig loadInstallation(const std::string& prefix, PathChecker& paths) {
    const std::string etc = cat(prefix == "/" ? "" : prefix, "/etc");
    const auto directory = openFile(etc, O_PATH | O_DIRECTORY);
    const std::string configPath = cat(etc, "/sarus.json");
    const auto file = openChecked(directory.get(), "sarus.json", configPath, paths.owners());
    // The schema is for other programs, so it is not opened: all that matters is whose it is.
    if (struct stat schema{}; ::fstatat(directory.get(), "sarus.schema.json", &schema, 0) == 0) {
        checkStatus(schema, cat(etc, "/sarus.schema.json"), paths.owners());
    }
    const auto config = engine::parseSiteConfig(readAll(file.get(), largestConfiguration, printable(configPath)), configPath);
    if (config.securityChecks) {
        paths.check(etc);
        checkInstallation(config, paths);
    }
    return config;
}

}  // namespace sarus::starter
