#include "starter/verbs/site_rules.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/file_lock.hpp"
#include "base/fsverity.hpp"
#include "base/mounts.hpp"
#include "base/path_in_root.hpp"
#include "base/text.hpp"
#include "base/trusted_file.hpp"
#include "engine/mount_rules.hpp"
#include "engine/site_rule.hpp"
#include "starter/entry/host_facts.hpp"
#include "starter/image/image_digest.hpp"
#include "starter/image/image_mount.hpp"
#include "starter/supervise/container_record.hpp"

namespace sarus::starter {

namespace {

using engine::siteForbids;

constexpr std::size_t largestGroupFile = 64U << 20U;
constexpr std::size_t largestDigestsFile = 64U << 20U;

bool contains(const std::vector<std::string>& list, std::string_view entry) {
    return std::find(list.begin(), list.end(), entry) != list.end();
}

bool namesUser(const std::vector<std::string>& names, uid_t uid, const engine::SiteConfig& config) {
    return contains(names, cat(uid)) || contains(names, userName(config, uid));
}

/// Whether a name or number stands for one of the groups. A name that the installation does not know stands
/// for none.
bool namesGroup(const std::vector<std::string>& names, const std::vector<gid_t>& groups,
                const engine::SiteConfig& config) {
    const auto isOne = [&](gid_t gid) {
        return std::find(groups.begin(), groups.end(), gid) != groups.end();
    };
    const auto file = readFile(cat(config.prefixDir, "/etc/group"), largestGroupFile);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        const auto number = parseNumber(name);
        const auto gid = number ? std::optional(static_cast<gid_t>(*number)) : findGroup(file, name);
        return gid && isOne(*gid);
    });
}

/// Not for root, nor for containers without privileges.
std::optional<std::uint64_t> limitOfContainers(const Session& session) {
    const auto& credentials = session.credentials;
    return credentials.privileged() && credentials.uid() != 0 ? session.config.containerLimits.perUser
                                                              : std::nullopt;
}

/// Whether the path by which the image was opened leads to it from here: it was not removed or replaced.
bool isStillAt(const std::string& path, const struct stat& image, const Credentials& credentials) {
    struct stat found {};
    return credentials.asUser([&] { return ::lstat(path.c_str(), &found); }) == 0 &&
           found.st_dev == image.st_dev && found.st_ino == image.st_ino;
}

void checkOwner(const engine::SiteConfig& config, const struct stat& image) {
    const auto& policy = config.imagePolicy;
    const bool mayGroup = !policy.groups.empty();
    if (!policy.owners.empty() && !namesUser(policy.owners, image.st_uid, config)) {
        throw siteForbids(cat("images of the user ", printable(userName(config, image.st_uid))),
                          "imagePolicy.owners");
    }
    if (mayGroup && !namesGroup(policy.groups, {image.st_gid}, config)) {
        throw siteForbids(cat("images of the group ", image.st_gid), "imagePolicy.groups");
    }
    if ((image.st_mode & S_IWOTH) != 0 || (!mayGroup && (image.st_mode & S_IWGRP) != 0)) {
        throw siteForbids("images that others than their owner may write to", "imagePolicy");
    }
}

void checkPlace(const Session& session, const std::string& path, const struct stat& image) {
    const auto& paths = session.config.imagePolicy.paths;
    const bool isAllowed = std::any_of(paths.begin(), paths.end(), [&](const std::string& directory) {
        return isSameOrBelow(path, normalizePath(directory));
    });
    if (!paths.empty() && !(isAllowed && isStillAt(path, image, session.credentials))) {
        throw siteForbids(cat("images at ", printable(path)), "imagePolicy.paths");
    }
}

/// Whether the first word of a line is the digest.
bool lists(std::string_view text, std::string_view digest) {
    for (std::size_t at = text.find(digest); at != std::string_view::npos; at = text.find(digest, at + 1)) {
        const auto end = at + digest.size();
        if ((at == 0 || text[at - 1] == '\n') &&
            (end == text.size() || text.find_first_of(" \t\r\n", end) == end)) {
            return true;
        }
    }
    return false;
}

bool isListed(const std::string& file, std::string_view digest) {
    PathChecker paths({});  // only root may change it or what leads to it, whatever `securityChecks` says
    const auto found = paths.check(file);
    if (!found) {
        throw Error(
            cat("The file ", printable(file), " is missing (`imagePolicy.digestsFile` in sarus.json)"));
    }
    const auto slash = found->realPath.rfind('/');
    const auto directory = openTrustedDirectory(slash == 0 ? "/" : found->realPath.substr(0, slash), true);
    return lists(
        readTrustedFile(directory.get(), found->realPath.substr(slash + 1), file, largestDigestsFile, true),
        digest);
}

void checkDigest(Session& session, const engine::LaunchRequest& request) {
    const auto& policy = session.config.imagePolicy;
    if (!policy.digestsFile && !policy.verify) {
        return;
    }
    const auto digest = fixedDigest(request.imageFd, request.imagePath);
    if (!digest) {
        throw siteForbids(
            "images that somebody could change while they run: they must belong to root alone, or have "
            "fs-verity enabled",
            policy.verify ? "imagePolicy.verify" : "imagePolicy.digestsFile");
    }
    session.audit.about().text("digest", *digest);
    if (policy.verify && !fsverity::isDigest(request.imageDigest)) {
        throw siteForbids("images without a recorded digest", "imagePolicy.verify");
    }
    if (policy.verify && *digest != request.imageDigest) {
        throw siteForbids(cat("the image ", printable(request.imagePath), ", which is not as it was made"),
                          "imagePolicy.verify");
    }
    if (policy.digestsFile && !isListed(*policy.digestsFile, *digest)) {
        throw siteForbids(cat("images with the digest ", *digest), "imagePolicy.digestsFile");
    }
}

}  // namespace

void checkCaller(const Session& session) {
    const auto& config = session.config;
    const auto& credentials = session.credentials;
    if (!credentials.privileged() || credentials.uid() == 0 || config.privilegedGroups.empty()) {
        return;
    }
    auto groups = credentials.groups();
    groups.push_back(credentials.gid());
    if (!namesGroup(config.privilegedGroups, groups, config)) {
        throw siteForbids("you to start containers with privileges", "privilegedGroups");
    }
}

void checkImage(Session& session, const engine::LaunchRequest& request) {
    const auto& config = session.config;
    if (!session.credentials.privileged() || config.imagePolicy.isEmpty()) {
        return;
    }
    // First: anybody's FUSE server could claim any owner and digest, and answer whenever it likes.
    if (const auto why = whyNotByKernel(request.imageFd); !why.empty()) {
        throw siteForbids(cat("the image ", printable(request.imagePath), ", because ", why), "imagePolicy");
    }
    struct stat image {};
    checkErrno(::fstat(request.imageFd, &image),
               cat("Failed to inspect image ", printable(request.imagePath)));
    checkOwner(config, image);
    checkPlace(session, pathOfDescriptor(request.imageFd), image);
    checkDigest(session, request);
}

UniqueFd turnToAddContainer(const Session& session, const std::string& runtimeRoot) {
    constexpr int longest = 5'000;
    if (!limitOfContainers(session)) {
        return {};
    }
    UniqueFd directory(::open(runtimeRoot.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    lockWithin(directory.get(), longest);
    return directory;
}

void checkContainerCount(const Session& session, const std::string& runtimeRoot) {
    const auto limit = limitOfContainers(session);
    if (limit && countContainers(runtimeRoot) > *limit) {
        throw siteForbids(cat("more than ", *limit, " containers of a user on a node"),
                          "containerLimits.perUser");
    }
}

}  // namespace sarus::starter
