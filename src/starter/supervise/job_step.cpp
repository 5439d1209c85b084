#include "starter/supervise/job_step.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/process_tree.hpp"
#include "starter/supervise/read_back.hpp"

namespace sarus::starter {

namespace {

/// The real user id tells it from a set-user-ID program that a user has given the name.
bool isStepDaemon(const Process& process) {
    return process.read("comm") == "slurmstepd\n" && statusField(process.read("status"), "Uid") == "0";
}

}  // namespace

UniqueFd watchJobStep(const std::vector<std::string>& environment) {
    const auto isJob = [](const std::string& entry) { return entry.starts_with("SLURM_JOB_ID="); };
    if (std::none_of(environment.begin(), environment.end(), isJob)) {
        return {};
    }
    for (Process process(::getppid()); process.pid() > 1; process = Process(process.parent())) {
        UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0)));
        if (isStepDaemon(process)) {  // still, so the descriptor is not that of a later process
            return end;
        }
    }
    return {};
}

}  // namespace sarus::starter
