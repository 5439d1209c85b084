#include "hooks/kit/hook_context.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.hpp"
#include "hooks/kit/container_cgroups.hpp"
#include "hooks/kit/container_namespaces.hpp"
#include "hooks/kit/device_access.hpp"
#include "hooks/kit/hook_environment.hpp"
#include "hooks/kit/hook_logger.hpp"
#include "hooks/kit/root_fixture.hpp"
#include "hooks/kit/run_hook.hpp"

namespace sarus::hooks::hook_context_test {
namespace {

UniqueFd input(const std::string& text) {
    UniqueFd fd(::memfd_create("state", MFD_CLOEXEC));
    writeAll(fd.get(), text, "state");
    ::lseek(fd.get(), 0, SEEK_SET);
    return fd;
}

HookContext contextOf(const std::string& state) {
    return HookContext::read(input(state).get());
}

constexpr const char* configText =
    R"({"root":{"path":"rootfs"},"process":{"env":["A=1"],"user":{"uid":7}},"annotations":{"a":"config","c":"config"}})";

TEST(HookContext, findsTheRootfsRelativeToTheBundle) {
    const test::Root bundle;
    bundle.write("config.json", configText);
    bundle.write("rootfs/marker", "x");
    auto context =
        contextOf(cat(R"({"id":"c","bundle":")", bundle.path(), R"(","annotations":{"a":"state"}})"));
    EXPECT_EQ(context.rootfsPath(), bundle / "rootfs");
    EXPECT_EQ(::faccessat(context.rootfs(), "marker", F_OK, 0), 0);
    EXPECT_EQ(context.containerVariable("A"), "1");
    EXPECT_EQ(context.config().user().uid, 7U);
    EXPECT_EQ(context.annotation("a"), "state") << "the state counts more than config.json";
    EXPECT_EQ(context.annotation("c"), "config");
    EXPECT_EQ(context.annotation("none"), std::nullopt);
}

TEST(HookContext, givesNoSettingsOfTheCallerThatTheImageMayHaveMade) {
    const test::Root bundle;
    bundle.write(
        "config.json",
        R"({"root":{"path":"rootfs"},"process":{"env":["SLURM_JOB_ID=1","A=1"]},"annotations":{"a":"1","com.hooks.mpi.type":"t",)"
        R"("com.hooks.ssh.port":"2000"}})");
    auto context = contextOf(cat(R"({"id":"c","bundle":")", bundle.path(), R"("})"));
    EXPECT_EQ(context.callersVariable("SLURM_JOB_ID"), "1");
    EXPECT_EQ(context.annotation("com.hooks.ssh.port"), "2000");
    EXPECT_EQ(context.distrust(), "com.hooks.ssh.port");
    EXPECT_EQ(context.callersVariable("SLURM_JOB_ID"), std::nullopt);
    EXPECT_EQ(context.containerVariable("SLURM_JOB_ID"), "1");
    EXPECT_THROW(context.callersVariable("A"), std::logic_error);  // the engine would take it from the image
    EXPECT_EQ(context.annotation("com.hooks.ssh.port"), std::nullopt);
    EXPECT_EQ(context.annotation("com.hooks.mpi.type"), "t");
    EXPECT_EQ(context.annotation("a"), "1");
}

TEST(HookContext, takesTheRootOfCrunAndPodmansBundleWhereTheBundleIsWrong) {
    const test::Root store;
    store.write("overlay/layer/merged/marker", "x");
    store.write("overlay-containers/c9/userdata/config.json", configText);
    auto context =
        contextOf(cat(R"({"id":"c9","bundle":"/","root":")", store / "overlay/layer/merged", R"("})"));
    EXPECT_EQ(context.bundle(), store / "overlay-containers/c9/userdata");
    EXPECT_EQ(context.containerVariable("A"), "1");
    EXPECT_EQ(::faccessat(context.rootfs(), "marker", F_OK, 0), 0);
}

TEST(HookContext, worksWithoutConfigIfTheRootIsKnownUntilTheConfigIsNeeded) {
    const test::Root root;
    auto context = contextOf(cat(R"({"id":"../x","bundle":"/","root":")", root.path(), R"("})"));
    EXPECT_FALSE(context.hasConfig());
    EXPECT_GE(context.rootfs(), 0);
    EXPECT_THROW(context.config(), Error);
}

TEST(HookContext, refusesStatesThatLeadNowhere) {
    const test::Root bundle;
    EXPECT_THROW(contextOf(R"({"id":"c"})"), Error);
    EXPECT_THROW(contextOf(cat(R"({"bundle":")", bundle.path(), R"("})")), Error) << "no config.json";
    bundle.write("config.json", "{}");
    EXPECT_THROW(contextOf(cat(R"({"bundle":")", bundle.path(), R"("})")).rootfs(), Error) << "no root.path";
    bundle.write("config.json", R"({"root":{"path":"missing"}})");
    EXPECT_THROW(contextOf(cat(R"({"bundle":")", bundle.path(), R"("})")).rootfs(), Error);
}

TEST(HookContext, ofAConfigurationNeedsTheBundleOfARelativeRoot) {
    const auto config = [](std::string_view path) {
        return oci::BundleConfig::parse(cat(R"({"root":{"path":")", path, "\"}}"), "config");
    };
    EXPECT_EQ(HookContext::ofConfiguration(config("/a"), "").rootfsPath(), "/a");
    EXPECT_EQ(HookContext::ofConfiguration(config("a"), "/b").rootfsPath(), "/b/a");
    EXPECT_THROW(HookContext::ofConfiguration(config("a"), ""), Error);
    EXPECT_THROW(HookContext::ofConfiguration(config("/"), "").rootfs(), Error);
}

TEST(HookContext, refusesTheHostsRootDirectory) {
    const test::Root bundle;
    for (const char* root : {"/", "/../", "/tmp/.."}) {
        bundle.write("config.json", cat(R"({"root":{"path":")", root, R"("}})"));
        EXPECT_THROW(contextOf(cat(R"({"bundle":")", bundle.path(), R"("})")).rootfs(), Error) << root;
    }
}

TEST(Namespaces, ofTheSameProcessOrOfNoProcessAreNotEntered) {
    EXPECT_FALSE(enterNamespace(::getpid(), NamespaceKind::mount));
    EXPECT_FALSE(enterNamespace(::getpid(), NamespaceKind::pid));
    EXPECT_FALSE(enterNamespace(0, NamespaceKind::mount));
    EXPECT_FALSE(enterNamespace(1, NamespaceKind::mount));
    EXPECT_THROW(enterNamespace(2147483647, NamespaceKind::mount), Error);
}

TEST(HookEnvironment, isTakenOutOfTheProcess) {
    ::setenv("SARUS_TEST_HOOK_VARIABLE", "value", 1);
    const auto environment = HookEnvironment::take();
    EXPECT_EQ(std::getenv("SARUS_TEST_HOOK_VARIABLE"), nullptr);
    EXPECT_EQ(environment.find("SARUS_TEST_HOOK_VARIABLE"), "value");
    EXPECT_EQ(environment.find("SARUS_TEST_NONE"), std::nullopt);
    EXPECT_EQ(environment.require("SARUS_TEST_HOOK_VARIABLE"), "value");
    EXPECT_THROW(environment.require("SARUS_TEST_NONE"), Error);
}

TEST(HookEnvironment, knowsTruthValues) {
    const HookEnvironment environment({{"A", "true"}, {"B", "YES"}, {"C", "0"}, {"D", ""}, {"E", "maybe"}});
    EXPECT_TRUE(environment.isTrue("A"));
    EXPECT_TRUE(environment.isTrue("B"));
    EXPECT_FALSE(environment.isTrue("C", true));
    for (const auto* name : {"D", "F"}) {
        EXPECT_FALSE(environment.isTrue(name));
        EXPECT_TRUE(environment.isTrue(name, true));
    }
    EXPECT_THROW(environment.isTrue("E"), Error);
    EXPECT_THROW(environment.require("D"), Error);
}

constexpr const char* mountinfo =
    "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/mydevices rw shared:5 - cgroup cgroup rw,mydevices\n"
    "32 30 0:28 / /sys/fs/cgroup/with\\040space rw shared:6 master:2 - cgroup cgroup rw,devices\n"
    "garbage\n";

TEST(DeviceCgroup, isFoundByWholeNames) {
    const auto found =
        findDeviceCgroup(mountinfo, "5:mydevices:/wrong\n4:cpu,devices:/job/step:0\n0::/unified\n");
    EXPECT_EQ(found, "/sys/fs/cgroup/with space/job/step:0");
    EXPECT_EQ(findDeviceCgroup(mountinfo, "4:devices:/\n"), "/sys/fs/cgroup/with space");
    EXPECT_EQ(findDeviceCgroup(mountinfo, "0::/unified\n"), std::nullopt);
    EXPECT_EQ(findDeviceCgroup("", "4:devices:/x\n"), std::nullopt);
    EXPECT_EQ(findDeviceCgroup(mountinfo, "devices\n:\n::\n"), std::nullopt);
}

TEST(Cgroups, OfVersion2HaveNoController) {
    const auto entries = parseCgroups("0::/job/step\ngarbage\n1:name=systemd:/a\n");
    ASSERT_EQ(entries, (std::vector<CgroupEntry>{{.controllers = {}, .path = "/job/step"},
                                                 {.controllers = {"name=systemd"}, .path = "/a"}}));
    const auto* const unified = "40 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    EXPECT_EQ(findCgroup(unified, entries[0]), "/sys/fs/cgroup/job/step");
    EXPECT_EQ(findCgroup(unified, entries[1]), std::nullopt);
}

TEST(DeviceCgroup, isRelativeToWhatIsMounted) {
    const auto mount = [](const char* root) {
        return cat("32 30 0:28 ", root, " /cg rw - cgroup cgroup rw,devices\n");
    };
    EXPECT_EQ(findDeviceCgroup(mount("/docker/1"), "4:devices:/docker/1/sub\n"), "/cg/sub");
    EXPECT_EQ(findDeviceCgroup(mount("/docker/1"), "4:devices:/docker/1\n"), "/cg");
    EXPECT_THROW(findDeviceCgroup(mount("/docker/1"), "4:devices:/docker/12\n"), Error);
    EXPECT_THROW(findDeviceCgroup(mount("/../.."), "4:devices:/x\n"), Error);
    EXPECT_THROW(findDeviceCgroup(mount("/"), "4:devices:/../x\n"), Error);
    EXPECT_THROW(findDeviceCgroup(mount("/"), "4:devices:/a/../x\n"), Error);
}

TEST(DeviceCgroup, refusesWhatIsNoRule) {
    EXPECT_THROW(grantDevice(0, 'x', 0, "rw"), Error);
    EXPECT_THROW(grantDevice(0, 'c', 0, ""), Error);
    EXPECT_THROW(grantDevice(0, 'c', 0, "rw\na *:* rwm"), Error);
}

TEST(DeviceCgroup, explainsOnlyWhatTheUserMustKnow) {
    EXPECT_EQ(explainGrant(DeviceGrant::granted, "/dev/x"), "");
    EXPECT_NE(explainGrant(DeviceGrant::unifiedCgroups, "/dev/x").find("version 2"), std::string::npos);
    EXPECT_NE(explainGrant(DeviceGrant::notOwnCgroup, "/dev/x").find("/dev/x"), std::string::npos);
}

/// What a hook with this body writes on standard error, and its exit status, when it is started with this
/// state.
struct HookRun {
    int status;
    std::string output;
};

using HookBody = void (*)(const HookSetup&, HookContext&, const HookLogger&);

HookRun runInChild(const std::string& state, HookBody body) {
    const auto in = input(state);
    const UniqueFd out(::memfd_create("output", MFD_CLOEXEC));
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(in.get(), 0);
        ::dup2(out.get(), 1);
        ::dup2(out.get(), 2);
        char name[] = "test_hook";
        char* argv[] = {name, nullptr};
        ::_exit(hookMain(1, argv, {.program = "test_hook", .logName = "Test hook", .run = body}));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ::lseek(out.get(), 0, SEEK_SET);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readAll(out.get(), 1U << 20U, "output")};
}

class RunHook : public ::testing::Test {
protected:
    RunHook() {
        bundle.write("config.json", R"({"root":{"path":"rootfs"}})");
        createDirectories(bundle / "rootfs");
    }
    std::string state(const std::string& annotations) const {
        return cat(R"({"id":"c","bundle":")", bundle.path(), R"(","annotations":{)", annotations, "}}");
    }
    test::Root bundle;
};

TEST_F(RunHook, succeedsInAKnownProcessCondition) {
    const auto run = runInChild(state(""), [](const HookSetup&, HookContext&, const HookLogger&) {
        char directory[16] = {};
        const mode_t mask = ::umask(0);
        if (mask != 022 || ::getcwd(directory, sizeof directory) == nullptr ||
            std::string(directory) != "/" || environ != nullptr) {
            throw Error("unexpected condition");
        }
    });
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.output, "");
}

TEST_F(RunHook, saysInOneLineWhatFailed) {
    const auto run = runInChild(state(""), [](const HookSetup&, HookContext&, const HookLogger&) {
        throw Error("it broke", "mend it");
    });
    EXPECT_EQ(run.status, 1);
    const auto lines = split(run.output, '\n');
    ASSERT_EQ(lines.size(), 3U) << run.output;
    EXPECT_NE(lines[0].find("] [Test hook] [ERROR] it broke"), std::string::npos) << run.output;
    EXPECT_NE(lines[1].find("mend it"), std::string::npos);
}

TEST_F(RunHook, failsOnAStateThatIsNone) {
    const auto run = runInChild("nonsense", [](const HookSetup&, HookContext&, const HookLogger&) {});
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.output.find("container state"), std::string::npos);
}

TEST_F(RunHook, logsAtTheLevelOfTheAnnotation) {
    const auto body = [](const HookSetup&, HookContext&, const HookLogger& log) {
        log.debug("a debug line");
        log.warn("a warning");
        log.error("an error");
    };
    const auto chatty = runInChild(state(R"("com.hooks.logging.level":"0")"), body).output;
    EXPECT_NE(chatty.find("[Test hook] [DEBUG] a debug line\n"), std::string::npos) << chatty;
    const auto usual = runInChild(state(""), body).output;
    EXPECT_EQ(usual.find("DEBUG"), std::string::npos);
    EXPECT_NE(usual.find("[WARN] a warning"), std::string::npos);
    const auto quiet = runInChild(state(R"("com.hooks.logging.level":"3")"), body).output;
    EXPECT_EQ(quiet.find("WARN"), std::string::npos);
    EXPECT_NE(quiet.find("[ERROR] an error"), std::string::npos);
    const auto wrong = runInChild(state(R"("com.hooks.logging.level":"loud")"), body);
    EXPECT_EQ(wrong.status, 0);
    EXPECT_NE(wrong.output.find("not a level"), std::string::npos);
}

TEST_F(RunHook, opensNoFileThatAnAnnotationNames) {
    bundle.write("target", "untouched");
    const auto run =
        runInChild(state(cat(R"("com.hooks.logging.stdoutfd":")", bundle / "target",
                             R"(","com.hooks.logging.stderrfd":")", bundle / "target",
                             R"(","com.hooks.logging.level":"0")")),
                   [](const HookSetup&, HookContext&, const HookLogger& log) { log.error("said"); });
    EXPECT_EQ(run.status, 0);
    EXPECT_NE(run.output.find("said"), std::string::npos);
    EXPECT_EQ(readFile(bundle / "target"), "untouched");
}

TEST_F(RunHook, speaksThroughTheEnginesFifoIfItIsPrivate) {
    const auto path = bundle / std::string(logFifo);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    const auto body = [](const HookSetup&, HookContext&, const HookLogger& log) { log.error("said"); };
    const auto run = runInChild(state(""), body);
    EXPECT_EQ(run.output, "");
    EXPECT_NE(readAll(reader.get(), 65536, "fifo").find("said"), std::string::npos);
    ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
    EXPECT_NE(runInChild(state(""), body).output.find("said"), std::string::npos)
        << "a FIFO of everybody is not used";
}

TEST_F(RunHook, doesNotWaitForAFifoWithoutReader) {
    ASSERT_EQ(::mkfifo((bundle / std::string(logFifo)).c_str(), 0600), 0);
    const auto run = runInChild(
        state(""), [](const HookSetup&, HookContext&, const HookLogger& log) { log.error("said"); });
    EXPECT_NE(run.output.find("said"), std::string::npos);
}

TEST(JoinCgroup, OnlyOneThatLimitsDevicesMustAcceptTheProcess) {
    const HookLogger log("some hook");
    const auto refusing = [](bool limitsDevices) {
        return JoinableCgroup{openFile("/dev/full", O_WRONLY), {{"cpuset"}, "/some"}, limitsDevices};
    };
    EXPECT_NO_THROW(joinCgroup(refusing(false), log));
    EXPECT_THROW(joinCgroup(refusing(true), log), Error);
}

}  // namespace
}  // namespace sarus::hooks::hook_context_test
