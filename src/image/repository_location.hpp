#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace sarus::image {

/// The part of the site configuration which says where images are.
struct RepositorySettings {
    std::string localRepositoryBaseDir;
    std::optional<std::string> centralizedRepositoryDir;
    std::string prefixDir;
};

/// The name of the first entry of `uid` in the text of a passwd file.
std::optional<std::string> userNameIn(std::string_view passwd, uid_t uid);

/// The caller's name: from `<prefixDir>/etc/passwd`, else from the system's user database. Throws Error if neither knows him.
std::string userName(const std::string& prefixDir, uid_t uid);

/// `<localRepositoryBaseDir>/<user>/.sarus` of the caller. Throws Error if `<user>` or `.sarus` belongs to somebody else than the
/// caller or root, who could put images of their own there.
std::string localRepositoryDirectory(const RepositorySettings& settings);

/// Makes sure that the directory above a local repository exists. Where the caller may not create it, the set-user-ID program
/// `starter` does so. Throws Error if that fails, too.
void ensureUserDirectory(const std::string& repository, const std::string& starter);

/// Throws Error if none is configured.
std::string centralizedRepositoryDirectory(const RepositorySettings& settings);

}  // namespace sarus::image
