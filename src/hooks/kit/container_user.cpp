#include "hooks/kit/container_user.hpp"

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <optional>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hooks/kit/container_namespaces.hpp"

namespace sarus::hooks {

namespace {

std::optional<std::uint32_t> mapId(std::uint32_t id, std::span<const oci::RuntimeIdMapping> mappings) {
    if (mappings.empty()) {
        return id;
    }
    for (const auto& mapping : mappings) {
        if (id >= mapping.containerId && id - mapping.containerId < mapping.size) {
            return mapping.hostId + (id - mapping.containerId);
        }
    }
    return std::nullopt;
}

}  // namespace

ContainerUser mapContainerUser(const oci::RuntimeUser& user,
                               std::span<const oci::RuntimeIdMapping> uidMappings,
                               std::span<const oci::RuntimeIdMapping> gidMappings) {
    const auto uid = mapId(user.uid, uidMappings);
    const auto gid = mapId(user.gid, gidMappings);
    if (!uid || !gid) {
        throw Error(cat("The container's user ", user.uid, ':', user.gid,
                        " has no id outside of its user namespace"));
    }
    ContainerUser result{.uid = *uid, .gid = *gid, .groups = {}};
    for (const auto group : user.additionalGids) {
        if (const auto mapped = mapId(group, gidMappings)) {
            result.groups.push_back(*mapped);
        }
    }
    return result;
}

namespace {

std::string ownUidMap() {
    return readFile("/proc/self/uid_map", 64U << 10U);
}

std::optional<uid_t> findIn(std::string_view map, uid_t uid) {
    for (const auto& line : split(map, '\n')) {
        const auto words = splitWords(line);
        if (words.size() != 3) {
            continue;
        }
        const auto inside = parseNumber(words[0]);
        const auto outside = parseNumber(words[1]);
        const auto count = parseNumber(words[2]);
        if (inside && outside && count && uid >= *inside && uid - *inside < *count) {
            return static_cast<uid_t>(*outside + (uid - *inside));
        }
    }
    return std::nullopt;
}

/// Than the container's user: the hook is root's on the node itself.
bool hasMoreRights() {
    return isInitialUserNamespace() && ::geteuid() == 0;
}

void becomeUser(const ContainerUser& user) {
    const auto shown = cat("Failed to become the container's user ", user.uid, ':', user.gid);
    int parentDeathSignal = 0;  // which the kernel forgets with the ids
    checkErrno(::prctl(PR_GET_PDEATHSIG, &parentDeathSignal), shown);
    const pid_t parent = ::getppid();
    checkErrno(::setgroups(user.groups.size(), user.groups.data()), shown);
    checkErrno(::setresgid(user.gid, user.gid, user.gid), shown);
    checkErrno(::setresuid(user.uid, user.uid, user.uid), shown);
    uid_t uids[3]{};
    gid_t gids[3]{};
    checkErrno(::getresuid(&uids[0], &uids[1], &uids[2]), shown);
    checkErrno(::getresgid(&gids[0], &gids[1], &gids[2]), shown);
    for (int i = 0; i < 3; ++i) {
        if (uids[i] != user.uid || gids[i] != user.gid) {
            throw Error(cat(shown, ": the ids are not what was set"));
        }
    }
    if (user.uid != 0) {
        setCapabilities({});  // whatever securebits(7) say
    }
    checkErrno(::prctl(PR_SET_PDEATHSIG, parentDeathSignal), shown);
    if (parentDeathSignal != 0 && ::getppid() != parent) {
        ::raise(parentDeathSignal);
    }
}

}  // namespace

std::optional<uid_t> findNodeUid(uid_t uid) {
    return findIn(ownUidMap(), uid);
}

uid_t nodeUid(uid_t uid, std::string_view map) {
    if (const auto found = findIn(map, uid)) {
        return *found;
    }
    throw Error(cat("The container's user ", uid, " has no id on the node"));
}

uid_t nodeUid(uid_t uid) {
    return nodeUid(uid, ownUidMap());
}

void becomeContainerUser(const HookContext& context) {
    if (hasMoreRights()) {  // else there may be no config.json, which is not needed then
        becomeContainerUser(context.config());
    }
}

void becomeContainerUser(const oci::BundleConfig& config) {
    if (hasMoreRights()) {
        becomeUser(mapContainerUser(config.user(), config.uidMappings(), config.gidMappings()));
    }
}

std::string runAsContainerUser(const ContainerUser& user, const std::function<std::string()>& work) {
    if (!hasMoreRights()) {
        return work();
    }
    auto answer = makePipe();
    const pid_t self = ::getpid();
    Child child(checkErrno(::fork(), "Failed to start a process"));
    if (child.pid() == 0) {
        int status = 1;
        std::string text;
        try {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
            if (const auto parent = ::getppid(); parent != self && parent != 0) {  // 0: in another namespace
                ::_exit(1);
            }
            becomeUser(user);
            text = work();
            status = 0;
        } catch (const std::exception& error) {
            text = error.what();
        }
        [[maybe_unused]] const auto ignored = ::write(answer.writer.get(), text.data(), text.size());
        ::_exit(status);
    }
    answer.writer.reset();
    constexpr std::size_t longest = 64U << 10U;
    auto text = readAll(answer.reader.get(), longest, "the answer of a process");
    if (!child.wait().ok()) {
        throw Error(text.empty() ? "A process of the container's user ended without an answer" : text);
    }
    return text;
}

}  // namespace sarus::hooks
