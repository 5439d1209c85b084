#include "image/store/repository_location.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/name_service.hpp"
#include "base/path_in_root.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

void refuseOtherOwner(const std::string& path, uid_t owner, std::string_view cure) {
    if (owner != ::geteuid() && owner != 0) {
        throw Error(
            cat("The image repository \"", printable(path), "\" belongs to another user (uid ", owner, ")"),
            cat("Images from there could be anybody's: ", cure));
    }
}

void checkOwner(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        refuseOtherOwner(path, status.st_uid, "remove or rename it, and a new repository is created");
    }  // missing: we will create it; unreachable: the first use reports it
}

/// Whoever owns a link decides where it leads, and whoever may rename a directory decides what has its name.
/// Returns whether everybody may create something in this directory.
bool checkChosenPart(const std::string& path, bool mustBeOwn, const std::string& chosenBy) {
    struct stat link {};
    struct stat status {};
    const auto cure = cat("change ", chosenBy);
    if (::lstat(path.c_str(), &link) != 0) {
        return false;  // as in checkOwner()
    }
    if (mustBeOwn || S_ISLNK(link.st_mode)) {
        refuseOtherOwner(path, link.st_uid, cure);
    }
    if (::stat(path.c_str(), &status) != 0) {
        return false;
    }
    if (mustBeOwn) {
        refuseOtherOwner(path, status.st_uid, cure);
    }
    if (!S_ISDIR(status.st_mode)) {
        throw Error(cat("The image repository cannot be in \"", printable(path), "\": it is not a directory"),
                    cat("Change ", chosenBy));
    }
    const bool isOpen = (status.st_mode & S_IWOTH) != 0;
    if (isOpen && (status.st_mode & S_ISVTX) == 0) {
        throw Error(cat("The image repository cannot be in \"", printable(path),
                        "\": every user can change that directory"),
                    cat("Run 'chmod o-w ", printable(path), "', or change ", chosenBy));
    }
    return isOpen;
}

}  // namespace

std::string userName(const std::string& prefixDir, uid_t uid) {
    const auto file = cat(prefixDir, "/etc/passwd");
    const auto name = findAccountName(file, uid);
    if (!name || !isDirectoryName(*name)) {
        throw Error(
            cat("No user name found for uid ", uid, ": it determines the path of the image repository"),
            cat("Neither ", printable(file), " nor the system's user database has a valid entry"));
    }
    return *name;
}

std::string usualRepositoryDirectory(const RepositorySettings& settings) {
    return cat(settings.localRepositoryBaseDir, '/', userName(settings.prefixDir, ::geteuid()), "/.sarus");
}

std::string localRepositoryDirectory(const RepositorySettings& settings) {
    auto repository = usualRepositoryDirectory(settings);
    checkOwner(directoryOf(repository));
    checkOwner(repository);
    return repository;
}

std::string chosenRepositoryDirectory(std::string directory, const std::string& chosenBy) {
    if (!isPlainPath(directory)) {
        throw Error(cat("Invalid place of the image repository in ", chosenBy, ": '", printable(directory),
                        "' is not an absolute path below '/' without '.', '..' and control characters"));
    }
    directory.resize(directory.find_last_not_of('/') + 1);
    const auto above = directoryOf(directory).size();
    bool isAboveOpen = false;
    for (auto end = directory.find('/', 1);; end = directory.find('/', end + 1)) {
        const auto size = std::min(end, directory.size());
        isAboveOpen = checkChosenPart(directory.substr(0, size), isAboveOpen || size >= above, chosenBy);
        if (size == directory.size()) {
            return directory;
        }
    }
}

bool createUserDirectory(const std::string& repository) {
    try {
        createDirectories(directoryOf(repository));
        return true;
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EPERM) {
            throw;
        }
        return false;
    }
}

std::string centralizedRepositoryDirectory(const RepositorySettings& settings) {
    if (!settings.centralizedRepositoryDir) {
        throw Error("There is no centralized repository on this system",
                    "The system administrator can set centralizedRepositoryDir in sarus.json");
    }
    return *settings.centralizedRepositoryDir;
}

}  // namespace sarus::image
