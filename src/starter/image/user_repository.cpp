#include "starter/image/user_repository.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"

namespace sarus::starter {

namespace {

/// True if the user's directory is there.
bool exists(int base, const std::string& name, const std::string& shown, uid_t uid) {
    struct stat status {};
    if (::fstatat(base, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) {
            return false;
        }
        throwErrno(cat("Failed to examine ", printable(shown)));
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != uid) {
        throw Error(cat(printable(shown), " exists, but is not a directory of uid ", uid));
    }
    return true;
}

/// The directory gets its final name only once it belongs to the user, so an interruption leaves no half-made
/// repository.
void createOwned(int base, const std::string& name, const std::string& shown,
                 const Credentials& credentials) {
    const std::string temporary = cat('.', name.substr(0, 200), '-', randomLetters());
    checkErrno(::mkdirat(base, temporary.c_str(), 0700),
               cat("Failed to create the repository ", printable(shown)));
    try {
        const auto made = openFileAt(base, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        checkErrno(::fchown(made.get(), credentials.uid(), credentials.gid()),
                   cat("Failed to give away ", printable(shown)));
        // A plain one, which every filesystem has: it replaces nothing but an empty directory.
        if (::renameat(base, temporary.c_str(), base, name.c_str()) != 0 && errno != EEXIST &&
            errno != ENOTEMPTY) {
            throwErrno(cat("Failed to create the repository ", printable(shown)));
        }
    } catch (...) {
        ::unlinkat(base, temporary.c_str(), AT_REMOVEDIR);
        throw;
    }
    ::unlinkat(base, temporary.c_str(),
               AT_REMOVEDIR);  // still there if a concurrent start of the same user was faster
}

}  // namespace

void createUserRepository(const engine::SiteConfig& config, const Credentials& credentials,
                          PathChecker& paths) {
    if (!credentials.privileged()) {
        throw Error(cat("Failed to create a repository below ", printable(config.localRepositoryBaseDir),
                        ": no permission"),
                    "Choose a `localRepositoryBaseDir` in sarus.json that users may write to, or install "
                    "sarus-starter set-user-ID root");
    }
    const std::string passwd = cat(config.prefixDir, "/etc/passwd");
    const auto name = findUserName(readFile(passwd, largestPasswdFile), credentials.uid());
    if (!name) {
        throw Error(cat("Failed to find uid ", credentials.uid(), " in ", printable(passwd)),
                    "Ask the administrator to refresh the installation's passwd file")
            .setId("passwd-cache-outdated");
    }
    const auto base = paths.check(config.localRepositoryBaseDir);
    if (!base) {
        throw Error(cat("The directory `localRepositoryBaseDir` (", printable(config.localRepositoryBaseDir),
                        ") does not exist"));
    }
    const std::string shown = cat(config.localRepositoryBaseDir, '/', *name);
    if (!exists(base->directory, *name, shown, credentials.uid())) {
        createOwned(base->directory, *name, shown, credentials);
        exists(base->directory, *name, shown, credentials.uid());
    }
}

}  // namespace sarus::starter
