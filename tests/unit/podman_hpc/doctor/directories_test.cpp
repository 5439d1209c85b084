#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "podman_hpc/doctor/doctor.hpp"
#include "podman_hpc/surroundings.hpp"

namespace sarus::podman_hpc::directories_test {
namespace {

using testing::HasSubstr;

/// Podman's directories below a home on some filesystem.
class DoctorsDirectories : public ::testing::Test {
protected:
    ~DoctorsDirectories() override { std::filesystem::remove_all(home); }

    Finding find(std::string_view check, long filesystem, uid_t uid = ::geteuid()) {
        createDirectories(home);
        auto from = test::surroundings({{"PODMANHPC_GRAPH_ROOT", home + "/storage"},
                                        {"PODMANHPC_RUN_ROOT", home + "/run"},
                                        {"PODMANHPC_CONFIG_HOME", home + "/config"}});
        from.uid = uid;
        const auto settings = loadSettings(from);
        const Patient patient{.settings = settings,
                              .squash = {{home + "/squash"}, {}},
                              .from = from,
                              .filesystem = [&](const std::string& path) {
                                  EXPECT_EQ(path, home) << "the part that exists";
                                  return filesystem;
                              }};
        try {
            return check == "runtime directory" ? checkRuntimeDirectory(patient)
                   : check == "graph_root"      ? checkOwnDirectory(Key::graphRoot, patient)
                   : check == "run_root"        ? checkOwnDirectory(Key::runRoot, patient)
                                                : checkOwnDirectory(Key::configHome, patient);
        } catch (const Error& error) {
            return doctor::error(error.what(), error.hint());
        }
    }

    std::string home = cat("/tmp/doctor-", ::getpid());
};

TEST_F(DoctorsDirectories, OverlaysFailInAHomeOnNfs) {
    for (const auto& [magic, name] : {std::pair(0x6969L, "NFS"), std::pair(0x0BD00BD0L, "Lustre")}) {
        const auto graph = find("graph_root", magic);
        EXPECT_EQ(graph.grade, Finding::Grade::warning);
        EXPECT_THAT(graph.message,
                    HasSubstr(cat("is on ", name, ": overlays and subordinate ids fail there")));
        EXPECT_THAT(graph.cure, HasSubstr("export PODMANHPC_GRAPH_ROOT=/tmp/"));
        EXPECT_EQ(find("run_root", magic).grade, Finding::Grade::warning);
        EXPECT_EQ(find("config_home", magic).grade, Finding::Grade::ok) << "small files alone";
    }
}

/// Podman only says that the directory is there, or that it may not.
TEST_F(DoctorsDirectories, PodmansNamesInTmpMayBelongToOthers) {
    const uid_t uid = 1'000'000'000 + static_cast<uid_t>(::getpid());
    for (const auto* const name : {"/tmp/podman-run-", "/tmp/containers-user-"}) {
        const auto path = cat(name, uid);
        createDirectories(path);
        const auto found = find("runtime directory", 0, uid);
        std::filesystem::remove(path);
        EXPECT_EQ(found.grade, Finding::Grade::error);
        EXPECT_EQ(found.message, cat(path, " belongs to user ", ::geteuid(), ", and Podman needs it"));
    }
    EXPECT_EQ(find("runtime directory", 0, uid).grade, Finding::Grade::ok);
}

TEST_F(DoctorsDirectories, LocalFilesystemsAreFine) {
    constexpr long ext4 = 0xEF53;
    EXPECT_EQ(find("run_root", ext4).grade, Finding::Grade::ok);
}

}  // namespace
}  // namespace sarus::podman_hpc::directories_test
