#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/subprocess.hpp"
#include "starter/isolated.hpp"
#include "starter/supervise/job_step.hpp"

namespace sarus::starter::job_step_as_root_test {
namespace {

using test::isolated;

/// Whether a process two generations below one of this name finds it.
bool findsAncestor(const char* name, const std::vector<std::string>& environment) {
    ::prctl(PR_SET_NAME, name);
    const auto find = [&] { return watchJobStep(environment) ? 0 : 1; };
    return isolated([&] {
               ::prctl(PR_SET_NAME, "shell");
               return isolated(find);
           }) == 0;
}

TEST(JobStepAsRoot, IsRootsProcessOfSlurmAbove) {
    EXPECT_EQ(0, isolated([] { return findsAncestor("slurmstepd", {"SLURM_JOB_ID=1"}) ? 0 : 1; }));
    EXPECT_EQ(0, isolated([] { return findsAncestor("slurmstepd", {"SLURM_JOB=1"}) ? 1 : 0; }));
    EXPECT_EQ(0, isolated([] { return findsAncestor("slurmstep", {"SLURM_JOB_ID=1"}) ? 1 : 0; }));
}

TEST(JobStepAsRoot, IsNoSetUserIdProgramOfThatName) {
    EXPECT_EQ(0, isolated([] {
                  constexpr uid_t user = 65534;
                  return ::setresuid(user, 0, 0) == 0 && !findsAncestor("slurmstepd", {"SLURM_JOB_ID=1"}) ? 0
                                                                                                          : 1;
              }));
}

TEST(JobStepAsRoot, IsReadableWhenItHasEnded) {
    EXPECT_EQ(0, isolated([] {
                  int ends[2];
                  const auto step = ::pipe(ends) == 0 ? ::fork() : -1;
                  if (step == 0) {
                      ::prctl(PR_SET_NAME, "slurmstepd");
                      if (::fork() == 0) {
                          const auto end = watchJobStep({"SLURM_JOB_ID=1"});
                          pollfd source{end.get(), POLLIN, 0};
                          const bool lives = end && ::poll(&source, 1, 0) == 0;
                          ::kill(::getppid(), SIGKILL);
                          const bool ended = ::poll(&source, 1, 10'000) == 1;
                          [[maybe_unused]] const auto count = ::write(ends[1], lives && ended ? "y" : "n", 1);
                          ::_exit(0);
                      }
                      ::pause();
                  }
                  char answer = 'n';
                  ::close(ends[1]);
                  return ::read(ends[0], &answer, 1) == 1 && answer == 'y' ? 0 : 1;
              }));
}

}  // namespace
}  // namespace sarus::starter::job_step_as_root_test
