#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/context.hpp"
#include "cli/run_request.hpp"
#include "image/store/lookup.hpp"

namespace sarus::cli {

/// The Slurm job of this process, as its environment tells. Whatever that says, only files of the caller are
/// used.
struct SlurmJob {
    std::uint64_t id = 0;
    std::uint64_t nodes = 0;   ///< 0: unknown
    bool isFirstTask = false;  ///< of its step; in a batch script there is only one
};
std::optional<SlurmJob> findSlurmJob();

/// Where the copies of the job's images are on each node.
std::string copiesDirectory(Context& context, const SlurmJob& job);

/// Removes them on this node. Warns if that fails.
void removeCopies(Context& context, const SlurmJob& job);

struct Broadcast {
    std::uint64_t nodes = 0;
    bool wasNeeded = false;  ///< otherwise all nodes had the copy
};

enum class WhileBusy { wait, fail };

/// Copies the image to all nodes of the job: makes each node ready, sends the file by one call of sbcast, and
/// has each node verify its copy. One process does so for an image and job; others wait for it, or get Error
/// with EWOULDBLOCK. Throws Error; then no node uses what was copied unless it had verified it.
Broadcast broadcastImage(Context& context, const SlurmJob& job, const image::FoundImage& image,
                         WhileBusy whileBusy);

/// Replaces the image of `sarus run` by its copy on this node, if there is one in a Slurm job. With
/// `--bcast`, or where the site wants that, the first task of the step broadcasts the image before, and the
/// others wait for the copy; whoever gets none keeps the shared file.
void useLocalCopy(Context& context, const Arguments& arguments, MayBroadcast mayBroadcast,
                  image::FoundImage& image);

}  // namespace sarus::cli
