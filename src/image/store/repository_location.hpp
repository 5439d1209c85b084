#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace sarus::image {

/// The part of the site configuration about the location of images.
struct RepositorySettings {
    std::string localRepositoryBaseDir;
    std::optional<std::string> centralizedRepositoryDir;
    std::string prefixDir;
};

/// The caller's name: from `<prefixDir>/etc/passwd`, otherwise from the system's user database. Throws Error
/// if neither lists the caller.
std::string userName(const std::string& prefixDir, uid_t uid);

/// The caller's `<localRepositoryBaseDir>/<user>/.sarus`, unchecked. Throws Error as userName() does.
std::string usualRepositoryDirectory(const RepositorySettings& settings);

/// The same directory. Throws Error if `<user>` or `.sarus` belongs to
/// anybody but the caller or root, because the owner could place images there.
std::string localRepositoryDirectory(const RepositorySettings& settings);

/// `directory`, which the caller or the site has chosen as local repository. `chosenBy`: for messages. Throws
/// Error if it is not an absolute path without "." and "..", or if somebody else could place images there:
/// the directory, the one above it, all links on the way, and what is in a directory where everybody may
/// create something (/tmp) must belong to the caller or root, and no directory on the way may be open to
/// changes by everybody.
std::string chosenRepositoryDirectory(std::string directory, const std::string& chosenBy);

/// Ensures that the directory above a local repository exists. False if the caller may not create it. Throws
/// Error.
bool createUserDirectory(const std::string& repository);

/// Throws Error if none is configured.
std::string centralizedRepositoryDirectory(const RepositorySettings& settings);

}  // namespace sarus::image
