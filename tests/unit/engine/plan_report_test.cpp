#include "engine/plan_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "engine/environment.hpp"

namespace sarus::engine::plan_report_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

struct PlanReportTest : testing::Test {
    SiteConfig config;
    LaunchRequest request;
    HostFacts facts;
    std::vector<oci::HookConfig> hooks;
    std::vector<oci::RuntimeMount> systemMounts{
        {"/proc", "proc", "proc", {}}, {"/.", "bind", "/", std::vector<std::string>{"remount", "bind"}}};

    PlanReportTest() {
        request.dryRun = true;
        request.imagePath = "/images/a.squashfs";
        request.imageReference = "docker.io/library/a:1";
        request.command = {"sh", "-c", "a b\n"};
        request.name = "n";
        facts.uid = 1000;
        facts.gid = 100;
        facts.umask = 027;
        facts.ttyGroup = 5;
        facts.privileged = true;
    }

    std::string make(std::string (*format)(const PlanReport&)) {
        const auto made = plan(config, request, facts, hooks);
        return format({.plan = made,
                       .request = request,
                       .runtime = "/usr/bin/crun",
                       .privileged = true,
                       .systemMounts = systemMounts});
    }
    std::vector<std::string> lines(bool withReasons) {
        const auto made = plan(config, request, facts, hooks);
        std::vector<std::string> found;
        for (const auto& line :
             describePlan({.plan = made, .request = request, .runtime = "/usr/bin/crun", .privileged = true},
                          withReasons)) {
            found.push_back(cat(line.level == LogLevel::info ? "INFO " : "DEBUG ", line.text));
        }
        return found;
    }
    static oci::HookConfig hook(const std::string& name, std::optional<bool> always,
                                std::vector<std::string> commands) {
        oci::HookConfig made;
        made.file = cat("/hooks.d/", name, ".json");
        made.hook.path = cat("/bin/", name);
        made.when.always = always;
        made.when.commands = std::move(commands);
        made.stages = {"prestart"};
        return made;
    }
    std::string text() { return make(formatPlan); }
    std::string json() { return make(formatPlanJson); }
};

TEST_F(PlanReportTest, EachVariableHasItsOrigin) {
    request.hostEnvironment = {"HOST=1", "BOTH=host", "LD_PRELOAD=x"};
    request.metadata.env = {"IMAGE=1", "BOTH=image"};
    config.environment.set = {{"SITE", "1"}};
    config.environment.prepend = {{"IMAGE", "0"}};
    request.env = {"OPTION=1"};
    request.init = true;
    config.initPath = "/usr/bin/tini";
    EXPECT_THAT(
        text(),
        AllOf(HasSubstr("  HOST=1  [host environment]\n"), HasSubstr("  BOTH=image  [image]\n"),
              HasSubstr("  IMAGE=0:1  [site configuration (environment)]\n"),
              HasSubstr("  SITE=1  [site configuration (environment)]\n"),
              HasSubstr("  OPTION=1  [command line (--env)]\n"),
              HasSubstr("  TINI_SUBREAPER=1  [container engine (--init)]\n"), Not(HasSubstr("LD_PRELOAD"))));
}

TEST_F(PlanReportTest, WithoutADryRunNoOriginsAreKept) {
    request.dryRun = false;
    request.hostEnvironment = {"HOST=1"};
    EXPECT_TRUE(plan(config, request, facts).environmentOrigins.empty());
}

TEST_F(PlanReportTest, EachMountAndDeviceHasItsOriginInTheOrderOfTheMounts) {
    config.siteMounts = {{.source = "/scratch", .destination = "/scratch"}};
    request.mounts = {oci::parseMountRequest("type=bind,src=/a,dst=/b,readonly")};
    config.siteDevices = {{.source = "/dev/x", .destination = "/dev/x", .access = "rw"}};
    request.devices = {"/dev/fuse:r"};
    const auto shown = text();
    EXPECT_THAT(shown,
                AllOf(HasSubstr("Mounts, in their order\n"
                                "  / from /images/a.squashfs  [image]\n"
                                "  /scratch from /scratch  [site configuration (siteMounts)]\n"
                                "  /b from /a, read-only  [command line (--mount)]\n"
                                "  /proc from proc  [container engine]\n"
                                "Devices\n"),
                      HasSubstr("  /dev/x from /dev/x, access rw  [site configuration (siteDevices)]\n"),
                      HasSubstr("  /dev/fuse from /dev/fuse, access r  [command line (--device)]\n")));
}

TEST_F(PlanReportTest, EachAnnotationAndHookHasItsReason) {
    request.metadata.labels = {{"org.label", "1"}};
    request.annotations = {"mine=2"};
    request.mpi = true;
    oci::HookConfig hook;
    hook.file = "/hooks.d/07-mpi.json";
    hook.hook.path = "/opt/mpi_hook";
    hook.when.annotations = {{"^com.hooks.mpi.enabled$", "^true$"}};
    hook.stages = {"prestart"};
    hooks = {hook};
    EXPECT_THAT(text(), AllOf(HasSubstr("  org.label=1  [image (label)]\n"),
                              HasSubstr("  mine=2  [command line (--annotation)]\n"),
                              HasSubstr("  com.hooks.mpi.enabled=true  [container engine]\n"),
                              HasSubstr("  prestart: /opt/mpi_hook  [/hooks.d/07-mpi.json: annotation "
                                        "com.hooks.mpi.enabled=true]\n")));
    EXPECT_THAT(json(),
                HasSubstr(R"("hooks":[{"name":"07-mpi","file":"/hooks.d/07-mpi.json","path":"/opt/mpi_hook",)"
                          R"("stage":"prestart","reason":"annotation com.hooks.mpi.enabled=true"}])"));
}

TEST_F(PlanReportTest, NothingForeignReachesTheTerminalUnchanged) {
    request.metadata.env = {"A=\x1b[2J"};
    EXPECT_THAT(text(),
                AllOf(HasSubstr("  A=\\x1b[2J  [image]"), HasSubstr("command     sh -c 'a b\\x0a'\n")));
}

TEST_F(PlanReportTest, JsonHasTheKeysOfTheManPage) {
    request.hostEnvironment = {"A=1"};
    systemMounts.clear();
    EXPECT_EQ(
        json(),
        R"({"kind":"plan","name":"n","image":"docker.io/library/a:1","args":["sh","-c","a b\u000a"],"workingDir":"/",)"
        R"("user":{"uid":1000,"gid":100,"additionalGids":[]},"umask":"0027","cpus":[],"pid":"host",)"
        R"("network":"host","ipc":"host","uts":"host","terminal":false,)"
        R"("privileged":true,"runtime":"/usr/bin/crun","mounts":[{"source":"/images/a.squashfs","destination":"/",)"
        R"("readonly":false,"origin":"image"}],"devices":[],"environment":[{"name":"A","value":"1",)"
        R"("origin":"host environment"},{"name":"SARUS_CONTAINER","value":"docker.io/library/a:1","origin":"container engine"},)"
        R"({"name":"container","value":"sarus","origin":"container engine"}],"descriptors":[],"annotations":[{"name":"com.hooks.logging.level","value":"2",)"
        R"("origin":"container engine"}],"hooks":[],"warnings":[]})"
        "\n");
}

TEST_F(PlanReportTest, LogTellsWhatAContainerGetsAndOnDemandWhy) {
    request.dryRun = false;
    request.logLevel = LogLevel::debug;
    request.mounts = {oci::parseMountRequest("type=bind,src=/a,dst=/b,readonly")};
    config.siteDevices = {{"/dev/null", "/dev/hole", "rw"}};
    hooks = {hook("10-yes", true, {}), hook("20-no", std::nullopt, {".*/bash"})};
    EXPECT_THAT(
        lines(false),
        ElementsAre("INFO Container n of image docker.io/library/a:1, command sh -c 'a b\\x0a', OCI runtime "
                    "/usr/bin/crun",
                    "INFO Mount / from /images/a.squashfs", "INFO Mount /b from /a, read-only",
                    "INFO Device /dev/hole from /dev/null, access rw", "INFO Hook prestart: /bin/10-yes"));
    EXPECT_THAT(
        lines(true),
        IsSupersetOf(
            {"DEBUG Mount /b from /a, read-only: command line (--mount)",
             "DEBUG Device /dev/hole from /dev/null, access rw: site configuration (siteDevices)",
             "DEBUG Hook prestart: /bin/10-yes: /hooks.d/10-yes.json: always",
             "DEBUG No hook prestart: /bin/20-no: /hooks.d/20-no.json: command sh does not match .*/bash"}));
}

TEST_F(PlanReportTest, LogOfARankTellsThatTheImagesOwnMpiIsInUse) {
    request.dryRun = false;
    constexpr auto line = "INFO MPI in use: the image's own, no MPI hook runs";
    EXPECT_THAT(lines(false), testing::Not(testing::Contains(line)));
    request.hostEnvironment.emplace_back("PMIX_RANK=0");
    EXPECT_THAT(lines(false), testing::Contains(line));
    hooks = {hook("10-mpi", true, {})};
    hooks.front().hook.path = "/opt/sarus/bin/mpi_hook";
    EXPECT_THAT(lines(false), testing::Not(testing::Contains(line)));
}

TEST_F(PlanReportTest, LogOfALongPlanIsCutOffBeforeAPipeIsFull) {
    request.dryRun = false;
    for (int i = 0; i < 2000; ++i) {
        request.mounts.push_back(oci::parseMountRequest(
            cat("type=bind,src=/a,dst=/b/", std::string(i < 2 ? 100000 : 10, 'x'), i)));
    }
    const auto all = lines(true);
    std::size_t size = 0;
    for (const auto& line : all) {
        size += line.size() + 100;
    }
    EXPECT_LT(size, 40U << 10U);
    EXPECT_EQ(all.back(), "INFO ...; 'sarus run --dry-run' prints all of it");
}

TEST_F(PlanReportTest, HooksThatDoNotRunAreKeptWithTheReasonForThoseWhoRead) {
    request.dryRun = false;
    hooks = {hook("20-no", false, {})};
    EXPECT_TRUE(plan(config, request, facts, hooks).idleHooks.empty());
    request.logLevel = LogLevel::info;
    EXPECT_TRUE(plan(config, request, facts, hooks).idleHooks.empty());
    request.logLevel = LogLevel::debug;
    EXPECT_EQ(plan(config, request, facts, hooks).idleHooks.at(0).reason, "always is false");
}

}  // namespace
}  // namespace sarus::engine::plan_report_test
