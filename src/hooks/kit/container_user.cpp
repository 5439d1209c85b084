#include "hooks/kit/container_user.hpp"

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/capabilities.hpp"
#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/id_map.hpp"
#include "base/pipe.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "hook_contracts/callers_settings.hpp"
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

/// Whether this is the container's own user namespace, whose parent is the runtime's.
bool isMapOf(std::string_view map, std::span<const oci::RuntimeIdMapping> mappings) {
    return !mappings.empty() && std::all_of(mappings.begin(), mappings.end(), [&](const auto& mapping) {
        return idOutside(map, mapping.containerId) == mapping.hostId;
    });
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

uid_t callersUid(const oci::BundleConfig& config, std::string_view map,
                 const std::optional<std::string>& told, uid_t ownUid) {
    if (told) {
        const auto uid = parseNumber(*told);
        if (!uid || *uid > std::numeric_limits<uid_t>::max()) {
            throw Error(cat("The annotation ", hook_contracts::callersUidAnnotation,
                            " is no uid: ", printable(*told)));
        }
        return static_cast<uid_t>(*uid);
    }
    if (isMapOf(map, config.uidMappings())) {
        return config.user().uid;
    }
    if (const auto found = idOutside(map, ownUid)) {
        return *found;
    }
    throw Error(cat("The uid ", ownUid, " has none outside of its user namespace"));
}

namespace {

uid_t findCallersUid(const oci::BundleConfig& config, const std::optional<std::string>& told) {
    if (isInitialUserNamespace()) {
        return mapContainerUser(config.user(), config.uidMappings(), config.gidMappings()).uid;
    }
    return callersUid(config, ownUidMap(), told, ::geteuid());
}

}  // namespace

uid_t callersUid(const HookContext& context) {
    return findCallersUid(context.config(), context.annotation(hook_contracts::callersUidAnnotation));
}

uid_t callersUid(const oci::BundleConfig& config) {
    const auto annotations = config.annotations();
    const auto told = annotations.find(hook_contracts::callersUidAnnotation);
    return findCallersUid(config, told == annotations.end() ? std::nullopt : std::optional(told->second));
}

uid_t callersUid() {
    return idOutside(ownUidMap(), ::getuid()).value_or(::getuid());
}

ContainerUser ownerOfNewFiles(const HookContext& context) {
    const auto& config = context.config();
    const bool isInside = !isInitialUserNamespace() && isMapOf(ownUidMap(), config.uidMappings());
    auto user = isInside ? ContainerUser{config.user().uid, config.user().gid, {}}
                         : mapContainerUser(config.user(), config.uidMappings(), config.gidMappings());
    if (!idOutside(ownUidMap(), user.uid)) {
        user.uid = ::geteuid();
    }
    if (!idOutside(readFile("/proc/self/gid_map", 64U << 10U), user.gid)) {
        user.gid = ::getegid();
    }
    return user;
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
