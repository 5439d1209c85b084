#include "starter/verbs/launch.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/error.hpp"
#include "base/process_tree.hpp"
#include "starter/fake_runtime.hpp"
#include "starter/isolated.hpp"
#include "starter/runtime/runtime.hpp"
#include "starter/runtime_state.hpp"
#include "starter/supervise/container_record.hpp"
#include "starter/verbs/dry_run.hpp"
#include "starter/verbs/exec.hpp"

namespace sarus::starter::launch_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The phases which come before the namespaces, in a process that nobody else has.
class LaunchPhases : public testing::Test {
protected:
    LaunchPhases() {
        request.command = {"true"};
        request.name = "job";
    }

    /// What the error says that `work` ends with; isolated, because a launch changes its process.
    std::string errorOf(const std::function<void()>& work) {
        test::isolated([&] {
            std::string text = "no error";
            try {
                work();
            } catch (const Error& error) {
                text = error.what();
            }
            replaceFile(runtime / "error", text, 0600);
            return 0;
        });
        return readFile(runtime / "error");
    }
    std::string launchError() {
        return errorOf([&] { launch(runtime.session, request); });
    }
    std::string root() { return runtime / ("sarus-" + std::to_string(::getuid()) + "/state"); }

    test::FakeRuntime runtime{"exit 0"};
    engine::LaunchRequest request;
};

TEST_F(LaunchPhases, ASiteCanForbidContainersWithoutPrivileges) {
    runtime.session.config.allowRootless = false;
    EXPECT_THAT(launchError(), HasSubstr("does not allow containers without the set-user-ID starter"));
    EXPECT_FALSE(pathExists(root())) << "nothing is made before";
}

TEST_F(LaunchPhases, AMissingRuntimeIsFoundBeforeAnythingIsKnownOfTheContainer) {
    runtime.session.config.runcPath = "/nowhere/crun";
    EXPECT_THAT(launchError(), HasSubstr("Failed to find the OCI runtime /nowhere/crun"));
    EXPECT_FALSE(pathExists(root() + "/.job.json"));
}

TEST_F(LaunchPhases, AFailureBehindTheRecordRemovesIt) {
    const auto error = errorOf([&] {
        request.imageFd = openFile("/dev/null", O_RDONLY)
                              .release();  // no image: the namespaces may be refused, or the root is
        launch(runtime.session, request);
    });
    EXPECT_NE(error, "no error");
    EXPECT_TRUE(pathExists(root())) << error;
    EXPECT_FALSE(pathExists(root() + "/.job.json")) << error;
    EXPECT_FALSE(runtime.has("arguments")) << "no runtime was started";
}

TEST_F(LaunchPhases, TheNameOfARunningContainerIsRefused) {
    const auto directories = prepareStateDirectories(runtime.session.credentials, runtime.session.config, {});
    ContainerRecord first;
    first.image = "first";
    const auto running = RecordFile::create(directories.runtimeRoot, "job", first);
    const Process self(::getpid());
    test::writeRuntimeState(directories.runtimeRoot, "job", self.pid(), self.started());
    EXPECT_THAT(launchError(), HasSubstr("A container with the name 'job' exists already"));
    EXPECT_EQ(readRecord(directories.runtimeRoot, "job").value().image, "first");
}

TEST_F(LaunchPhases, WhatTheContainerIsNotGivenIsClosedWhenItsNameIsNoted) {
    EXPECT_EQ(errorOf([&] {
                  const int inherited = openFile("/dev/null", O_RDONLY).release();
                  runtime.session.entry.descriptors = {0, 1, 2, inherited};
                  request.imageFd = openFile("/dev/null", O_RDONLY).release();  // fails later: it is no image
                  EXPECT_THROW(launch(runtime.session, request), Error);
                  if (::fcntl(inherited, F_GETFD) >= 0 || ::fcntl(2, F_GETFD) < 0) {
                      throw Error("open");
                  }
              }),
              "no error");
}

TEST_F(LaunchPhases, ADryRunMakesNothingAndStartsNothing) {
    request.dryRun = true;
    request.imageReference = "docker.io/library/a:1";
    runtime.session.config.ociBundleDir = "/var/bundle";
    const auto text = describeContainer(runtime.session, request);
    EXPECT_THAT(text,
                AllOf(HasSubstr("docker.io/library/a:1"), HasSubstr(runtime / "crun"), HasSubstr("true")));
    request.json = true;
    EXPECT_THAT(describeContainer(runtime.session, request),
                AllOf(testing::StartsWith("{"), HasSubstr(R"("name":"job")")));
    EXPECT_FALSE(pathExists(root()));
    EXPECT_FALSE(runtime.has("arguments"));
}

class ExecPhases : public LaunchPhases {
protected:
    std::string execError() {
        return errorOf([&] { execInContainer(runtime.session, command); });
    }
    engine::ExecRequest command{.name = "job", .command = {"true"}};
};

TEST_F(ExecPhases, AContainerThatDoesNotRunIsNamed) {
    EXPECT_THAT(execError(), HasSubstr("There is no running container with the name 'job'"));
    EXPECT_FALSE(runtime.has("arguments"));
}

TEST_F(ExecPhases, NamesThatAreNoneAreRefusedBeforeAnythingIsMade) {
    command.name = "../job";
    EXPECT_THAT(execError(), HasSubstr("../job"));
    EXPECT_FALSE(pathExists(root()));
}

TEST_F(ExecPhases, TheRecordOfADeadContainerIsNone) {
    const auto directories = prepareStateDirectories(runtime.session.credentials, runtime.session.config, {});
    writeAll(openFile(directories.runtimeRoot + "/.job.json", O_WRONLY | O_CREAT, 0600).get(), "{}",
             "record");
    EXPECT_THAT(execError(), HasSubstr("There is no running container with the name 'job'"));
}

TEST_F(ExecPhases, ASiteCanForbidContainersWithoutPrivileges) {
    runtime.session.config.allowRootless = false;
    EXPECT_THAT(execError(), HasSubstr("does not allow containers without the set-user-ID starter"));
}

}  // namespace
}  // namespace sarus::starter::launch_test
