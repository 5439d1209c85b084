#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/name_service.hpp"
#include "engine/site_config.hpp"
#include "starter/entry/credentials.hpp"
#include "starter/rootfs/rootfs.hpp"

namespace sarus::starter {

/// Replaces hosts, resolv.conf, localtime, nsswitch.conf, passwd and group in the container's /etc (reference
/// documentation, "Root filesystem"). The first three come from the host, the others from the installation
/// (`<prefixDir>/etc/container/nsswitch.conf`, `<prefixDir>/etc/passwd`, `<prefixDir>/etc/group`). The new
/// files belong to the user and have mode 0644. The old ones are unlinked, never written through; /etc itself
/// may be a symbolic link inside the root. With `account`, adds the caller's ids to passwd and group if they
/// are missing. Reads all sources with the caller's rights. If the node lacks one of its files, or the caller
/// may not read it, the image's file stays. With Accounts::ofImage, nsswitch.conf, passwd and group are the
/// container's own, to which the caller's ids are added. Throws Error if the installation lacks a file.
void writeEtcFiles(int root, const engine::SiteConfig& config, const Credentials& credentials,
                   const std::optional<CallerAccount>& account, Accounts accounts = Accounts::ofNode);

/// The text, with the line of the name service for the uid unless it has one already; without an answer the
/// name is "user<uid>".
std::string withPasswdEntry(std::string passwd, uid_t uid, gid_t gid, const std::string& home,
                            const NameService& ask);
/// The same for groups. Only the first of them gets a name of the kind "group<gid>".
std::string withGroupEntries(std::string group, const std::vector<gid_t>& gids, const NameService& ask);

/// The files that writeEtcFiles() writes, and that of writeContainerenv(), without a slash in front: what a
/// container has there is the engine's, and a new one gets its own.
std::vector<std::string> filesOfEngine(Accounts accounts);

}  // namespace sarus::starter
