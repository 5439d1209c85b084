#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "engine/container_plan.hpp"

namespace sarus::engine::plan_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

struct PlanTest : testing::Test {
    SiteConfig config;
    LaunchRequest request;
    HostFacts facts;

    PlanTest() {
        request.imageReference = "docker.io/library/debian:12";
        request.command = {"true"};
        facts.uid = 1000;
        facts.gid = 100;
        facts.supplementaryGroups = {100, 200};
        facts.cpus = {0, 2};
        facts.inheritedDescriptors = {0, 1, 2, 5, 9};
        facts.umask = 027;
        facts.ttyGroup = 5;
        facts.randomName = "abcdefghijklmnop";
        facts.privileged = true;
    }

    ContainerPlan make() { return plan(config, request, facts); }

    std::string error() {
        try {
            make();
        } catch (const Error& failure) {
            return failure.what();
        }
        return "no error";
    }
};

TEST_F(PlanTest, IdentityComesFromTheKernel) {
    const auto result = make();
    EXPECT_EQ(result.uid, 1000U);
    EXPECT_EQ(result.gid, 100U);
    EXPECT_THAT(result.supplementaryGroups, ElementsAre(100, 200));
    EXPECT_THAT(result.cpus, ElementsAre(0, 2));
    EXPECT_EQ(result.umask, 027U);
    EXPECT_EQ(result.ttyGroup, 5U);
    EXPECT_THAT(result.warnings, IsEmpty());
}

TEST_F(PlanTest, NameDefaultsToSarusContainerAndRandomLetters) {
    EXPECT_EQ(make().name, "sarus-container-abcdefghijklmnop");
}

TEST_F(PlanTest, NameIsTheOptionsIfItHasThePattern) {
    request.name = "my-job.1";
    EXPECT_EQ(make().name, "my-job.1");
    request.name = "../x";
    EXPECT_EQ(error(), "Invalid container name '../x'");
}

TEST_F(PlanTest, CommandOfTheCommandLineReplacesTheImages) {
    request.metadata.cmd = {"image", "cmd"};
    EXPECT_THAT(make().args, ElementsAre("true"));
    request.command = {};
    EXPECT_THAT(make().args, ElementsAre("image", "cmd"));
}

TEST_F(PlanTest, EntrypointGoesInFrontOfTheCommand) {
    request.metadata.entrypoint = {"/bin/echo", "-n"};
    request.metadata.cmd = {"Hello world"};
    EXPECT_THAT(make().args, ElementsAre("/bin/echo", "-n", "true"));
    request.command = {};
    EXPECT_THAT(make().args, ElementsAre("/bin/echo", "-n", "Hello world"));
}

TEST_F(PlanTest, OverridingTheEntrypointDropsTheImagesCommand) {
    request.metadata.entrypoint = {"/bin/echo"};
    request.metadata.cmd = {"Hello world"};
    request.command = {};
    request.entrypoint = std::vector<std::string>{"cat", "/x"};
    EXPECT_THAT(make().args, ElementsAre("cat", "/x"));
    request.command = {"/etc/os-release"};
    EXPECT_THAT(make().args, ElementsAre("cat", "/x", "/etc/os-release"));
}

TEST_F(PlanTest, AnEmptyEntrypointClearsTheImages) {
    request.metadata.entrypoint = {"/bin/echo"};
    request.entrypoint = std::vector<std::string>{};
    EXPECT_THAT(make().args, ElementsAre("true"));
}

TEST_F(PlanTest, WithoutCommandAndEntrypointThereIsNothingToRun) {
    request.command = {};
    EXPECT_EQ(error(), "No command to run in a container of image docker.io/library/debian:12");
    config.initPath = "/usr/bin/tini";
    request.init = true;
    EXPECT_EQ(error(), "No command to run in a container of image docker.io/library/debian:12");
    request.init = false;
    request.metadata.cmd = {"x"};
    request.entrypoint = std::vector<std::string>{};
    EXPECT_EQ(error(), "No command to run in a container of image docker.io/library/debian:12");
}

TEST_F(PlanTest, InitRunsTheCommand) {
    config.initPath = "/usr/bin/tini-static";
    EXPECT_EQ(make().initPath, std::nullopt);
    request.init = true;
    request.metadata.entrypoint = {"/e"};
    const auto result = make();
    EXPECT_THAT(result.args, ElementsAre("/dev/init", "--", "/e", "true"));
    EXPECT_EQ(result.initPath, "/usr/bin/tini-static");
    EXPECT_THAT(result.environment, Contains(Pair("TINI_SUBREAPER", "1")));
}

TEST_F(PlanTest, AContainerThatIsHeldOpenRunsNoCommand) {
    request.hold = true;
    request.metadata.entrypoint = {"/e"};
    EXPECT_THAT(make().args, ElementsAre("/dev/.sarus-enter", "--hold", "/e", "true"));
}

TEST_F(PlanTest, InitNeedsInitPathOnlyIfItIsUsed) {
    EXPECT_EQ(error(), "no error");
    request.init = true;
    EXPECT_EQ(error(), "The option '--init' is not available: no init process is configured");
}

TEST_F(PlanTest, WorkdirIsTheOptionsThenTheImagesThenTheRoot) {
    EXPECT_EQ(make().workdir, "/");
    request.metadata.workingDir = "/image";
    EXPECT_EQ(make().workdir, "/image");
    request.workdir = "/cli";
    EXPECT_EQ(make().workdir, "/cli");
}

TEST_F(PlanTest, VolumesOfTheImageAreDirectoriesOutsideOfTheKernelsOnes) {
    request.metadata.volumes = {"/data/x", "/dev/null",   "/proc",   "relative/../y",
                                "/sys/fs", "/../dev/shm", "/devices"};
    EXPECT_THAT(make().volumes, ElementsAre("/data/x", "/y", "/devices"));
}

TEST_F(PlanTest, WorkdirMustBeAbsoluteAndNotBelowProc) {
    request.workdir = "invalid";
    EXPECT_EQ(error(), "The working directory 'invalid' is invalid, it needs to be an absolute path.");
    request.workdir = "";
    EXPECT_EQ(error(), "The working directory '' is invalid, it needs to be an absolute path.");
    request.workdir = "/x/../proc/self/fd/8";
    EXPECT_THAT(error(), HasSubstr("must not be below /proc"));
}

TEST_F(PlanTest, WorkdirOfAnImageIsRelativeToTheRoot) {
    request.metadata.workingDir = "app";
    EXPECT_EQ(make().workdir, "/app");
    request.metadata.workingDir = "/proc/self/fd/8";
    EXPECT_THAT(error(), HasSubstr("must not be below /proc"));
    request.metadata.workingDir = "proc/self/fd/8";
    EXPECT_THAT(error(), HasSubstr("must not be below /proc"));
}

TEST_F(PlanTest, TheRootIsReadOnlyIfAskedFor) {
    EXPECT_FALSE(make().readonlyRoot);
    request.readonlyRoot = true;
    EXPECT_TRUE(make().readonlyRoot);
}

TEST_F(PlanTest, CdiDevicesOfTheRequestAreLeftToTheFilesThatDescribeThem) {
    request.devices = {"v.com/gpu=0"};
    EXPECT_THAT(make().devices, IsEmpty());
    CdiEdits edits{.device = "v.com/gpu=0", .file = "/etc/cdi/v.json", .edits = {}};
    edits.edits.env = {{"A", "1"}};
    edits.edits.deviceNodes = {{.path = "/dev/v0", .hostPath = {}, .type = {}, .permissions = {}}};
    const auto result = plan(config, request, facts, {}, {edits});
    ASSERT_EQ(result.devices.size(), 1U);
    EXPECT_EQ(result.devices[0].destination, "/dev/v0");
    EXPECT_THAT(result.environment, Contains(Pair("A", "1")));
}

TEST_F(PlanTest, SshImpliesAPrivatePidNamespace) {
    EXPECT_FALSE(make().privatePid);
    request.ssh = true;
    EXPECT_TRUE(make().privatePid);
    request.ssh = false;
    request.privatePid = true;
    EXPECT_TRUE(make().privatePid);
}

TEST_F(PlanTest, TtyMakesATerminal) {
    EXPECT_FALSE(make().terminal);
    request.tty = true;
    EXPECT_TRUE(make().terminal);
}

TEST_F(PlanTest, AMissingTtyGroupIsAWarningInPrivilegedModeOnly) {
    facts.ttyGroup = std::nullopt;
    EXPECT_THAT(make().warnings, ElementsAre(HasSubstr("group 'tty'")));
    facts.privileged = false;
    EXPECT_THAT(make().warnings, IsEmpty());
}

TEST_F(PlanTest, SiteMountsComeBeforeUserMounts) {
    config.siteMounts = {{"/scratch", "/scratch", false}, {"/opt/x", "/etc/x", true}};
    request.mounts = {oci::parseMountRequest("type=bind,src=/home,dst=/data,readonly"),
                      oci::parseMountRequest("type=bind,src=/a,dst=/b")};
    const auto mounts = make().mounts;
    ASSERT_EQ(mounts.size(), 4U);
    EXPECT_EQ(mounts[0].source, "/scratch");
    EXPECT_EQ(mounts[0].origin, MountOrigin::site);
    EXPECT_FALSE(mounts[0].readonly);
    EXPECT_EQ(mounts[1].destination, "/etc/x");
    EXPECT_TRUE(mounts[1].readonly);
    EXPECT_EQ(mounts[2].source, "/home");
    EXPECT_EQ(mounts[2].destination, "/data");
    EXPECT_TRUE(mounts[2].readonly);
    EXPECT_EQ(mounts[2].origin, MountOrigin::user);
    EXPECT_EQ(mounts[2].request, "type=bind,src=/home,dst=/data,readonly");
    EXPECT_EQ(mounts[3].destination, "/b");
}

TEST_F(PlanTest, UsersMayLeaveOutTheirOwnMountsAlone) {
    const auto bind = [](const std::string& place) {
        return oci::parseMountRequest(cat("type=bind,src=/a,dst=", place));
    };
    const auto leaveOut = [](const std::string& place) {
        return oci::parseMountRequest(cat("type=umount,dst=", place));
    };
    config.siteMounts = {{"/scratch", "/scratch", false}};
    request.mounts = {bind("/b"), bind("/c"), leaveOut("//b/"), bind("/b"), leaveOut("/c")};
    const auto mounts = make().mounts;
    ASSERT_EQ(mounts.size(), 2U);
    EXPECT_EQ(mounts[1].destination, "/b");
    request.mounts = {bind("/scratch"), leaveOut("/scratch")};
    EXPECT_EQ(make().mounts.size(), 1U);
    for (const auto* everybodys : {"/scratch", "/x/../scratch", "/proc", "/dev", "/dev/shm/../null"}) {
        request.mounts = {leaveOut(everybodys)};
        EXPECT_THAT(error(), HasSubstr("belongs to every container")) << everybodys;
    }
    request.mounts = {leaveOut("/scratch/below")};
    EXPECT_THAT(make().warnings, ElementsAre(HasSubstr("nothing is mounted on /scratch/below before it")));
}

TEST_F(PlanTest, UserMountRulesBindUsersAndNotTheSite) {
    config.userMounts = {{"/etc"}, {"/opt"}};
    config.siteMounts = {{"/opt", "/opt", false}, {"/x", "/etc/x", false}};
    EXPECT_EQ(error(), "no error");
    request.mounts = {oci::parseMountRequest("type=bind,src=/x,dst=//etc/x")};
    EXPECT_EQ(error(),
              "Invalid mount request 'type=bind,src=/x,dst=//etc/x': destination cannot be a subdirectory of "
              "'/etc'");
    request.mounts = {oci::parseMountRequest("type=bind,src=/x,dst=/opt")};
    EXPECT_EQ(
        error(),
        "Invalid mount request 'type=bind,src=/x,dst=/opt': '/opt' is not allowed as mount destination");
}

TEST_F(PlanTest, NoMemoryFileSystemReplacesSharedMemory) {
    for (const auto* path : {"/dev/shm", "/dev//shm/", "/dev/shm/x"}) {
        request.mounts = {oci::parseMountRequest(std::string("type=tmpfs,dst=") + path)};
        EXPECT_EQ(error(), "Invalid mount request '" + request.mounts.front().text +
                               "': a memory file system cannot replace /dev/shm");
    }
    request.mounts = {oci::parseMountRequest("type=tmpfs,dst=/dev/shmx")};
    EXPECT_EQ(error(), "no error");
}

TEST_F(PlanTest, InvalidMountRequestsAreRefused) {
    request.mounts = {{.source = "a", .destination = "/b", .text = "xyz"}};
    EXPECT_EQ(error(), "Invalid mount request 'xyz': source must be an absolute path");
    request.mounts = {{.source = "/a", .destination = "", .text = "xyz"}};
    EXPECT_EQ(error(), "Invalid mount request 'xyz': destination must be an absolute path");
    request.mounts = {{.destination = "b", .tmpfsSize = 0}};
    EXPECT_EQ(error(), "Invalid mount request '': destination must be an absolute path");
}

TEST_F(PlanTest, PmixServerDirectoryIsMountedAtItsOwnPath) {
    request.hostEnvironment = {"PMIX_SERVER_TMPDIR=/var/spool/slurmd/pmix.1.0/"};
    EXPECT_THAT(make().mounts, IsEmpty());
    config.enablePmixV3Support = true;
    config.userMounts = {{"/etc", "/var"}, {"/opt"}};
    const auto mounts = make().mounts;
    ASSERT_EQ(mounts.size(), 1U);
    EXPECT_EQ(mounts[0].source, "/var/spool/slurmd/pmix.1.0");
    EXPECT_EQ(mounts[0].destination, "/var/spool/slurmd/pmix.1.0");
    EXPECT_FALSE(mounts[0].readonly);
    EXPECT_EQ(mounts[0].origin, MountOrigin::workloadManager)
        << "the site's rights must not open a path that the user names";
}

TEST_F(PlanTest, PmixServerDirectoryCannotCoverWhatIsProtected) {
    config.enablePmixV3Support = true;
    config.userMounts = {{"/etc"}, {"/opt/site"}};
    for (const auto* path : {"/", "/etc", "//etc/.", "/opt", "/opt/site", "/dev", "/proc", "/sys/fs"}) {
        request.hostEnvironment = {std::string("PMIX_SERVER_TMPDIR=") + path};
        const auto result = make();
        EXPECT_THAT(result.mounts, IsEmpty()) << path;
        EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("The PMIx directory"))) << path;
    }
}

TEST_F(PlanTest, PmixDirectoriesOfSlurmAreMountedToo) {
    request.hostEnvironment = {"PMIX_SERVER_TMPDIR=/var/spool/slurmd/pmix.1.0"};
    request.workloadDirectories = {"/var/spool/slurmd/pmix.1.0/", "/tmp/spmix_appdir_1.0", "/etc"};
    EXPECT_THAT(make().mounts, IsEmpty());
    config.enablePmixV3Support = true;
    config.userMounts = {{"/etc"}, {}};
    const auto result = make();
    ASSERT_EQ(result.mounts.size(), 2U);
    EXPECT_EQ(result.mounts[1].source, "/tmp/spmix_appdir_1.0");
    EXPECT_EQ(result.mounts[1].destination, "/tmp/spmix_appdir_1.0");
    EXPECT_EQ(result.mounts[1].origin, MountOrigin::workloadManager);
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("/etc")));
}

TEST_F(PlanTest, PmixDirectoriesOfSlurmsStepNeedNoKeyAndDoNotCount) {
    request.hostEnvironment = {"PMIX_SERVER_TMPDIR=/var/spool/slurmd/pmix.1.0/",
                               "PMIX_DSTORE_1_BASE_PATH=/home/user", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0",
                               "SLURM_MPI_TYPE=pmix_v5"};
    request.workloadDirectories = {"/tmp/spmix_appdir_1.0", "/tmp/other"};
    config.containerLimits.mounts = 0;
    const auto mounts = make().mounts;
    ASSERT_EQ(mounts.size(), 2U);
    EXPECT_EQ(mounts[0].source, "/var/spool/slurmd/pmix.1.0");
    EXPECT_EQ(mounts[1].source, "/tmp/spmix_appdir_1.0");
    config.enablePmixV3Support = false;
    EXPECT_THAT(make().mounts, IsEmpty());
    config.enablePmixV3Support.reset();
    request.hostEnvironment.back() = "SLURM_MPI_TYPE=pmi2";
    EXPECT_THAT(make().mounts, IsEmpty());
}

TEST_F(PlanTest, PmixDirectoriesAreMountsOfAUserForTheSitesRules) {
    config.enablePmixV3Support = true;
    request.hostEnvironment = {"PMIX_SERVER_TMPDIR=/home/user/own", "PMIX_DSTORE_1_BASE_PATH=/usr/share"};
    request.workloadDirectories = {"/scratch/user"};
    config.containerLimits.mounts = 3;
    EXPECT_THAT(make().mounts, SizeIs(3));
    request.mounts = {oci::parseMountRequest("type=bind,src=/a,dst=/b")};
    EXPECT_THAT(error(), HasSubstr("more than 3 mounts"));
    request.mounts.clear();
    config.allowMount = false;
    const auto result = make();
    EXPECT_THAT(result.mounts, IsEmpty());
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("allowMount")));
}

TEST_F(PlanTest, SiteDevicesComeBeforeUserDevices) {
    config.siteDevices = {{"/dev/fuse", "/dev/fuse", "rw"}};
    request.devices = {"/dev/kvm:/dev/x:r"};
    const auto devices = make().devices;
    ASSERT_EQ(devices.size(), 2U);
    EXPECT_EQ(devices[0].source, "/dev/fuse");
    EXPECT_EQ(devices[0].access, "rw");
    EXPECT_EQ(devices[0].origin, MountOrigin::site);
    EXPECT_EQ(devices[1].source, "/dev/kvm");
    EXPECT_EQ(devices[1].destination, "/dev/x");
    EXPECT_EQ(devices[1].access, "r");
    EXPECT_EQ(devices[1].origin, MountOrigin::user);
    EXPECT_EQ(devices[1].request, "/dev/kvm:/dev/x:r");
}

TEST_F(PlanTest, ADeviceThatTheSiteMountsIsSkippedWithAWarning) {
    config.siteDevices = {{"/dev/fuse", "/dev/fuse", "r"}};
    request.devices = {"/dev/../dev/fuse:/dev/other:rw", "/dev/kvm"};
    const auto result = make();
    ASSERT_EQ(result.devices.size(), 2U);
    EXPECT_EQ(result.devices[0].access, "r");
    EXPECT_EQ(result.devices[1].source, "/dev/kvm");
    EXPECT_THAT(result.warnings,
                ElementsAre(HasSubstr("Skipping device request '/dev/../dev/fuse:/dev/other:rw'")));
}

TEST_F(PlanTest, DevicesThatEveryContainerHasNeedNoMount) {
    config.siteDevices = {{"/dev/zero", "/dev//zero", "rw"}};
    request.devices = {"/dev/null:r", "/dev/null:/dev/mine"};
    const auto devices = make().devices;
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_EQ(devices[0].destination, "/dev/mine");
    request.devices = {"/dev/full:/dev/null"};
    EXPECT_THROW(make(), Error);
}

TEST_F(PlanTest, InvalidDeviceRequestsAreRefused) {
    request.devices = {"dev/fuse"};
    EXPECT_EQ(error(), "Invalid device request 'dev/fuse': host device path 'dev/fuse' must be absolute");
    request.devices = {"/dev/fuse:/dev/."};
    EXPECT_THAT(error(),
                HasSubstr("Invalid device request '/dev/fuse:/dev/.': container device path '/dev'"));
}

TEST_F(PlanTest, AnnotationsOfCommandLineBeforeEngineBeforeImage) {
    request.metadata.labels = {
        {"com.hooks.mpi.enabled", "image"}, {"com.hooks.logging.level", "image"}, {"l", "image"}};
    request.mpi = true;
    request.annotations = {"com.hooks.logging.level=0", "l=cli", "new"};
    EXPECT_THAT(make().annotations,
                ElementsAre(Pair("com.hooks.glibc.enabled", "true"), Pair("com.hooks.logging.level", "0"),
                            Pair("com.hooks.mpi.enabled", "true"), Pair("l", "cli"), Pair("new", "")));
}

TEST_F(PlanTest, LabelsOfTheImageReachNoHookThatWorksOutsideOfTheContainer) {
    for (const auto* key : {"com.hooks.ssh.enabled", "com.hooks.ssh.port", "com.hooks.ssh.authorize_ssh_key",
                            "com.hooks.ssh.pidfile_host", "com.hooks.ssh.pidfile_container",
                            "com.hooks.slurm-global-sync.enabled", "com.hooks.nvidia_cuda_mps.enabled",
                            "com.hooks.new.enabled", "mps.enable", "podman_hpc.hook_tool",
                            "podman_hpc.variables", "podman_hpc.env.HOME", "com.hooks.logging.stderrfd"}) {
        request.metadata.labels = {{key, "image"}};
        EXPECT_THAT(make().annotations, Not(Contains(Pair(key, "image")))) << key;
        request.annotations = {std::string(key) + "=caller"};
        if (std::string_view(key) != "com.hooks.logging.stderrfd") {
            EXPECT_THAT(make().annotations, Contains(Pair(key, "caller"))) << key;
        }
        request.annotations.clear();
    }
    for (const auto* key : {"com.hooks.glibc.enabled", "com.hooks.mpi.enabled", "com.hooks.mpi.type",
                            "com.hooks.ldcache.enabled", "com.hooks.mount.enabled", "com.hooks.pce.enabled",
                            "ldcache.enable", "org.example.key"}) {
        request.metadata.labels = {{key, "image"}};
        EXPECT_THAT(make().annotations, Contains(Pair(key, "image"))) << key;
    }
}

TEST_F(PlanTest, TheSiteLetsImagesSetFurtherAnnotations) {
    config.imageAnnotations = {"com.hooks.slurm.activate"};
    request.metadata.labels = {{"com.hooks.slurm.activate", "true"}, {"com.hooks.slurm.other", "true"}};
    EXPECT_THAT(make().annotations, Contains(Key("com.hooks.slurm.activate")));
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.slurm.other"))));
}

TEST_F(PlanTest, OfRepeatedAnnotationsTheLastCounts) {
    request.annotations = {"a=1", "a=2"};
    EXPECT_THAT(make().annotations, Contains(Pair("a", "2")));
}

TEST_F(PlanTest, WithoutOptionsOnlyTheLogLevelIsAnnotated) {
    EXPECT_THAT(make().annotations, ElementsAre(Pair("com.hooks.logging.level", "2")));
    request.logLevel = LogLevel::debug;
    EXPECT_THAT(make().annotations, ElementsAre(Pair("com.hooks.logging.level", "0")));
    request.logLevel = LogLevel::general;
    EXPECT_THAT(make().annotations, ElementsAre(Pair("com.hooks.logging.level", "3")));
}

TEST_F(PlanTest, MpiEnablesTheGlibcHookAndTakesTheDefaultType) {
    config.defaultMpiType = "mpich";
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.mpi.type"))));
    request.mpi = true;
    const auto annotations = make().annotations;
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.glibc.enabled", "true")));
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.mpi.enabled", "true")));
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.mpi.type", "mpich")));
}

oci::HookConfig hookOf(const std::string& name, const std::string& when, const std::string& stages) {
    return oci::parseHookConfig(
        R"({"version": "1.0.0", "hook": {"path": "/h"}, "when": )" + when + R"(, "stages": )" + stages + "}",
        "/hooks.d/" + name + ".json");
}

TEST_F(PlanTest, TwoSshHooksAreAWarning) {
    auto first = hookOf("07-ssh", R"({"annotations": {"^com.hooks.ssh.enabled$": "^true$"}})",
                        R"(["createRuntime", "poststop"])");
    first.hook.path = "/opt/sarus/bin/ssh_hook";
    auto second = first;
    second.file = "/hooks.d/08-ssh.json";
    EXPECT_THAT(plan(config, request, facts, {first, second}).warnings, IsEmpty());
    request.ssh = true;
    EXPECT_THAT(plan(config, request, facts, {first}).warnings, IsEmpty());
    EXPECT_THAT(plan(config, request, facts, {first, second}).warnings,
                ElementsAre("/hooks.d/08-ssh.json: a second SSH hook, besides /hooks.d/07-ssh.json. A "
                            "container has one SSH daemon: remove one of the files"));
}

oci::HookConfig mpiHook(const std::string& type) {
    return hookOf("05-" + type,
                  R"({"annotations": {"^com.hooks.mpi.enabled$": "^true$", "^com.hooks.mpi.type$": "^)" +
                      type + R"($"}})",
                  R"(["createContainer"])");
}

TEST_F(PlanTest, MpiTypeImpliesMpiAndWinsOverTheDefault) {
    config.defaultMpiType = "mpich";
    request.mpiType = "openmpi";
    const auto annotations = plan(config, request, facts, {mpiHook("openmpi")}).annotations;
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.mpi.enabled", "true")));
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.glibc.enabled", "true")));
    EXPECT_THAT(annotations, Contains(Pair("com.hooks.mpi.type", "openmpi")));
    request.mpiType = "";
    EXPECT_EQ(error(), "Empty value provided for --mpi-type option");
}

TEST_F(PlanTest, WithoutTypeAndDefaultNoMpiTypeIsAnnotated) {
    request.mpi = true;
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.mpi.type"))));
}

TEST_F(PlanTest, GlibcAndSshAreAnnotated) {
    request.glibc = true;
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.glibc.enabled", "true")));
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.mpi.enabled"))));
    request.ssh = true;
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.ssh.enabled", "true")));
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.slurm-global-sync.enabled", "true")));
}

TEST_F(PlanTest, NobodyButTheEngineChoosesWhereHooksWrite) {
    request.metadata.labels = {{"com.hooks.logging.stdoutfd", "/etc/shadow"}};
    request.annotations = {"com.hooks.logging.stderrfd=/etc/shadow"};
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.logging.stdoutfd"))));
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.logging.stderrfd"))));
    facts.hookOutput = "/bundle/hooks-log";
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.logging.stdoutfd", "/bundle/hooks-log.stdout")));
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.logging.stderrfd", "/bundle/hooks-log")));
}

TEST_F(PlanTest, OnlyTheEngineTellsHooksWhoItsCallerIs) {
    request.metadata.labels = {{"com.hooks.caller.uid", "0"}};
    request.annotations = {"com.hooks.caller.uid=0"};
    config.imageAnnotations = {"com.hooks.caller.uid"};
    EXPECT_THAT(make().annotations, Not(Contains(Key("com.hooks.caller.uid"))));
    facts.nodeUid = 1000;
    EXPECT_THAT(make().annotations, Contains(Pair("com.hooks.caller.uid", "1000")));
}

TEST_F(PlanTest, UnknownMpiTypeIsAnErrorThatNamesTheKnownOnes) {
    request.mpiType = "mpich4";
    const std::vector hooks{mpiHook("mpich3"), mpiHook("libfabric")};
    try {
        plan(config, request, facts, hooks);
        FAIL();
    } catch (const Error& failure) {
        EXPECT_STREQ(failure.what(), "No MPI hook has the type 'mpich4'");
        EXPECT_EQ(failure.hint(), "Configured types: mpich3, libfabric");
    }
    EXPECT_EQ(error(), "No MPI hook has the type 'mpich4'");
    request.mpiType = "mpich3";
    EXPECT_THAT(plan(config, request, facts, hooks).warnings, IsEmpty());
    const auto untyped =
        hookOf("05-x", R"({"annotations": {"^com.hooks.mpi.enabled$": "^true$"}})", R"(["createContainer"])");
    EXPECT_THAT(plan(config, request, facts, {untyped}).warnings, IsEmpty());
}

TEST_F(PlanTest, OptionsThatNoHookAnswersAreWarnedAbout) {
    request.mpi = true;
    EXPECT_THAT(make().warnings,
                ElementsAre("The option '--mpi' has no effect: no MPI hook runs for this container"));
    config.defaultMpiType = "mpich4";
    EXPECT_THAT(plan(config, request, facts, {mpiHook("mpich3")}).warnings,
                ElementsAre("The option '--mpi' has no effect: no MPI hook has the default type 'mpich4'"));
    config.defaultMpiType.reset();
    EXPECT_THAT(plan(config, request, facts, {mpiHook("mpich3"), mpiHook("openmpi4")}).warnings,
                ElementsAre("The option '--mpi' has no effect: choose one of the types mpich3, openmpi4 "
                            "(--mpi-type=TYPE; as an option of srun, --container-mpi=TYPE)"));
    request.mpi = false;
    request.glibc = true;
    EXPECT_THAT(make().warnings,
                ElementsAre("The option '--glibc' has no effect: no glibc hook runs for this container"));
    const auto glibc = hookOf("01-g", R"({"annotations": {"^com.hooks.glibc.enabled$": "^true$"}})",
                              R"(["createContainer"])");
    EXPECT_THAT(plan(config, request, facts, {glibc}).warnings, IsEmpty());
}

TEST_F(PlanTest, HooksWhoseConditionsHoldFireInFileOrderOnceForEachStage) {
    const std::vector hooks{
        hookOf("01-a", R"({"always": true})", R"(["poststop", "createRuntime"])"),
        hookOf("02-b", R"({"annotations": {"com.hooks.mpi.enabled": "true"}})", R"(["createRuntime"])"),
        hookOf("03-c", R"({"commands": ["true"]})", R"(["createRuntime"])")};
    const auto names = [&] {
        std::vector<std::string> result;
        for (const auto& planned : plan(config, request, facts, hooks).hooks) {
            result.push_back(planned.name + ":" + planned.stage);
        }
        return result;
    };
    EXPECT_THAT(names(), ElementsAre("01-a:poststop", "01-a:createRuntime", "03-c:createRuntime"));
    request.mpi = true;
    EXPECT_THAT(names(), Contains("02-b:createRuntime"));
    request.init = true;  // the command is still the user's
    config.initPath = "/usr/bin/tini";
    EXPECT_THAT(names(), Contains("03-c:createRuntime"));
    request.hold = true;  // and then that of one of the commands
    EXPECT_THAT(names(), Contains("03-c:createRuntime"));
}

TEST_F(PlanTest, HooksSeeImageLabelsAndTheCommandLineWins) {
    const std::vector hooks{hookOf("01-a", R"({"annotations": {"site.x": "on"}})", R"(["prestart"])")};
    EXPECT_THAT(plan(config, request, facts, hooks).hooks, IsEmpty());
    request.metadata.labels = {{"site.x", "on"}};
    EXPECT_EQ(plan(config, request, facts, hooks).hooks.size(), 1U);
    request.annotations = {"site.x=off"};
    EXPECT_THAT(plan(config, request, facts, hooks).hooks, IsEmpty());
}

TEST_F(PlanTest, BindMountsOfTheSiteAndOfTheUserCountForHooks) {
    const std::vector hooks{hookOf("01-a", R"({"hasBindMounts": true})", R"(["prestart"])")};
    config.siteDevices = {{"/dev/fuse", "/dev/fuse", "rw"}};
    EXPECT_THAT(plan(config, request, facts, hooks).hooks, IsEmpty());
    config.siteMounts = {{"/scratch", "/scratch", false}};
    EXPECT_EQ(plan(config, request, facts, hooks).hooks.size(), 1U);
}

TEST_F(PlanTest, AnnotationsCannotSteerTheRuntime) {
    request.metadata.labels = {
        {"run.oci.hooks.stdout", "/etc/cron.d/x"}, {"org.criu.config", "/x"}, {"ok", "1"}};
    EXPECT_THAT(make().annotations, ElementsAre(Pair("com.hooks.logging.level", "2"), Pair("ok", "1")));
    request.annotations = {"run.oci.handler=krun"};
    EXPECT_EQ(error(),
              "Invalid annotation requested from CLI: 'run.oci.handler' is reserved for the administrator");
}

TEST_F(PlanTest, InvalidAnnotationsAreRefused) {
    request.annotations = {"=value"};
    EXPECT_EQ(
        error(),
        "Error parsing annotation from CLI '=value': Failed to parse key-value pair '=value': key is empty");
}

TEST_F(PlanTest, PmiDescriptorBecomesNumberThree) {
    request.imageReference.clear();  // it would be a variable
    request.hostEnvironment = {"PMI_FD=9"};
    const auto result = make();
    ASSERT_EQ(result.descriptors.size(), 1U);
    EXPECT_EQ(result.descriptors[0].from, 9);
    EXPECT_EQ(result.descriptors[0].to, 3);
    EXPECT_THAT(result.environment, ElementsAre(Pair("PMI_FD", "3")));
}

TEST_F(PlanTest, PmiDescriptorMustBeANumber) {
    for (const auto* value : {"x", "", "-1", "3x", " 5", "99999999999999999999"}) {
        request.hostEnvironment = {std::string("PMI_FD=") + value};
        EXPECT_THAT(error(), HasSubstr("Invalid value of the environment variable PMI_FD")) << value;
    }
}

TEST_F(PlanTest, PmiDescriptorMustHaveBeenOpenAtEntry) {
    request.imageReference.clear();  // it would be a variable
    for (const auto* value : {"7", "4294967301", "4294967295"}) {
        request.hostEnvironment = {std::string("PMI_FD=") + value};
        const auto result = make();
        EXPECT_THAT(result.descriptors, IsEmpty()) << value;
        EXPECT_THAT(result.environment, IsEmpty()) << value;
        EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("is not an open file descriptor"))) << value;
    }
}

TEST_F(PlanTest, PmiDescriptorCannotBeTheImage) {
    request.imageFd = 5;
    request.hostEnvironment = {"PMI_FD=5"};
    EXPECT_THAT(make().descriptors, IsEmpty());
}

TEST_F(PlanTest, AStandardStreamAsPmiDescriptorStaysWhatItIs) {
    request.imageReference.clear();  // it would be a variable
    request.hostEnvironment = {"PMI_FD=1"};
    const auto result = make();
    EXPECT_THAT(result.descriptors, IsEmpty());
    EXPECT_THAT(result.environment, ElementsAre(Pair("PMI_FD", "1")));
}

TEST_F(PlanTest, PmiDescriptorIsNotPassedIfTheVariableIsReplaced) {
    request.imageReference.clear();  // it would be a variable
    request.hostEnvironment = {"PMI_FD=9"};
    config.environment.unset = {"PMI_FD"};
    EXPECT_THAT(make().descriptors, IsEmpty());
    request.env = {"PMI_FD=5"};
    EXPECT_THAT(make().descriptors, IsEmpty());
    EXPECT_THAT(make().environment, ElementsAre(Pair("PMI_FD", "5")));
}

TEST_F(PlanTest, OnlyTheHostsPmiDescriptorCounts) {
    request.imageReference.clear();  // it would be a variable
    request.metadata.env = {"PMI_FD=9"};
    EXPECT_THAT(make().descriptors, IsEmpty());
    EXPECT_THAT(make().environment, ElementsAre(Pair("PMI_FD", "9")));
}

TEST_F(PlanTest, EnvironmentIsSortedByName) {
    request.hostEnvironment = {"Z=1", "A=2", "M=3"};
    EXPECT_THAT(make().environment, ElementsAre(Pair("A", "2"), Pair("M", "3"),
                                                Pair("SARUS_CONTAINER", "docker.io/library/debian:12"),
                                                Pair("Z", "1"), Pair("container", "sarus")));
}

struct ExecPlanTest : PlanTest {
    ExecRequest request{.name = "job", .command = {"true"}};
    ExecBase base{.environment = {"A=run", "B=run"}, .workdir = "/run", .ownVariables = {}};

    ContainerPlan makeExec() { return planExec(config, request, facts, base); }
};

TEST_F(ExecPlanTest, VariablesAndDirectoryAreTheContainersUnlessOptionsSayOtherwise) {
    request.hostEnvironment = {"C=host", "D=host"};
    request.env = {"B=exec", "C"};
    auto made = makeExec();
    EXPECT_THAT(made.environment, ElementsAre(Pair("A", "run"), Pair("B", "exec"), Pair("C", "host")));
    EXPECT_EQ(made.workdir, "/run");
    request.workdir = "/exec";
    EXPECT_EQ(makeExec().workdir, "/exec");
}

TEST_F(ExecPlanTest, InItsOwnStepACommandHasTheVariablesOfItsCaller) {
    config.environment.unset = {"UNSET"};
    config.environment.prepend = {{"PATH", "/site"}};
    base.environment = {"A=run", "B=run", "PATH=/site:/image", "SLURM_STEP_ID=0", "CUDA_VISIBLE_DEVICES=0"};
    base.ownVariables = {"B", "PATH"};
    request.ownStep = true;
    request.hostEnvironment = {"A=caller", "B=caller",     "PATH=/host", "SLURM_STEP_ID=1",
                               "UNSET=x",  "LD_PRELOAD=x", "PMI_FD=7"};
    facts.inheritedDescriptors = {7};
    const auto made = makeExec();
    EXPECT_THAT(made.environment,
                ElementsAre(Pair("A", "caller"), Pair("B", "run"), Pair("PATH", "/site:/image"),
                            Pair("PMI_FD", "3"), Pair("SLURM_STEP_ID", "1")));
    ASSERT_EQ(made.descriptors.size(), 1U);
    EXPECT_EQ(made.descriptors[0].from, 7);
}

TEST_F(ExecPlanTest, IdentityComesFromTheKernel) {
    const auto made = makeExec();
    EXPECT_EQ(made.uid, 1000U);
    EXPECT_EQ(made.gid, 100U);
    EXPECT_THAT(made.supplementaryGroups, ElementsAre(100, 200));
    EXPECT_EQ(made.umask, 027U);
    EXPECT_THAT(made.mounts, IsEmpty());
}

TEST_F(ExecPlanTest, WhatRunRefusesIsRefused) {
    request.workdir = "/proc/self/fd/7";
    EXPECT_THROW(makeExec(), Error);
    request.workdir.reset();
    request.command.clear();
    EXPECT_THROW(makeExec(), Error);
    request.command = {"true"};
    request.name = "../x";
    EXPECT_THROW(makeExec(), Error);
}

}  // namespace
}  // namespace sarus::engine::plan_test
