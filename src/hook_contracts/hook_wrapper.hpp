#pragma once

#include <chrono>

/// The protocol between the starter and its program sarus-hook, which runs in front of each hook. It is
/// called as
///   sarus-hook MODE INDEX ROOT|TIMEOUT LOG|DESCRIPTION PROGRAM [ARGUMENT...]
/// INDEX: of the hook in the plan. ROOT: the container's root directory where hooks work in it, whose /dev
/// they must leave alone; 0 for none. TIMEOUT, for the other modes: seconds, 0 for no limit. LOG: the FIFO to
/// the starter; the hook's standard output goes to the FIFO with `outputSuffix`.
namespace sarus::hook_contracts::wrapper {

inline constexpr const char* alone = "run";     ///< reports to LOG that the hook begins, and runs it
inline constexpr const char* asChild = "fork";  ///< the same inside crun's process of the container
/// Like `asChild` for several hooks in turn, until one fails. Behind LOG each has its INDEX, the number of
/// its words (WORDS), PROGRAM and ARGUMENTs; its variables begin with "INDEX:".
inline constexpr const char* inTurn = "in-turn";
/// Like `inTurn`, for hooks that sarus-hook contains. Works without a child: the starter, which calls it,
/// limits its time.
inline constexpr const char* early = "early";
/// Has no PROGRAM: reports that all hooks before the command have begun.
inline constexpr const char* mark = "mark";
/// For stages after the start: reports a failure to LOG, and succeeds.
inline constexpr const char* wait = "wait";
/// In the container: describes a failure on standard error (DESCRIPTION).
inline constexpr const char* inside = "inside";
/// A hook itself, with a CGROUP and a file of RULES after TIMEOUT.
inline constexpr const char* devices = "devices";

/// How long most hooks of this package may work with root's rights, and all that sarus-hook contains.
inline constexpr std::chrono::seconds longest{120};

inline constexpr const char* outputSuffix = ".stdout";

/// A report to LOG is one line: this, then `begins` or `failed`, INDEX, and the wait status of the hook
/// (wait(2)), or -1 if it was killed after its timeout.
inline constexpr const char* reportMark = "\001sarus-hook ";
inline constexpr const char* begins = "begins";
inline constexpr const char* failed = "failed";

}  // namespace sarus::hook_contracts::wrapper
