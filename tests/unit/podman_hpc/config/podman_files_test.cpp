#include "podman_hpc/config/podman_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::podman_files_test {
namespace {

using testing::HasSubstr;

class PodmanFiles : public testing::Test {
protected:
    PodmanFiles() {
        from = test::surroundings({{"HOME", directory / "home"},
                                   {"PODMANHPC_CONFIG_HOME", home},
                                   {"PODMANHPC_MOUNT_PROGRAM", "/opt/a\"b"},
                                   {"PODMANHPC_ADDITIONAL_STORES", "/s1,/s2"}});
        from.uid = ::geteuid();
        settings = loadSettings(from);
    }
    /// Variables that Podman's environment changes, as "NAME=VALUE" or "NAME".
    static std::vector<std::string> names(const std::vector<VariableChange>& changes) {
        std::vector<std::string> out;
        for (const auto& change : changes) {
            out.push_back(change.value ? cat(change.name, '=', *change.value) : change.name);
        }
        return out;
    }
    sarus::test::TemporaryDirectory directory;
    const std::string home = directory / "config";
    Surroundings from;
    Settings settings;
};

TEST_F(PodmanFiles, StorageConfiguration) {
    const auto text = storageConfiguration(settings, "/squash");
    EXPECT_THAT(text, HasSubstr("driver = \"overlay\"\n"));
    EXPECT_THAT(text, HasSubstr("ignore_chown_errors = \"true\"\n"));
    EXPECT_THAT(text, HasSubstr("mount_program = \"/opt/a\\\"b\"\n"));
    EXPECT_THAT(text, HasSubstr("additionalimagestores = [\"/squash\", \"/s1\", \"/s2\"]\n"));
    EXPECT_THAT(text, HasSubstr("[storage.options.overlay]\nmountopt = \"nodev\"\n"));
}

TEST_F(PodmanFiles, FilesAreWrittenWhenAbsentAndNeverOverwritten) {
    provideConfigHome(settings, "/squash", from);
    EXPECT_EQ(readFile(home + "/containers/storage.conf"), storageConfiguration(settings, "/squash"));
    EXPECT_EQ(readFile(home + "/containers/containers.conf"), containersConfiguration());
    replaceFile(home + "/containers/storage.conf", "mine", 0644);
    provideConfigHome(settings, "/squash", from);
    EXPECT_EQ(readFile(home + "/containers/storage.conf"), "mine");
}

TEST_F(PodmanFiles, AFullFileSystemLeavesNoHalfOfAFile) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
    EXPECT_THROW(provideConfigHome(settings, "/squash", from), Error);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, SIG_DFL);
    EXPECT_TRUE(std::filesystem::is_empty(home + "/containers"));
}

TEST_F(PodmanFiles, RegistriesPolicyAndCredentialsOfTheUserStayVisible) {
    const auto own = directory / "home/.config/containers";
    createDirectories(own);
    for (const auto* name : {"registries.conf", "policy.json", "auth.json"}) {
        replaceFile(cat(own, '/', name), name, 0600);
    }
    createDirectories(home + "/containers");
    replaceFile(home + "/containers/policy.json", "the site's", 0644);
    provideConfigHome(settings, "/squash", from);
    EXPECT_EQ(readFile(home + "/containers/registries.conf"), "registries.conf");
    EXPECT_EQ(readFile(home + "/containers/auth.json"), "auth.json");
    EXPECT_EQ(readFile(home + "/containers/policy.json"), "the site's");
}

TEST_F(PodmanFiles, LinksFollowTheUsersDirectory) {
    createDirectories(directory / "home/.config/containers");
    replaceFile(directory / "home/.config/containers/registries.conf", "new", 0600);
    createDirectories(home + "/containers");
    ASSERT_EQ(::symlink("/elsewhere", (home + "/containers/registries.conf").c_str()), 0);
    provideConfigHome(settings, "/squash", from);
    EXPECT_EQ(readFile(home + "/containers/registries.conf"), "new");
}

TEST_F(PodmanFiles, EnvironmentOfPodman) {
    EXPECT_THAT(
        names(podmanEnvironment(settings, from, false)),
        testing::ElementsAre(cat("XDG_CONFIG_HOME=", home), "XDG_RUNTIME_DIR", "STORAGE_DRIVER=overlay"));
}

TEST_F(PodmanFiles, CredentialsBelowXdgRuntimeDirStayVisible) {
    const auto runtime = directory / "runtime";
    createDirectories(runtime + "/containers");
    from = test::surroundings({{"XDG_RUNTIME_DIR", runtime}});
    const auto expected = cat("REGISTRY_AUTH_FILE=", runtime, "/containers/auth.json");
    EXPECT_THAT(names(podmanEnvironment(settings, from, false)), testing::Not(testing::Contains(expected)));
    EXPECT_THAT(names(podmanEnvironment(settings, from, true)), testing::Contains(expected));
    replaceFile(runtime + "/containers/auth.json", "{}", 0600);
    EXPECT_THAT(names(podmanEnvironment(settings, from, false)), testing::Contains(expected));
    from = test::surroundings({{"XDG_RUNTIME_DIR", runtime}, {"REGISTRY_AUTH_FILE", "/mine"}});
    EXPECT_THAT(names(podmanEnvironment(settings, from, true)), testing::Not(testing::Contains(expected)));
}

TEST_F(PodmanFiles, ADirectoryOfSomebodyElseInAPublicOneIsRefused) {
    const auto open = directory / "public";
    createDirectories(open + "/taken/below");
    ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
    requireOwnDirectory(open + "/own/below", ::geteuid());
    struct stat status {};
    ASSERT_EQ(::stat((open + "/own/below").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U);
    const uid_t other = ::geteuid() + 1;
    if (::geteuid() != 0) {
        EXPECT_THROW(requireOwnDirectory(open + "/taken/below", other), Error);
    } else {
        ASSERT_EQ(::chown((open + "/taken").c_str(), other, 0), 0);
        EXPECT_THROW(requireOwnDirectory(open + "/taken/below", 0), Error);
    }
}

TEST_F(PodmanFiles, NothingIsMadeThroughALinkOfSomebodyElse) {
    const bool isRoot = ::geteuid() == 0;
    const auto open = directory / "public";
    createDirectories(open);
    createDirectories(directory / "foreign");
    ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
    ASSERT_EQ(::symlink((directory / "foreign").c_str(), (open + "/taken").c_str()), 0);
    ASSERT_TRUE(!isRoot || ::lchown((open + "/taken").c_str(), 61234, 61234) == 0);
    EXPECT_THROW(requireOwnDirectory(open + "/taken/config", isRoot ? 0 : ::geteuid() + 1), Error);
    EXPECT_FALSE(pathExists(directory / "foreign/config"));
}

TEST_F(PodmanFiles, TheUmaskSaysWhoReadsTheSquashStore) {
    const auto modeWith = [&](mode_t mask) {
        const auto store = directory / ("squash-" + std::to_string(mask));
        const auto old = ::umask(mask);
        provideSquashStore(store, ::geteuid());
        ::umask(old);
        struct stat status {};
        EXPECT_EQ(::stat(store.c_str(), &status), 0);
        return status.st_mode & 07777U;
    };
    EXPECT_EQ(modeWith(022), 0755U);
    EXPECT_EQ(modeWith(077), 0700U);
}

TEST_F(PodmanFiles, EmptyStore) {
    const auto store = directory / "squash";
    provideSquashStore(store, ::geteuid());
    for (const auto* name : {"overlay-images/images", "overlay-layers/layers"}) {
        EXPECT_EQ(readFile(cat(store, '/', name, ".json")), "[]");
        EXPECT_EQ(readFile(cat(store, '/', name, ".lock")).size(), 64U);
    }
    EXPECT_TRUE(isDirectory(store + "/overlay/l"));
    replaceFile(store + "/overlay-images/images.json", "[{}]", 0644);
    provideSquashStore(store, ::geteuid());
    EXPECT_EQ(readFile(store + "/overlay-images/images.json"), "[{}]");
}

}  // namespace
}  // namespace sarus::podman_hpc::podman_files_test
