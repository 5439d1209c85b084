#include "image/repository_location.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace sarus::image {

namespace {

bool isPathComponent(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

std::optional<std::string> userNameOfSystem(uid_t uid) {
    std::vector<char> buffer(16384);
    passwd entry{};
    passwd* found = nullptr;
    int error = 0;
    while ((error = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found)) == ERANGE && buffer.size() < (16U << 20U)) {
        buffer.resize(buffer.size() * 2);
    }
    return error == 0 && found != nullptr ? std::optional<std::string>(found->pw_name) : std::nullopt;
}

void checkOwner(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return;  // missing: it will be created by us; unreachable: the first use reports it
    }
    if (status.st_uid != ::geteuid() && status.st_uid != 0) {
        throw Error(cat("The image repository \"", printable(path), "\" belongs to another user (uid ", status.st_uid, ")"),
                    "Images from there could be anybody's: remove or rename it, and a new repository is created");
    }
}

}  // namespace

std::optional<std::string> userNameIn(std::string_view passwd, uid_t uid) {
    for (const auto& line : split(passwd, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() >= 3 && parseNumber(fields[2]) == std::optional<std::uint64_t>(uid)) {
            return fields[0];
        }
    }
    return std::nullopt;
}

std::string userName(const std::string& prefixDir, uid_t uid) {
    const auto file = cat(prefixDir, "/etc/passwd");
    std::optional<std::string> name;
    try {
        name = userNameIn(readFile(file, 256U << 20U), uid);
    } catch (const Error& error) {
        if (error.errnum() == 0) {
            throw;
        }
        // No such cache, as in an installation of a user: the system knows.
    }
    if (!name) {
        name = userNameOfSystem(uid);
    }
    if (!name || !isPathComponent(*name)) {
        throw Error(cat("There is no user name for uid ", uid, ", which tells where the image repository is"),
                    cat("Neither ", printable(file), " nor the system's user database has a valid entry"));
    }
    return *name;
}

std::string localRepositoryDirectory(const RepositorySettings& settings) {
    const auto userDirectory = cat(settings.localRepositoryBaseDir, '/', userName(settings.prefixDir, ::geteuid()));
    auto repository = cat(userDirectory, "/.sarus");
    checkOwner(userDirectory);
    checkOwner(repository);
    return repository;
}

void ensureUserDirectory(const std::string& repository, const std::string& starter) {
    const auto userDirectory = repository.substr(0, repository.find_last_of('/'));
    try {
        createDirectories(userDirectory);
        return;
    } catch (const Error& error) {
        if (error.errnum() != EACCES && error.errnum() != EPERM) {
            throw;
        }
    }
    const Command command{
        .path = starter, .args = {"sarus-starter", "create-repository"}, .environment = std::vector<std::string>{}};
    const auto output = runAndCapture(command);
    if (!output.status.ok()) {
        const auto lines = split(trim(output.err), '\n');
        throw Error(printable(lines.front()), join(std::span(lines).subspan(1), "\n"));
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
