#include "starter/runtime/runtime.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::starter::runtime_test {
namespace {

using engine::OciRuntime;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

RuntimeInvocation invocation(OciRuntime kind) {
    return {.program = {.path = "/usr/bin/runtime", .kind = kind},
            .runtimeRoot = "/run/sarus/1000",
            .bundleDir = "/bundle",
            .containerName = "name",
            .keepLog = true,
            .pidFile = kind == OciRuntime::crun ? "/bundle/pid" : ""};
}

TEST(RuntimeArguments, CrunNeverChoosesACgroup) {
    EXPECT_THAT(runtimeArguments(invocation(OciRuntime::crun)),
                ElementsAre("crun", "--root", "/run/sarus/1000", "--cgroup-manager=disabled", "--log",
                            "/bundle/runtime.log", "run", "--pid-file", "/bundle/pid", "--no-new-keyring",
                            "--bundle", "/bundle", "name"));
}

TEST(RuntimeArguments, RuncKeepsItsWarningsInTheBundle) {
    EXPECT_THAT(runtimeArguments(invocation(OciRuntime::runc)),
                ElementsAre("runc", "--root", "/run/sarus/1000", "--log", "/bundle/runtime.log", "run",
                            "--no-new-keyring", "--bundle", "/bundle", "name"));
    auto loud = invocation(OciRuntime::runc);
    loud.keepLog = false;
    EXPECT_THAT(runtimeArguments(loud), Not(Contains("--log")));
}

TEST(RuntimeArguments, RuncGoesOnWhereAHookMakesTheDeviceRules) {
    auto with = invocation(OciRuntime::runc);
    EXPECT_THAT(runtimeArguments(with), Not(Contains("--rootless=true")));
    with.deviceRulesByHook = true;
    EXPECT_THAT(runtimeArguments(with), Contains("--rootless=true"));
}

TEST(RuntimeArguments, TheTerminalIsSentToTheSocket) {
    auto with = invocation(OciRuntime::crun);
    EXPECT_THAT(runtimeArguments(with), Not(Contains("--console-socket")));
    with.consoleSocket = "/bundle/console";
    EXPECT_THAT(runtimeArguments(with), IsSupersetOf({"--console-socket", "/bundle/console"}));
}

TEST(RuntimeArguments, PreservedDescriptorsAreCounted) {
    auto with = invocation(OciRuntime::crun);
    with.descriptors = {{.from = 9, .to = 3}, {.from = 12, .to = 4}};
    EXPECT_THAT(runtimeArguments(with), Contains("--preserve-fds=2"));
}

class FoundRuntime : public testing::Test {
protected:
    std::string makeProgram(const std::string& name) {
        writeAll(openFile(directory / name, O_WRONLY | O_CREAT, 0755).get(), "#!/bin/sh\n", name);
        return directory / name;
    }
    test::TemporaryDirectory directory;
};

TEST_F(FoundRuntime, SpeaksTheDialectOfItsRealName) {
    EXPECT_EQ(findRuntime(makeProgram("crun")).kind, OciRuntime::crun);
    EXPECT_EQ(findRuntime(makeProgram("crun-1.14.static")).kind, OciRuntime::crun);
    EXPECT_EQ(findRuntime(makeProgram("runc")).kind, OciRuntime::runc);
    EXPECT_EQ(findRuntime(makeProgram("youki")).kind, OciRuntime::runc);
    ASSERT_EQ(::symlink("crun", (directory / "oci-runtime").c_str()), 0);
    EXPECT_EQ(findRuntime(directory / "oci-runtime").kind, OciRuntime::crun);
}

TEST_F(FoundRuntime, DirectoriesOnTheWayDoNotDecideTheDialect) {
    createDirectories(directory / "crun-tools");
    EXPECT_EQ(findRuntime(makeProgram("crun-tools/runc")).kind, OciRuntime::runc);
}

TEST_F(FoundRuntime, AMissingOneNamesThePackage) {
    try {
        findRuntime(directory / "nothing");
        FAIL() << "found";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(directory / "nothing"));
        EXPECT_THAT(error.hint(), AllOf(HasSubstr("crun"), HasSubstr("runcPath")));
    }
}

/// Stands for a runtime: reports how it was started.
class StartedRuntime : public FoundRuntime {
protected:
    StartedRuntime() {
        if (::geteuid() != 0) {
            // The starter may install filters because it has privileges, if only in a user namespace. A test
            // has none.
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        }
    }
    std::string runScript(const std::string& script,
                          std::vector<engine::PreservedDescriptor> descriptors = {}) {
        const auto program = directory / "runtime";
        writeAll(openFile(program, O_WRONLY | O_CREAT, 0755).get(),
                 "#!/bin/sh\nexec >" + (directory / "out") + "\n" + script, program);
        auto with = invocation(OciRuntime::crun);
        with.program.path = program;
        with.descriptors = std::move(descriptors);
        status = startRuntime(with).wait();
        return readFile(directory / "out");
    }
    ExitStatus status;
};

TEST_F(StartedRuntime, HasACleanEnvironment) {
    ::setenv("LD_BIND_NOW", "1", 1);
    EXPECT_EQ(runScript("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD="),
              "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
    ::unsetenv("LD_BIND_NOW");
}

TEST_F(StartedRuntime, GetsPreservedDescriptorsFromThreeOnAndNoOthers) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    writeAll(writer.get(), "hello\n", "pipe");
    writer.reset();
    const UniqueFd other(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    const auto out = runScript(
        "cat <&3; for fd in 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && readlink /proc/$$/fd/$fd; done; exit 6",
        {{.from = reader.get(), .to = 3}});
    EXPECT_THAT(out,
                AllOf(testing::StartsWith("hello\n"), Not(HasSubstr("/dev/zero")), Not(HasSubstr("pipe:"))));
    EXPECT_EQ(status.code, 6);
}

TEST_F(StartedRuntime, LeadsAProcessGroupOfItsOwn) {
    EXPECT_EQ(runScript("read -r _ _ _ _ group _ </proc/$$/stat; [ $group = $$ ] && echo leader"),
              "leader\n");
}

TEST_F(StartedRuntime, ThatCannotBeExecutedIsAnError) {
    auto with = invocation(OciRuntime::crun);
    with.program.path = directory / "missing";
    EXPECT_THROW(startRuntime(with), Error);
}

class RootlessState : public testing::Test {
protected:
    StateDirectories prepare(const std::vector<std::string>& environment = {}) {
        engine::SiteConfig config;
        config.tempDir = directory.path();
        return prepareStateDirectories(Credentials::acquire(Mode::rootless), config, environment);
    }
    static mode_t modeOf(const std::string& path) {
        struct stat status {};
        return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
    }
    std::string own() { return directory / ("sarus-" + std::to_string(::getuid())); }
    test::TemporaryDirectory directory;
};

TEST_F(RootlessState, LiesInAPrivateDirectoryBelowTempDir) {
    EXPECT_EQ(prepare().runtimeRoot, own() + "/state");
    EXPECT_EQ(modeOf(own()), 0700U);
    EXPECT_EQ(prepare().bundleDir, own() + "/bundle") << "a second start uses the same directories";
}

TEST_F(RootlessState, PrefersTheSessionDirectory) {
    createDirectories(directory / "session", 0700);
    EXPECT_EQ(prepare({"XDG_RUNTIME_DIR=" + (directory / "session")}).runtimeRoot,
              directory / "session/sarus/state");
}

TEST_F(RootlessState, OfASessionIsFoundInEveryOther) {
    createDirectories(directory / "session", 0700);
    prepare({"XDG_RUNTIME_DIR=" + (directory / "session")});
    engine::SiteConfig config;
    config.tempDir = directory.path();
    const auto credentials = Credentials::acquire(Mode::rootless);
    const auto session = directory / "session/sarus/state";
    EXPECT_EQ(findRuntimeRoots(credentials, config, {}),
              (std::vector<std::string>{own() + "/state", session}));
    createDirectories(directory / "other", 0700);
    EXPECT_THAT(findRuntimeRoots(credentials, config, {"XDG_RUNTIME_DIR=" + (directory / "other")}),
                ::testing::UnorderedElementsAre(directory / "other/sarus/state", own() + "/state", session));
    removeTree(directory / "session");
    EXPECT_THAT(findRuntimeRoots(credentials, config, {}), ::testing::Not(::testing::Contains(session)))
        << "the session has ended";
}

TEST_F(RootlessState, IgnoresASessionDirectoryThatOthersCanChangeOrThatIsGone) {
    createDirectories(directory / "shared");
    ::chmod((directory / "shared").c_str(), 0777);
    for (const auto* value : {"shared", "gone"}) {
        EXPECT_EQ(prepare({"XDG_RUNTIME_DIR=" + (directory / value)}).runtimeRoot, own() + "/state");
    }
    EXPECT_EQ(prepare({"XDG_RUNTIME_DIR=relative"}).runtimeRoot, own() + "/state");
}

TEST_F(RootlessState, RefusesADirectoryThatOthersCanRead) {
    createDirectories(own(), 0755);
    EXPECT_THROW(prepare(), Error);
}

TEST_F(RootlessState, RefusesALinkInItsPlace) {
    createDirectories(directory / "elsewhere", 0700);
    ASSERT_EQ(::symlink((directory / "elsewhere").c_str(), own().c_str()), 0);
    EXPECT_THROW(prepare(), Error);
}

}  // namespace
}  // namespace sarus::starter::runtime_test
