#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/path_checker.hpp"
#include "base/text.hpp"
#include "starter/entry/installation.hpp"
#include "starter/root_owned_directory.hpp"
#include "starter/runtime/hooks.hpp"

namespace sarus::starter::security_checks_as_root_test {
namespace {

using testing::HasSubstr;

constexpr uid_t somebody = 12345;

class SecurityChecks : public testing::Test {
protected:
    std::string makeFile(const std::string& name, const std::string& text = "") {
        writeAll(openFile(directory / name, O_WRONLY | O_CREAT | O_TRUNC, 0755).get(), text, name);
        return directory / name;
    }
    std::string makeDirectory(const std::string& name) {
        createDirectories(directory / name);
        return directory / name;
    }
    std::string makeLink(const std::string& target, const std::string& name) {
        EXPECT_EQ(::symlink(target.c_str(), (directory / name).c_str()), 0);
        return directory / name;
    }
    static void give(const std::string& path) { EXPECT_EQ(::lchown(path.c_str(), somebody, somebody), 0); }

    template <typename Check>
    static std::string errorOf(Check check) {
        try {
            check();
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    }
    static std::string pathError(const std::string& path, const TrustedOwners& owners = {}) {
        return errorOf([&] { PathChecker(owners).check(path); });
    }
    static std::string treeError(const std::string& path) {
        return errorOf([&] { PathChecker({}).checkTree(path); });
    }
    static std::string installationError(const engine::SiteConfig& config) {
        return errorOf([&] {
            PathChecker paths({});
            checkInstallation(config, paths);
        });
    }
    static std::string hooksError(const engine::SiteConfig& config) {
        return errorOf([&] {
            PathChecker paths({});
            loadHooks(config, paths);
        });
    }
    static std::string mustBeOwned(const std::string& path) {
        return "\"" + path + "\" must be owned by root";
    }
    static std::string cannotBeWritable(const std::string& path) {
        return "\"" + path + "\" cannot be group- or world-writable";
    }

    test::RootOwnedDirectory directory;
};

TEST_F(SecurityChecks, FilesMustBeOwnedByRoot) {
    const auto file = makeFile("file");
    EXPECT_EQ(pathError(file), "");
    give(file);
    EXPECT_THAT(pathError(file), HasSubstr(mustBeOwned(file)));
    EXPECT_THAT(pathError(file), HasSubstr("uid 12345, gid 12345"));
}

TEST_F(SecurityChecks, FilesMustNotBeWritableByOthers) {
    const auto file = makeFile("file");
    for (const mode_t mode : {0775U, 0757U}) {
        ::chmod(file.c_str(), mode);
        EXPECT_THAT(pathError(file), HasSubstr(cannotBeWritable(file)));
    }
}

TEST_F(SecurityChecks, EveryDirectoryOnTheWayCounts) {
    const auto parent = makeDirectory("a");
    makeDirectory("a/b");
    const auto file = makeFile("a/b/file");
    ::chmod(parent.c_str(), 0777);
    EXPECT_THAT(pathError(file), HasSubstr(cannotBeWritable(parent)));
    ::chmod(parent.c_str(), 01777);
    EXPECT_THAT(pathError(file), HasSubstr(cannotBeWritable(parent)));
    EXPECT_EQ(pathError(file, {.stickyParents = true}), "");
    ::chmod(parent.c_str(), 0755);
    give(parent);
    EXPECT_THAT(pathError(file), HasSubstr(mustBeOwned(parent)));
    EXPECT_EQ(pathError(file, {.alsoTrusted = {somebody}}), "");
}

TEST_F(SecurityChecks, LinksAreFollowedAndTheDirectoriesBehindThemCountToo) {
    const auto open = makeDirectory("open");
    const auto file = makeFile("open/file");
    const auto link = makeLink(file, "absolute");
    const auto relative = makeLink("../" + directory.path().substr(5) + "/open/file", "relative");
    EXPECT_EQ(PathChecker({}).check(link).value().realPath, file);
    EXPECT_EQ(PathChecker({}).check(relative).value().realPath, file);
    ::chmod(open.c_str(), 0777);
    EXPECT_THAT(pathError(link), HasSubstr(cannotBeWritable(open)));
    EXPECT_THAT(pathError(relative), HasSubstr(cannotBeWritable(open)));
    ::chmod(open.c_str(), 0755);
    give(link);
    EXPECT_THAT(pathError(link), HasSubstr(mustBeOwned(link)));
}

TEST_F(SecurityChecks, ALoopOfLinksIsAnError) {
    makeLink("b", "a");
    EXPECT_THAT(pathError(makeLink("a", "b")), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(SecurityChecks, WhatDoesNotExistIsSkipped) {
    EXPECT_FALSE(PathChecker({}).check(directory / "missing/file").has_value());
    makeFile("file");
    EXPECT_FALSE(PathChecker({}).check(directory / "file/below").has_value());
    EXPECT_EQ(treeError(directory / "missing"), "");
}

TEST_F(SecurityChecks, DirectoriesAreCheckedRecursively) {
    makeDirectory("tree/sub");
    const auto deep = makeFile("tree/sub/file");
    EXPECT_EQ(treeError(directory / "tree"), "");
    ::chmod(deep.c_str(), 0666);
    EXPECT_THAT(treeError(directory / "tree"), HasSubstr(cannotBeWritable(deep)));
    ::chmod(deep.c_str(), 0644);
    give(deep);
    EXPECT_THAT(treeError(directory / "tree"), HasSubstr(mustBeOwned(deep)));
}

TEST_F(SecurityChecks, LinksInATreeAreCheckedWithTheirTargets) {
    makeDirectory("tree");
    const auto target = makeFile("program");
    makeLink(target, "tree/program");
    EXPECT_EQ(treeError(directory / "tree"), "");
    give(target);
    EXPECT_THAT(treeError(directory / "tree"), HasSubstr(mustBeOwned(target)));
}

TEST_F(SecurityChecks, RememberWhatTheyHaveSeen) {
    makeDirectory("tree/sub");
    const auto file = makeFile("tree/sub/file");
    const auto link = makeLink(file, "link");
    PathChecker paths({});
    EXPECT_EQ(paths.check(link).value().realPath, file);
    paths.checkTree(directory / "tree");
    for (const auto* path : {"tree", "tree/sub", "tree/sub/file"}) {
        ::chmod((directory / path).c_str(), 0777);
    }
    EXPECT_NO_THROW(paths.check(link));
    EXPECT_NO_THROW(paths.check(directory / "tree/sub/file"));
    EXPECT_EQ(paths.check(directory / "tree").value().realPath, directory / "tree");
    EXPECT_NE(pathError(file), "");
}

TEST_F(SecurityChecks, AParentThatWasAcceptedForItsStickyBitIsNotAcceptedAsTheObject) {
    const auto parent = makeDirectory("sticky");
    const auto file = makeFile("sticky/file");
    ::chmod(parent.c_str(), 01777);
    PathChecker paths({.stickyParents = true});
    EXPECT_NO_THROW(paths.check(file));
    EXPECT_THROW(paths.check(parent), Error);
}

TEST_F(SecurityChecks, WhatABadPathLeavesBehindIsStillBad) {
    const auto parent = makeDirectory("open");
    const auto file = makeFile("open/file");
    ::chmod(parent.c_str(), 0777);
    PathChecker paths({});
    for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_THROW(paths.check(file), Error);
        EXPECT_THROW(paths.checkTree(parent), Error);
    }
}

TEST_F(SecurityChecks, TreesMayHaveMoreDirectoriesThanThereAreDescriptors) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int number = 0; number < 80; ++number) {
        makeDirectory(cat("tree/", number));
    }
    const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EQ(treeError(directory / "tree"), "");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(SecurityChecks, CoverEveryPathOfTheConfiguration) {
    engine::SiteConfig config;
    config.prefixDir = makeDirectory("prefix");
    config.runcPath = makeFile("runtime");
    config.initPath = makeFile("init");
    config.ociBundleDir = makeDirectory("bundle");
    makeDirectory("prefix/bin");
    makeDirectory("prefix/libexec");
    makeDirectory("prefix/dropbear");
    EXPECT_EQ(installationError(config), "");
    for (const auto& path :
         {config.runcPath, *config.initPath, config.ociBundleDir, makeFile("prefix/bin/program"),
          makeFile("prefix/libexec/program"), makeFile("prefix/dropbear/program")}) {
        ::chmod(path.c_str(), 0777);
        EXPECT_THAT(installationError(config), HasSubstr(cannotBeWritable(path)));
        ::chmod(path.c_str(), 0755);
    }
}

TEST_F(SecurityChecks, CoverHookFilesAndTheirPrograms) {
    engine::SiteConfig config;
    config.hooksDir = makeDirectory("hooks.d");
    const auto program = makeFile("hook");
    const auto file =
        makeFile("hooks.d/hook.json", R"({"version": "1.0.0", "hook": {"path": ")" + program +
                                          R"("}, "when": {"always": true}, "stages": ["prestart"]})");
    EXPECT_EQ(hooksError(config), "");
    for (const auto& path : {*config.hooksDir, file, program}) {
        ::chmod(path.c_str(), 0777);
        EXPECT_THAT(hooksError(config), HasSubstr(cannotBeWritable(path)));
        config.securityChecks = false;
        EXPECT_EQ(hooksError(config), "");
        config.securityChecks = true;
        ::chmod(path.c_str(), 0755);
    }
}

TEST_F(SecurityChecks, CoverTheDirectoriesBehindALinkedHookFile) {
    engine::SiteConfig config;
    config.hooksDir = makeDirectory("hooks.d");
    const auto elsewhere = makeDirectory("elsewhere");
    const auto file =
        makeFile("elsewhere/hook.json",
                 R"({"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": true},
                                                          "stages": ["prestart"]})");
    ASSERT_EQ(::symlink(file.c_str(), cat(*config.hooksDir, "/hook.json").c_str()), 0);
    EXPECT_EQ(hooksError(config), "");
    ::chmod(elsewhere.c_str(), 0777);
    EXPECT_THAT(hooksError(config), HasSubstr(cannotBeWritable(elsewhere)));
}

class Configuration : public SecurityChecks {
protected:
    /// sarus.json of an installation whose checks are switched on or off.
    std::string install(bool checks) {
        makeDirectory("etc");
        makeFile("runtime");
        const auto path =
            makeFile("etc/sarus.json", R"({"securityChecks": )" + std::string(checks ? "true" : "false") +
                                           R"(, "OCIBundleDir": ")" + directory.path() +
                                           R"(/bundle", "rootfsFolder": "rootfs",
            "prefixDir": ")" + directory.path() +
                                           R"(", "tempDir": "/tmp", "localRepositoryBaseDir": "/home",
            "skopeoPath": "/usr/bin/skopeo", "runcPath": ")" +
                                           directory.path() + R"(/runtime", "ramFilesystemType": "tmpfs"})");
        ::chmod(path.c_str(), 0644);
        return path;
    }
    std::string loadError() {
        return errorOf([&] {
            PathChecker paths({});
            Entry entry;
            entry.prefix = directory.path();
            loadInstallation(entry, paths);
        });
    }
};

TEST_F(Configuration, IsAlwaysCheckedTogetherWithItsSchema) {
    const auto config = install(false);
    const auto schema = makeFile("etc/sarus.schema.json", "{}");
    EXPECT_EQ(loadError(), "");
    for (const auto& path : {config, schema}) {
        ::chmod(path.c_str(), 0666);
        EXPECT_THAT(loadError(), HasSubstr(cannotBeWritable(path)));
        ::chmod(path.c_str(), 0644);
        give(path);
        EXPECT_THAT(loadError(), HasSubstr(mustBeOwned(path)));
        ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
    }
}

TEST_F(Configuration, DecidesWhetherTheOtherChecksArePerformed) {
    install(false);
    give(directory / "runtime");
    EXPECT_EQ(loadError(), "");
    install(true);
    give(directory / "runtime");
    EXPECT_THAT(loadError(), HasSubstr(mustBeOwned(directory / "runtime")));
}

TEST_F(Configuration, LiesWhereNobodyElseCanExchangeItIfTheChecksAreOn) {
    const auto etc = directory / "etc";
    for (const bool checks : {false, true}) {
        install(checks);
        for (const auto& path : {etc, directory.path()}) {
            ::chmod(path.c_str(), 0777);
            EXPECT_EQ(loadError().find(cannotBeWritable(path)) != std::string::npos, checks) << loadError();
            EXPECT_EQ(loadError().empty(), !checks);
            ::chmod(path.c_str(), 0755);
            EXPECT_EQ(loadError(), "");
        }
    }
    give(etc);
    EXPECT_THAT(loadError(), HasSubstr(mustBeOwned(etc)));
}

TEST_F(Configuration, MustBeARegularFile) {
    makeDirectory("etc");
    ASSERT_EQ(::mkfifo((directory / "etc/sarus.json").c_str(), 0644), 0);
    EXPECT_THAT(loadError(), HasSubstr("is not a regular file"));
}

TEST_F(Configuration, OfAUsersInstallationMayBelongToTheCallerWithoutPrivilegesOnly) {
    Entry entry;
    entry.mode = Mode::rootless;
    const auto rootless = trustedOwners(entry, Credentials::acquire(Mode::rootless));
    EXPECT_EQ(rootless.alsoTrusted, std::vector<uid_t>{::getuid()});
    entry.mode = Mode::privileged;
    EXPECT_TRUE(trustedOwners(entry, Credentials::acquire(Mode::privileged)).alsoTrusted.empty());
}

}  // namespace
}  // namespace sarus::starter::security_checks_as_root_test
