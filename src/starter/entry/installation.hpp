#pragma once

#include <memory>
#include <string>

#include "base/path_checker.hpp"
#include "engine/site_config.hpp"
#include "node/subordinate_ids.hpp"
#include "starter/entry/audit.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/entry/entry.hpp"
#include "starter/entry/step_timer.hpp"

namespace sarus::starter {

/// Trusted owners of the files that the starter relies on: only root if it is privileged, otherwise the
/// caller too.
TrustedOwners trustedOwners(const Entry& entry, const Credentials& credentials);

/// The checks that `securityChecks` enables (reference documentation, "Security requirements"). Throws Error.
void checkInstallation(const engine::SiteConfig& config, PathChecker& paths);

/// If a user executes the set-user-ID program, first checks that its path, which determines the prefix, leads
/// to it and that only root can change that. Then reads and checks `<prefix>/etc/sarus.json`, parsing the
/// descriptor that was checked, and performs the checks that the configuration requests. Throws Error.
engine::SiteConfig loadInstallation(const Entry& entry, PathChecker& paths);

/// A call of the starter: the caller, the request, and the configuration of a checked installation.
struct Session {
    Entry entry;
    Credentials credentials;
    /// Reset before anything is mounted: an open directory cannot be unmounted while a container runs.
    std::unique_ptr<PathChecker> paths{};
    engine::SiteConfig config{};
    AuditLog audit{};
    StepTimer timer{};

    /// The checker for files named in the configuration; nullptr if they are not to be checked.
    PathChecker* checker() const { return config.securityChecks ? paths.get() : nullptr; }
};

/// The user's name in the installation's passwd file, or "#<uid>".
std::string userName(const engine::SiteConfig& config, uid_t uid);

/// The caller's subordinate ids; none where the node cannot give them. Throws Error.
node::SubordinateIds subordinateIdsOf(const engine::SiteConfig& config, const Credentials& credentials);

/// Checks the installation and reads its configuration. Throws Error.
Session openSession(Entry entry, const Credentials& credentials);

/// Throws Error if the site forbids unprivileged starters.
void checkRootlessAllowed(const Session& session);

}  // namespace sarus::starter
