#pragma once

#include <sys/types.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace sarus::starter {

/// Where the starter's privileges come from.
enum class Mode {
    privileged,  ///< set-user-ID root, or started by root itself
    rootless,    ///< only the privileges of a user namespace of its own
};

/// The caller, and the means to act with exactly the caller's rights.
///
/// Outside asUser() a privileged starter is root in all three ids (a caller could stop a process with the
/// caller's real id at any point) with root's group, and keeps the caller's supplementary groups. Not
/// thread-safe: ids belong to the process.
class Credentials {
public:
    /// Takes the caller's identity from the kernel (real ids and groups). If privileged, becomes root in all
    /// ids. Call once, at start, before entering a user namespace. Throws Error.
    static Credentials acquire(Mode mode);

    bool privileged() const noexcept { return mode == Mode::privileged; }
    /// The same caller, as a starter without privileges sees him. For use within asUser().
    Credentials withoutPrivileges() const {
        auto caller = *this;
        caller.mode = Mode::rootless;
        return caller;
    }
    /// The caller's ids as the host sees them, in both modes.
    uid_t uid() const noexcept { return callerUid; }
    gid_t gid() const noexcept { return callerGid; }
    /// The caller's supplementary groups, as the kernel lists them.
    const std::vector<gid_t>& groups() const noexcept { return callerGroups; }

    /// The owner to pass to chown(2) for the caller's files: 0 in the rootless starter's user namespace.
    uid_t ownerUid() const noexcept { return privileged() ? callerUid : insideUserNamespace ? 0 : callerUid; }
    gid_t ownerGid() const noexcept { return privileged() ? callerGid : insideUserNamespace ? 0 : callerGid; }

    /// Call after the rootless starter has entered its user namespace, where the caller's ids are 0. The ids
    /// of the namespace begin with 0; each number is the size of a range of consecutive ids of its parent.
    void enteredUserNamespace(std::vector<std::uint32_t> uids = {1}, std::vector<std::uint32_t> gids = {1}) {
        insideUserNamespace = true;
        uidRanges = std::move(uids);
        gidRanges = std::move(gids);
    }
    bool isInUserNamespace() const noexcept { return insideUserNamespace; }
    const std::vector<std::uint32_t>& uids() const noexcept { return uidRanges; }
    const std::vector<std::uint32_t>& gids() const noexcept { return gidRanges; }

    /// Runs `work` with only the caller's rights: real, effective and saved ids, the caller's groups, no
    /// effective capability (root keeps its own). Restores them afterwards, also if `work` throws; ends the
    /// process if that fails. Calls may nest. Hold no lock: the user can stop the process meanwhile.
    template <typename Work>
    auto asUser(Work&& work) const -> std::invoke_result_t<Work> {
        const Assumed assumed(*this);
        return std::forward<Work>(work)();
    }

private:
    class Assumed {
    public:
        explicit Assumed(const Credentials& theOwner);
        Assumed(const Assumed&) = delete;
        Assumed& operator=(const Assumed&) = delete;
        ~Assumed();

    private:
        const Credentials& owner;
    };

    void assume() const;
    void restore() const;

    Mode mode = Mode::rootless;
    uid_t callerUid = 0;
    gid_t callerGid = 0;
    std::vector<gid_t> callerGroups;
    bool insideUserNamespace = false;
    std::vector<std::uint32_t> uidRanges{1};
    std::vector<std::uint32_t> gidRanges{1};
    mutable int depth = 0;
};

/// From now on base/log.hpp writes its lines as the caller. The other end of the caller's streams may ask the
/// kernel who wrote (SO_PASSCRED), and must not see root on a line whose text the caller controls. Ends with
/// limitCapabilities().
void printAsCaller(const Credentials& credentials);

/// For good: all ids of a privileged starter become the caller's. The groups are the caller's already. Throws
/// Error.
void becomeCaller(const Credentials& credentials);

/// Drops every capability except `kept` (numbers as in capabilities(7)) and keeps the ids. No effect in a
/// rootless starter. Throws Error.
void limitCapabilities(const Credentials& credentials, const std::vector<int>& kept);

/// Scope without effective capabilities, in which only the user's own processes can be signalled. Throws
/// Error.
class WithoutCapabilities {
public:
    WithoutCapabilities();
    WithoutCapabilities(const WithoutCapabilities&) = delete;
    WithoutCapabilities& operator=(const WithoutCapabilities&) = delete;
    ~WithoutCapabilities();

private:
    std::uint64_t effective;
    std::uint64_t permitted;
};

/// Rights while the runtime is watched: all ids become the caller's for good, the process is not dumpable,
/// and only CAP_KILL remains (the parent-death signal needs it to reach a process of root). If the node hides
/// the process `watched` (0: none) from the caller, CAP_SYS_PTRACE remains too, to read /proc/<pid>. Throws
/// Error.
void dropToMonitor(const Credentials& credentials, pid_t watched = 0);

}  // namespace sarus::starter
