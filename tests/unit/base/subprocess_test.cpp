#include "base/subprocess.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"

namespace sarus::subprocess_test {
namespace {

TEST(RunAndCapture, CollectsBothOutputsAndTheStatus) {
    const auto output =
        runAndCapture({.path = "/bin/sh", .args = {"sh", "-c", "echo out; echo err >&2; exit 7"}});
    EXPECT_EQ(output.out, "out\n");
    EXPECT_EQ(output.err, "err\n");
    EXPECT_EQ(output.status.code, 7);
    EXPECT_FALSE(output.status.ok());
}

TEST(RunAndCapture, ReportsTheSignal) {
    const auto output = runAndCapture({.path = "/bin/sh", .args = {"sh", "-c", "kill -TERM $$"}});
    EXPECT_EQ(output.status.signal, SIGTERM);
    EXPECT_EQ(output.status.shellStatus(), 143);
}

TEST(RunAndCapture, DropsWhatExceedsTheLimitWithoutBlockingTheChild) {
    const auto output = runAndCapture(
        {.path = "/bin/sh", .args = {"sh", "-c", "head -c 1000000 /dev/zero; echo end >&2"}}, 100);
    EXPECT_EQ(output.out.size(), 100U);
    EXPECT_EQ(output.err, "end\n");
}

TEST(Start, ThrowsWhenTheProgramCannotBeExecuted) {
    try {
        start({.path = "/nonexistent/program", .args = {"program"}});
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "Failed to execute /nonexistent/program: No such file or directory");
    }
}

TEST(Start, PassesExactlyTheGivenEnvironmentAndDescriptors) {
    const auto kept = openFile("/dev/null", O_RDONLY);
    const auto dropped = openFile("/dev/null", O_RDONLY);
    const auto script = cat("env; for fd in ", kept.get(), ' ', dropped.get(),
                            "; do [ -e /proc/$$/fd/$fd ] && echo open-$fd; done; :");
    const Command command{.path = "/bin/sh",
                          .args = {"sh", "-c", script},
                          .environment = std::vector<std::string>{"ONLY=this"},
                          .keepFds = {kept.get()}};
    const auto words = splitWords(runAndCapture(command).out);
    EXPECT_THAT(words, testing::Contains("ONLY=this"));
    EXPECT_THAT(words, testing::Contains(cat("open-", kept.get())));
    EXPECT_THAT(words, testing::Not(testing::Contains(cat("open-", dropped.get()))));
    for (const auto& word : words) {
        EXPECT_FALSE(word.starts_with("HOME=")) << word;
    }
}

TEST(Child, IsKilledAndReapedByItsDestructor) {
    pid_t pid = 0;
    {
        const auto child = start({.path = "/bin/sleep", .args = {"sleep", "1000"}});
        pid = child.pid();
    }
    EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace sarus::subprocess_test
