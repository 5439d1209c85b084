#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/isolated_process.hpp"
#include "base/mounts.hpp"
#include "base/text.hpp"
#include "served_image/server.hpp"

namespace sarus::served_image::server_as_root_test {
namespace {

using namespace sarus::test;
using std::chrono::milliseconds;

Answer ask(const std::string& directory, milliseconds patience) {
    return askServer(openFile(directory, O_PATH).get(), patience);
}

TEST(AskServer, NobodyWaitsLongerThanTheDeadline) {
    inMountNamespace([] {
        mountFilesystem("tmpfs", "/mnt", "tmpfs", 0);
        EXPECT_EQ(ask("/mnt", milliseconds(10'000)), Answer::yes);
        EXPECT_EQ(ask("/dev/null", milliseconds(10'000)), Answer::none);
        auto silent = openFile("/dev/fuse", O_RDWR);
        ASSERT_EQ(::mount("silent", "/mnt", "fuse", MS_RDONLY,
                          cat("fd=", silent.get(), ",rootmode=40000,user_id=0,group_id=0").c_str()),
                  0);
        EXPECT_EQ(ask("/mnt", milliseconds(50)), Answer::late);
        silent.reset();  // the server has ended
        EXPECT_EQ(ask("/mnt", milliseconds(10'000)), Answer::none);
    });
}

/// A server that is a shell script.
Server scriptServer(const std::string& script) {
    return Server({.program = "/bin/sh", .args = {"/bin/sh", "-c", script}}, openFile("/dev/fuse", O_RDWR));
}

/// What it says, and whether it answers.
std::pair<Answer, std::string> outcome(Server& server) {
    EXPECT_TRUE(server.mount(
        {.name = "test", .target = "/mnt", .flags = MS_RDONLY, .options = "user_id=0,group_id=0"}));
    server.release();
    const auto answer = server.waitForAnswer(std::chrono::seconds(30));
    return {answer, server.endAndGetOutput()};
}

TEST(Server, ItsLastWordsAreOneLineWithoutControlCharacters) {
    inMountNamespace([] {
        auto server = scriptServer("echo a; printf 'b\\033[2J\\n' >&2");
        EXPECT_EQ(outcome(server), std::pair(Answer::none, std::string("a b\\x1b[2J")));
        auto noisy = scriptServer("while echo x; do :; done 2>/dev/null; exit 1");
        EXPECT_EQ(outcome(noisy).second.substr(0, 7), "x x x x");
    });
}

TEST(Server, HasItsDescriptorsAndNothingOfTheCaller) {
    inMountNamespace([] {
        ASSERT_EQ(::setenv("SECRET", "1", 1), 0);
        const auto image = openFile("/etc/passwd", O_RDONLY);
        const auto secret = openFile("/etc/shadow", O_RDONLY);
        ASSERT_EQ(::fcntl(secret.get(), F_SETFD, 0), 0);
        Server server(
            {.program = "/bin/sh",
             .args = {"/bin/sh", "-c",
                      "readlink /proc/$$/fd/0 /proc/$$/fd/3 /proc/$$/fd/4; test -e /proc/$$/fd/5 || "
                      "echo $PATH ${SECRET:-none}; sed -n 's/NoNewPrivs:.//p' /proc/$$/status"},
             .descriptors = {image.get()},
             .searchPath = "/usr/bin:/bin"},
            openFile("/dev/fuse", O_RDWR));
        EXPECT_EQ(outcome(server).second, "/dev/null /etc/passwd /dev/fuse /usr/bin:/bin none 1");
    });
}

TEST(Server, DoesNotSeeItsMountIfItLeavesTheNamespace) {
    inMountNamespace([] {
        Server server({.program = "/bin/sh",
                       .args = {"/bin/sh", "-c", "grep -c ' /mnt ' /proc/self/mountinfo"},
                       .enter = [] { checkErrno(::unshare(CLONE_NEWNS), "no namespace"); }},
                      openFile("/dev/fuse", O_RDWR));
        EXPECT_EQ(outcome(server), std::pair(Answer::none, std::string("0")));
        EXPECT_EQ(ask("/mnt", milliseconds(10'000)), Answer::yes);  // what was there before
    });
}

TEST(Server, WhatPreventsItsStartIsItsOutput) {
    inMountNamespace([] {
        Server refused({.program = "/bin/sh", .args = {"/bin/sh"}, .enter = [] { throw Error("not here"); }},
                       openFile("/dev/fuse", O_RDWR));
        EXPECT_EQ(outcome(refused), std::pair(Answer::none, std::string("cannot be started: not here")));
        Server missing({.program = "/nonexistent", .args = {"/nonexistent"}}, openFile("/dev/fuse", O_RDWR));
        EXPECT_EQ(outcome(missing),
                  std::pair(Answer::none,
                            std::string("cannot be started: /nonexistent: No such file or directory")));
    });
}

}  // namespace
}  // namespace sarus::served_image::server_as_root_test
