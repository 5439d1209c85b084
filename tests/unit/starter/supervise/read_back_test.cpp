#include "starter/supervise/read_back.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/eventually.hpp"
#include "base/text.hpp"

namespace sarus::starter::read_back_test {
namespace {

using testing::Optional;

constexpr const char* runtimeMap = "         0          0 4294967295\n";
constexpr const char* executed = "7 (a) b) ) R 1 7 7 0 -1 4194304 0\n";
constexpr const char* forked = "7 (runc:[2:INIT]) S 1 7 7 0 -1 4194368 0\n";

std::string statusWith(const std::string& noNewPrivs = "1", const std::string& seccomp = "2",
                       const std::string& effective = "0000000000000000", uid_t saved = ::getuid()) {
    const auto uid = ::getuid();
    const auto gid = ::getgid();
    return cat("Name:\tx\nState:\tR (running)\nUid:\t", uid, '\t', uid, '\t', saved, '\t', uid, "\nGid:\t",
               gid, '\t', gid, '\t', gid, '\t', gid,
               "\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t", effective,
               "\nCapAmb:\t0000000000000000\nNoNewPrivs:\t", noNewPrivs, "\nSeccomp:\t", seccomp, "\n");
}

std::optional<std::string> difference(const std::string& status,
                                      const PlannedState& planned = {.privileged = true, .seccomp = true},
                                      const char* map = runtimeMap) {
    return findDifference({executed, status, map}, {executed, "State:\tS\nSeccomp_filters:\t1\n", runtimeMap},
                          planned);
}

TEST(ReadBack, WhatIsAsPlannedDoesNotDiffer) {
    EXPECT_THAT(difference(statusWith()), Optional(std::string()));
}

TEST(ReadBack, WhatDiffersIsNamed) {
    EXPECT_THAT(difference(statusWith("0")), Optional(std::string("NoNewPrivs is 0 instead of 1")));
    EXPECT_THAT(difference(statusWith("1", "0")), Optional(std::string("Seccomp is 0 instead of 2")));
    EXPECT_THAT(difference(statusWith("1", "2", "0000000000000400")),
                Optional(std::string("CapEff is 0000000000000400 instead of 0000000000000000")));
    const auto uid = ::getuid();
    EXPECT_THAT(difference(statusWith("0", "2", "0000000000000000", uid + 1)),
                Optional(cat("NoNewPrivs is 0 instead of 1, Uid is ", uid, ' ', uid, ' ', uid + 1, ' ', uid,
                             " instead of ", uid, ' ', uid, ' ', uid, ' ', uid)));
    EXPECT_THAT(difference(statusWith() + "Seccomp_filters:\t1\n"),
                Optional(std::string("Seccomp has no filter but those of the runtime")));
    EXPECT_THAT(difference(statusWith() + "Seccomp_filters:\t2\n"), Optional(std::string()));
    EXPECT_THAT(difference("Name:\tx\nState:\tR\n", {}), testing::Not(Optional(std::string())));
}

TEST(ReadBack, WhatTheProgramMayHaveDoneItselfIsNotLookedAt) {
    EXPECT_THAT(difference(statusWith("1", "2"), {.privileged = true, .seccomp = false}),
                Optional(std::string()));
    const auto* const own = "      1000       1000          1\n";
    EXPECT_THAT(
        difference(statusWith("1", "2", "000001ffffffffff"), {.privileged = true, .seccomp = true}, own),
        Optional(std::string()))
        << "in a user namespace of its own";
    EXPECT_THAT(difference(statusWith("1", "2", "000001ffffffffff"), {.privileged = false, .seccomp = true}),
                Optional(std::string()));
    EXPECT_THAT(difference(statusWith("1", "2", "000001ffffffffff", ::getuid() + 7), {.isRoot = true}),
                Optional(std::string()));
}

TEST(ReadBack, AWorkingDirectoryOutsideOfTheContainerIsNamed) {
    const auto differenceOf = [](const char* map, bool privileged) {
        return findDifference({executed, statusWith(), map, true}, {executed, "State:\tS\n", runtimeMap},
                              {privileged, true});
    };
    EXPECT_THAT(differenceOf(runtimeMap, true),
                Optional(std::string("the working directory is outside of the container")));
    EXPECT_THAT(differenceOf("      1000       1000          1\n", true), Optional(std::string()))
        << "it can mount there";
    EXPECT_THAT(differenceOf(runtimeMap, false), Optional(std::string())) << "all of it is the user's";
}

TEST(ReadBack, ItIsTooEarlyAsLongAsTheRuntimePrepares) {
    EXPECT_EQ(findDifference({forked, statusWith("0"), runtimeMap}, {}, {}), std::nullopt);
}

TEST(ReadBack, WhatIsGoneDoesNotDiffer) {
    EXPECT_THAT(findDifference(ProcessFiles(), {}, {}), Optional(std::string()));
    EXPECT_THAT(findDifference({executed, "Name:\tx\nState:\tZ (zombie)\n", ""}, {}, {}),
                Optional(std::string()));
    EXPECT_THAT(findDifference(Process(0), Process(0), {}), Optional(std::string()));
}

TEST(ReadBack, TheKernelTellsWhetherAProcessHasExecutedAProgram) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        char byte = 0;
        ::close(ends[1]);
        [[maybe_unused]] const auto count = ::read(ends[0], &byte, 1);
        ::execl("/bin/sleep", "sleep", "60", nullptr);
        ::_exit(1);
    }
    ::close(ends[0]);
    const Process process(pid);
    EXPECT_EQ(findDifference(process, Process(::getpid()), {}), std::nullopt);
    ::close(ends[1]);
    std::optional<std::string> found;
    test::eventually([&] { return found || (found = findDifference(process, Process(::getpid()), {})); },
                     5000);
    EXPECT_THAT(found, Optional(std::string()));
    ::kill(pid, SIGKILL);
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
    EXPECT_THAT(findDifference(process, Process(::getpid()), {}), Optional(std::string()));
}

}  // namespace
}  // namespace sarus::starter::read_back_test
