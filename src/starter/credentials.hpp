#pragma once

#include <sys/types.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace sarus::starter {

/// How the starter came to its rights.
enum class Mode {
    privileged,  ///< set-user-ID root, or started by root itself
    rootless,    ///< no privilege but those of a user namespace of its own
};

/// Who called, and the way to act with exactly his rights.
///
/// Between calls of asUser() a privileged starter is root in all three ids (a process with the user's real id could be stopped
/// by him at any point) with root's group, and keeps the caller's supplementary groups. Not thread-safe: ids belong to the
/// process.
class Credentials {
public:
    /// Takes the caller's identity from the kernel (real ids and groups) and, if privileged, becomes root in all ids.
    /// Must be called once, at start, before a user namespace is entered. Throws Error.
    static Credentials acquire(Mode mode);

    bool privileged() const noexcept { return mode == Mode::privileged; }
    /// The caller's ids as the host sees them, in both modes.
    uid_t uid() const noexcept { return callerUid; }
    gid_t gid() const noexcept { return callerGid; }
    /// The caller's supplementary groups, as the kernel lists them.
    const std::vector<gid_t>& groups() const noexcept { return callerGroups; }

    /// What to pass to chown(2) for a file that belongs to the caller: in the rootless starter's user namespace that is 0.
    uid_t ownerUid() const noexcept { return privileged() ? callerUid : insideUserNamespace ? 0 : callerUid; }
    gid_t ownerGid() const noexcept { return privileged() ? callerGid : insideUserNamespace ? 0 : callerGid; }

    /// To be called after the rootless starter has entered its user namespace, where the caller's ids are 0.
    void enteredUserNamespace() noexcept { insideUserNamespace = true; }

    /// Runs `work` with the caller's rights alone: real, effective and saved ids, his groups, no effective capability (a caller
    /// who is root keeps his). Restores afterwards, also when `work` throws; ends the process if that is impossible.
    /// Nested calls are allowed. No lock may be held: the user can stop the process meanwhile.
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
    mutable int depth = 0;
};

/// Gives up every capability but `kept` (numbers as in capabilities(7)), and keeps the ids. Does nothing in a rootless starter.
/// Throws Error.
void limitCapabilities(const Credentials& credentials, const std::vector<int>& kept);

/// Scope in which no capability is in effect, so that only the user's own processes can be signalled. Throws Error.
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

/// For the time in which the runtime is watched: all ids become the caller's for good, of the capabilities CAP_KILL alone
/// stays (the parent-death signal needs it to reach a process of root), and the process is not dumpable. Where the node hides the
/// process `watched` (0: none) from the caller, CAP_SYS_PTRACE stays too: it is what shows /proc/<pid> then. Throws Error.
void dropToMonitor(const Credentials& credentials, pid_t watched = 0);

}  // namespace sarus::starter
