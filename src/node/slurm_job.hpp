#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace sarus::node {

/// The Slurm job that this process belongs to, from its cgroups: a variable can be set by anybody. Only root
/// can have made the directory `job_<number>`, because its parent belongs to root alone. nullopt if there is
/// none.
std::optional<std::uint64_t> slurmJobOfCgroups();

/// By what a later process of the user on this node recognises that a job is over, without asking the
/// controller.
struct SlurmJobMark {
    std::string id{};         ///< its number; "" outside of jobs
    std::string directory{};  ///< a cgroup that exists as long as the job; "" if none is known
    std::int64_t end = 0;     ///< Unix time at which its time limit ends it; 0: unknown
};

/// The mark of this process's job: that of its cgroups, otherwise that which the variables SLURM_JOB_ID and
/// SLURM_JOB_END_TIME name. The directory is that of the step "extern", which Slurm keeps for the whole job
/// (`PrologFlags=contain`), while other steps come and go.
SlurmJobMark markSlurmJob(const std::string& idVariable, const std::string& endVariable);

/// Whether the job is known to be over on this node: its directory is gone; or, without one, its time limit
/// passed an hour ago.
bool isOver(const SlurmJobMark& job, std::time_t now);

}  // namespace sarus::node
