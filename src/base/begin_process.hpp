#pragma once

#include <signal.h>

#include <vector>

namespace sarus {

/// What becomes of the signals that the caller of this program has blocked.
enum class BlockedSignals { unblock, keep };

/// The first step of each program. Does not depend on how its caller has arranged the process:
///
/// - Opens /dev/null in place of closed standard streams. Otherwise the first file that the program opens
///   would get a stream's number, and messages would go into it. Reading and writing still fail as on a
///   closed stream. Ends the process with a message if /dev/null cannot be opened.
/// - Gives SIGCHLD its default action. If it is ignored, waitpid(2) fails.
/// - Notes which signals the caller ignores (isIgnoredByCaller()). They stay ignored.
/// - Unblocks all signals, except in a program that becomes another one or whose caller blocks them on
///   purpose.
///
/// Returns the signals that were blocked.
sigset_t beginProcess(BlockedSignals blocked = BlockedSignals::unblock) noexcept;

/// Whether the caller of this program ignores a signal with which users, shells and workload managers
/// interrupt, end or notify programs: nohup(1), `trap '' USR1`, a command in the background of a script.
/// Such a signal is neither handled nor forwarded, and programs that run for the user ignore it too.
/// False for all others, and before beginProcess().
bool isIgnoredByCaller(int signal) noexcept;

/// The signals for which isIgnoredByCaller() holds, ascending.
std::vector<int> signalsIgnoredByCaller();

/// What becomes of the signals for which isIgnoredByCaller() holds.
enum class IgnoredSignals { keep, reset };

/// Gives all (other) signals their default action. Async-signal-safe.
void resetSignalActions(IgnoredSignals ignored) noexcept;

/// Unblocks all signals and returns those that were blocked. Async-signal-safe.
sigset_t unblockSignals() noexcept;

}  // namespace sarus
