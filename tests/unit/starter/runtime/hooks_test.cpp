#include "starter/runtime/hooks.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::starter::hooks_test {
namespace {

using test::TemporaryDirectory;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

engine::PlannedHook planned(std::string name, std::string stage, std::vector<std::string> shell = {}) {
    std::vector<std::string> args{"sh", "-c"};
    args.insert(args.end(), shell.begin(), shell.end());
    return {.name = std::move(name),
            .stage = std::move(stage),
            .hook = {.path = "/bin/sh", .args = std::move(args), .env = {"ONLY=this"}, .timeout = 1}};
}

engine::ContainerPlan planOf(std::vector<engine::PlannedHook> hooks) {
    engine::ContainerPlan plan;
    plan.hooks = std::move(hooks);
    return plan;
}

std::string precreateError(const std::string& script) {
    try {
        runPrecreateHooks(planOf({planned("10-edit", "precreate", {script})}), "{}", "/bundle");
        return "no error";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(PrecreateHooks, OutputOfOneIsInputOfTheNext) {
    const auto plan = planOf({planned("1", "precreate", {"read x; echo \"{\\\"a\\\": $x}\""}),
                              planned("2", "prestart", {"exit 1"}),
                              planned("3", "precreate", {"read x; echo \"{\\\"b\\\": $x}\""})});
    EXPECT_EQ(runPrecreateHooks(plan, "{}\n", "/bundle").text, "{\"b\": {\"a\": {}}}\n");
}

TEST(PrecreateHooks, EnvironmentIsThatOfTheFileAndDirectoryIsTheRoot) {
    const auto plan = planOf({planned(
        "1", "precreate", {"echo \"{\\\"x\\\": \\\"$ONLY ${HOME-none} $(pwd) $HOOK_BUNDLE\\\"}\""})});
    EXPECT_THAT(runPrecreateHooks(plan, "{}", "/bundle").text,
                AllOf(HasSubstr("this none /"), HasSubstr(" /bundle\"")));
}

TEST(PrecreateHooks, FailureNamesTheHookAndWhatItSaid) {
    EXPECT_THAT(precreateError("echo no such GPU >&2; exit 3"),
                AllOf(HasSubstr("'10-edit'"), HasSubstr("failed with status 3: no such GPU")));
    EXPECT_THAT(precreateError("kill -9 $$"), HasSubstr("failed with signal 9"));
}

TEST(PrecreateHooks, OutputMustBeAConfiguration) {
    EXPECT_THAT(precreateError("exit 0"), HasSubstr("did not write a configuration"));
    EXPECT_THAT(precreateError("echo []"), HasSubstr("did not write a configuration"));
}

TEST(PrecreateHooks, RulesForDevicesAreThoseOfTheLastOne) {
    const auto rules = [](const std::string& access) {
        return R"(echo '{"linux":{"resources":{"devices":[{"allow":true,"type":"c","major":1,"access":")" +
               access + R"("}]}}}')";
    };
    const auto edited = runPrecreateHooks(
        planOf({planned("1", "precreate", {rules("r")}), planned("2", "precreate", {rules("w")})}), "{}",
        "/bundle");
    ASSERT_EQ(edited.deviceRules.size(), 1U);
    EXPECT_EQ(edited.deviceRules[0].access, "w");
    EXPECT_THAT(runPrecreateHooks(planOf({}), R"({"linux":{}})", "/bundle").deviceRules, IsEmpty());
}

TEST(PrecreateHooks, TimeoutEndsAHangingHook) {
    EXPECT_THAT(precreateError("exec sleep 60"), HasSubstr("did not end within 1 s"));
}

TEST(HookLog, FifoBelongsToTheStarterAloneAndLinesArriveComplete) {
    const TemporaryDirectory directory;
    const auto plan = planOf({});
    HookLog log(directory.path(), plan);
    const auto path = directory.path() + "/hooks-log";
    struct stat status {};
    ASSERT_EQ(::lstat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, S_IFIFO | 0600U);
    EXPECT_EQ(status.st_uid, ::geteuid());
    const auto writer = openFile(path, O_WRONLY | O_NONBLOCK);
    writeAll(writer.get(), "[1.2] [n-1] [MPI hook] [INFO] hello\n[1.2] [n-1] [MPI hook] [ERROR] bad\npart",
             "fifo");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    log.forward();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "[1.2] [n-1] [MPI hook] [INFO] hello\n");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "[1.2] [n-1] [MPI hook] [ERROR] bad\n");
    testing::internal::CaptureStderr();
    log.finish();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "part\n");
    const auto output = openFile(path + ".stdout", O_WRONLY | O_NONBLOCK);
    writeAll(output.get(), "said\nlast", "fifo");
    testing::internal::CaptureStdout();
    log.finish();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "said\nlast\n");
}

TEST(HookLog, TakesReportsOutOfWhatHooksSayAndWarnsAboutFailures) {
    const TemporaryDirectory directory;
    const auto plan = planOf({planned("01-a", "createRuntime"), planned("02-b", "poststop")});
    HookLog log(directory.path(), plan);
    const auto writer = openFile(directory.path() + "/hooks-log", O_WRONLY | O_NONBLOCK);
    const auto said = [&](const std::string& text) {
        writeAll(writer.get(), text, "fifo");
        testing::internal::CaptureStderr();
        log.forward();
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_FALSE(log.lastBegun());
    EXPECT_EQ(said("\001sarus-hook begins 0 0\n"), "");
    EXPECT_EQ(log.lastBegun(), 0U);
    EXPECT_EQ(said("half\001sarus-hook begins 1 0\n"), "half\n");
    EXPECT_EQ(log.lastBegun(), 1U);
    EXPECT_THAT(said("\001sarus-hook failed 1 768\n"),
                HasSubstr("[WARN] The hook '02-b' (/bin/sh, poststop) failed with status 3\n"));
    EXPECT_THAT(said("\001sarus-hook failed 1 9\n"), HasSubstr("failed with signal 9\n"));
    EXPECT_THAT(said("\001sarus-hook failed 1 -1\n"),
                HasSubstr("was killed because it took longer than its time-out\n"));
    EXPECT_EQ(said("\001sarus-hook failed 7 0\n\001sarus-hook \n\001sarus-hook begins x 0\n"), "");
    EXPECT_EQ(log.lastBegun(), 1U);
}

TEST(WrapHooks, EachIsStartedByTheWrapperWithItsPositionInThePlan) {
    auto plan = planOf({planned("0", "poststop", {"a"}), planned("1", "createRuntime", {"b"}),
                        planned("2", "precreate", {"c"}), planned("3", "createRuntime", {"d"})});
    plan.hookOutput = "/log";
    const auto hooks = wrapHooks(plan, {}, {"/libexec/sarus-hook", "/root"}, engine::OciRuntime::crun);
    ASSERT_EQ(hooks.size(), 2U) << "those of the stage precreate are the starter's";
    EXPECT_EQ(hooks[0].first, "createRuntime");
    EXPECT_EQ(hooks[1].first, "poststop");
    ASSERT_EQ(hooks[0].second.size(), 2U);
    const auto& first = hooks[0].second[0];
    EXPECT_EQ(first.path, "/libexec/sarus-hook");
    EXPECT_THAT(first.args,
                ElementsAre("sarus-hook", "run", "1", "/root", "/log", "/bin/sh", "sh", "-c", "b"));
    EXPECT_THAT(first.env, ElementsAre("ONLY=this"));
    EXPECT_EQ(first.timeout, 1U);
    EXPECT_THAT(hooks[0].second[1].args,
                ElementsAre("sarus-hook", "run", "3", "/root", "/log", "/bin/sh", "sh", "-c", "d"));
    const auto& last = hooks[1].second[0];
    EXPECT_THAT(last.args, ElementsAre("sarus-hook", "wait", "0", "1", "/log", "/bin/sh", "sh", "-c", "a"));
    EXPECT_EQ(last.timeout, std::nullopt) << "the wrapper watches the time";
}

TEST(WrapHooks, CrunsOfCreateContainerAreChildrenOfTheWrapper) {
    auto plan = planOf({planned("0", "createContainer", {"a"})});
    plan.hookOutput = "/log";
    for (const auto& [runtime, how] :
         {std::pair(engine::OciRuntime::crun, "fork"), std::pair(engine::OciRuntime::runc, "run")}) {
        const auto hooks = wrapHooks(plan, {}, {"/w", "/root"}, runtime);
        EXPECT_THAT(hooks[0].second[0].args,
                    ElementsAre("sarus-hook", how, "0", "/root", "/log", "/bin/sh", "sh", "-c", "a"));
    }
}

TEST(WrapHooks, NeighboursOfCreateContainerWithoutTimeoutShareTheWrapperForCrun) {
    auto plan = planOf({planned("0", "createContainer", {"a"}), planned("1", "createRuntime", {"b"}),
                        planned("2", "createContainer", {"c", "d"}), planned("3", "createContainer", {"e"}),
                        planned("4", "createContainer", {"f"})});
    plan.hookOutput = "/log";
    for (const std::size_t index : {0U, 1U, 2U, 4U}) {
        plan.hooks[index].hook.timeout.reset();
    }
    const auto crun = wrapHooks(plan, {}, {"/w", "/root"}, engine::OciRuntime::crun);
    ASSERT_EQ(crun.size(), 2U);
    const auto& hooks = crun[1].second;
    ASSERT_EQ(hooks.size(), 3U);
    const auto words = [&](std::size_t index) {
        return std::to_string(1 + plan.hooks[index].hook.args.size());
    };
    EXPECT_THAT(hooks[0].args,
                ElementsAre("sarus-hook", "in-turn", "0", "/root", "/log", "0", words(0), "/bin/sh", "sh",
                            "-c", "a", "2", words(2), "/bin/sh", "sh", "-c", "c", "d"));
    EXPECT_THAT(hooks[0].env, ElementsAre("0:ONLY=this", "2:ONLY=this"));
    EXPECT_EQ(hooks[0].timeout, std::nullopt);
    EXPECT_EQ(hooks[1].args[1], "fork") << "has a timeout, which crun watches";
    EXPECT_EQ(hooks[1].timeout, 1U);
    EXPECT_THAT(hooks[2].args,
                ElementsAre("sarus-hook", "fork", "4", "/root", "/log", "/bin/sh", "sh", "-c", "f"));
    EXPECT_EQ(wrapHooks(plan, {}, {"/w", "/root"}, engine::OciRuntime::runc)[1].second.size(), 4U);
    plan.hooks[2].hook.env.clear();
    EXPECT_EQ(wrapHooks(plan, {}, {"/w", "/root"}, engine::OciRuntime::crun)[1].second.size(), 4U)
        << "crun gives its own environment to a hook without one";
}

TEST(WrapHooks, ThoseInsideOfTheContainerHaveTheWrapperThereBehindAMark) {
    auto plan = planOf({planned("0", "startContainer", {"a"}), planned("1", "prestart", {"b"}),
                        planned("2", "poststart", {"c"})});
    const auto hooks = wrapHooks(plan, {}, {"/w", "/root"}, engine::OciRuntime::crun);
    ASSERT_EQ(hooks.size(), 3U);
    ASSERT_EQ(hooks[0].second.size(), 2U);
    EXPECT_THAT(hooks[0].second[1].args, ElementsAre("sarus-hook", "mark", "3", "0", ""));
    ASSERT_EQ(hooks[1].second.size(), 1U);
    EXPECT_EQ(hooks[1].second[0].path, hookWrapperInside);
    EXPECT_THAT(hooks[1].second[0].args,
                ElementsAre("sarus-hook", "inside", "0", "0", "'0' (/bin/sh, startContainer)", "/bin/sh",
                            "sh", "-c", "a"));
    ASSERT_EQ(hooks[2].second.size(), 1U);
    const auto inside = wrapHooks(planOf({planned("0", "startContainer", {"a"})}), {}, {"/w", "/root"},
                                  engine::OciRuntime::crun);
    ASSERT_EQ(inside.size(), 1U);
    EXPECT_EQ(inside[0].second.size(), 1U);
}

TEST(ExplainFailedHook, OnTheHostItIsTheOneThatBeganLast) {
    const auto plan = planOf({planned("01-a", "createRuntime"), planned("02-b", "createRuntime"),
                              planned("03-c", "startContainer")});
    for (const char* log :
         {"error running hook #0: exit status 2", "error executing hook `/libexec/sarus-hook` (exit code: 3)",
          "timeout expired for `/libexec/sarus-hook`"}) {
        EXPECT_EQ(explainFailedHook(plan, log, 1),
                  "The hook which failed is '02-b' (/bin/sh, createRuntime)");
        EXPECT_THAT(explainFailedHook(plan, log, 3), IsEmpty());
        EXPECT_THAT(explainFailedHook(plan, log, std::nullopt), IsEmpty());
    }
    EXPECT_THAT(explainFailedHook(plan, "no cgroup", 1), IsEmpty());
}

TEST(CheckHookPrograms, MissingProgramNamesTheHook) {
    auto hook = planned("09-gone", "createRuntime");
    hook.hook.path = "/nonexistent/hook";
    try {
        checkHookPrograms(planOf({hook}));
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("'09-gone'"), HasSubstr("/nonexistent/hook: No such file")));
    }
    hook.stage = "startContainer";  // looked up inside of the container
    EXPECT_NO_THROW(checkHookPrograms(planOf({hook})));
}

TEST(CheckHookPrograms, WithACheckerTheAnswersAreTheSame) {
    const TemporaryDirectory directory;
    const auto file = directory.path() + "/hook";
    writeAll(openFile(file, O_WRONLY | O_CREAT, 0644).get(), "", file);
    const TrustedOwners everybody{.alsoTrusted = {::getuid()}, .stickyParents = true};
    const auto errorOf = [&](const std::string& path) {
        auto hook = planned("09-hook", "createRuntime");
        hook.hook.path = path;
        PathChecker paths(everybody);
        try {
            checkHookPrograms(planOf({hook}), &paths);
        } catch (const Error& error) {
            return error.errnum();
        }
        return 0;
    };
    EXPECT_EQ(errorOf(file + "-gone"), ENOENT);
    EXPECT_EQ(errorOf(file), EACCES);
    ASSERT_EQ(::chmod(file.c_str(), 0755), 0);
    EXPECT_EQ(errorOf(file), 0);
}

TEST(CheckHookStages, RefusesAHookOfThePackageAtAStageThatItDoesNotSupport) {
    const TemporaryDirectory prefix;
    createDirectories(prefix.path() + "/bin");
    createDirectories(prefix.path() + "/site");
    const auto program = prefix.path() + "/bin/mount_hook";
    replaceFile(program, "", 0755);
    replaceFile(prefix.path() + "/site/mount_hook", "", 0755);
    ASSERT_EQ(::symlink("bin", (prefix.path() + "/link").c_str()), 0);
    const auto refuses = [&](const std::string& path, const std::string& stage) {
        auto hook = planned("06-mount", stage);
        hook.hook.path = path;
        hook.file = "/etc/06-mount.json";
        try {
            checkHookStages(planOf({hook}), prefix.path());
            return false;
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), AllOf(HasSubstr("'06-mount'"),
                                            HasSubstr("mount_hook does not support the stage " + stage)));
            EXPECT_THAT(error.hint(), HasSubstr("/etc/06-mount.json"));
            return true;
        }
    };
    EXPECT_TRUE(refuses(program, "poststart"));
    EXPECT_TRUE(refuses(program, "startContainer"));
    EXPECT_TRUE(refuses(prefix.path() + "/link/mount_hook", "precreate"));
    EXPECT_FALSE(refuses(program, "createContainer"));
    EXPECT_FALSE(refuses(prefix.path() + "/site/mount_hook", "poststart")) << "a program of the site's";
}

TEST(LoadHooks, SortedByFileNameAndJsonFilesOnly) {
    const TemporaryDirectory directory;
    const auto write = [&](const std::string& name) {
        const auto file = openFile(directory.path() + "/" + name, O_WRONLY | O_CREAT, 0644);
        writeAll(file.get(),
                 R"({"version":"1.0.0","hook":{"path":"/h"},"when":{"always":true},"stages":["prestart"]})",
                 name);
    };
    write("20-b.json");
    write("10-a.json");
    write("05-old.json.bak");
    engine::SiteConfig config;
    config.securityChecks = false;
    config.hooksDir = directory.path();
    PathChecker paths({});
    const auto hooks = loadHooks(config, paths);
    ASSERT_EQ(hooks.size(), 2U);
    EXPECT_EQ(hooks[0].name(), "10-a");
    EXPECT_EQ(hooks[1].name(), "20-b");
    EXPECT_THAT(loadHooks({}, paths), IsEmpty());
}

}  // namespace
}  // namespace sarus::starter::hooks_test
