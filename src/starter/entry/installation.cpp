#include "starter/entry/installation.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/log.hpp"
#include "base/name_service.hpp"
#include "base/passwd_file.hpp"
#include "base/text.hpp"
#include "engine/trusted_paths.hpp"

namespace sarus::starter {

namespace {

constexpr std::size_t largestConfiguration = 4U << 20U;
constexpr uid_t overflowUid = 65534;

/// Opens a regular file that no untrusted user can change.
UniqueFd openChecked(int directory, const std::string& name, const std::string& shown,
                     const TrustedOwners& owners) {
    // O_NONBLOCK: a FIFO in place of the file must not block the starter.
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
            owners.alsoTrusted.push_back(
                overflowUid);  // root outside the namespace is among those that look like this
        }
    }
    return owners;
}

namespace {

/// A second hard link may have set the prefix and be gone by now. The path must therefore lead to the
/// program, and only root may be able to change it, whatever `securityChecks` says: that setting is read from
/// the prefix.
void checkOwnPath(const Entry& entry, PathChecker& paths) {
    const auto found = paths.check(entry.executable);
    if (!found || found->status.st_dev != entry.program.st_dev ||
        found->status.st_ino != entry.program.st_ino) {
        throw Error(cat("The set-user-ID program is not the file ", printable(entry.executable),
                        " that it was started from"),
                    "Start it by its installed name");
    }
}

}  // namespace

void checkInstallation(const engine::SiteConfig& config, PathChecker& paths) {
    for (const auto& [path, isTree] : engine::trustedPaths(config)) {
        // An unprivileged starter creates bundles elsewhere; theirs may hold those of an outer container.
        if (path == config.ociBundleDir && !paths.owners().alsoTrusted.empty()) {
            continue;
        }
        if (isTree) {
            paths.checkTree(path);
        } else {
            paths.check(path);
        }
    }
}

engine::SiteConfig loadInstallation(const Entry& entry, PathChecker& paths) {
    if (entry.callersChoice) {
        checkOwnPath(entry, paths);
    }
    const auto& prefix = entry.prefix;
    const std::string etc = cat(prefix == "/" ? "" : prefix, "/etc");
    const auto directory = openFile(etc, O_PATH | O_DIRECTORY);
    const std::string configPath = cat(etc, "/sarus.json");
    const auto file = openChecked(directory.get(), "sarus.json", configPath, paths.owners());
    // Only other programs read the schema, so it is not opened. Only its owner matters here.
    if (struct stat schema{}; ::fstatat(directory.get(), "sarus.schema.json", &schema, 0) == 0) {
        checkStatus(schema, cat(etc, "/sarus.schema.json"), paths.owners());
    }
    auto config =
        engine::parseSiteConfig(readAll(file.get(), largestConfiguration, printable(configPath)), configPath);
    if (config.securityChecks) {
        paths.check(etc);
        checkInstallation(config, paths);
    }
    return config;
}

std::string userName(const engine::SiteConfig& config, uid_t uid) {
    std::string passwd;
    try {
        passwd = readFile(cat(config.prefixDir, "/etc/passwd"));
    } catch (const Error&) {
        // The number says as much; the start of a container reports a missing file.
    }
    return findUserName(passwd, uid).value_or(cat('#', uid));
}

node::SubordinateIds subordinateIdsOf(const engine::SiteConfig& config, const Credentials& credentials) {
    const auto uid = credentials.uid();
    std::optional<std::string> name;
    try {
        // The user could forge the answer: newuidmap(1) asks for itself.
        name = credentials.asUser([&] { return findAccountName(cat(config.prefixDir, "/etc/passwd"), uid); });
    } catch (const Error& error) {
        logWarn("Namespaces", cat("The container has a single user id: ", error.what()));
        return {};
    }
    return node::findSubordinateIds(name.value_or(cat(uid)), uid);
}

Session openSession(Entry entry, const Credentials& credentials) {
    Session session{.entry = std::move(entry), .credentials = credentials};
    session.paths = std::make_unique<PathChecker>(trustedOwners(session.entry, credentials));
    session.config = loadInstallation(session.entry, *session.paths);
    if (credentials.privileged()) {
        session.audit = AuditLog(session.config.auditLog, credentials.uid());
    }
    return session;
}

void checkRootlessAllowed(const Session& session) {
    if (session.entry.mode == Mode::rootless && !session.config.allowRootless) {
        throw Error(
            "This site does not allow containers without the set-user-ID starter (`allowRootless` in "
            "sarus.json)",
            session.entry.privilegeNotice)
            .setId("rootless-not-allowed");
    }
}

}  // namespace sarus::starter
