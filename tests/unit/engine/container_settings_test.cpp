#include "engine/container_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oci/runtime/mount_request.hpp"

namespace sarus::engine::container_settings_test {
namespace {

using testing::IsEmpty;

/// Of a request for an image whose entrypoint does not run.
LaunchRequest request() {
    LaunchRequest made;
    made.entrypoint.emplace();
    return made;
}

/// What a container that was started by one request lacks for another.
std::string differences(const LaunchRequest& started, const LaunchRequest& asked) {
    return describeDifferences(settingsOf(started), settingsOf(asked));
}

TEST(ContainerSettings, WhatIsNotAskedForIsAccepted) {
    auto started = request();
    started.mounts = {oci::parseVolume("/a:/b", "", "")};
    started.readonlyRoot = true;
    started.mpi = true;
    EXPECT_THAT(differences(started, request()), IsEmpty());
    EXPECT_THAT(differences(started, started), IsEmpty());
}

TEST(ContainerSettings, EachThatIsMissingIsNamed) {
    auto asked = request();
    asked.mounts = {oci::parseVolume("/a:/b/", "", ""), oci::parseVolume("/c:/d:ro", "", "")};
    asked.devices = {"/dev/x"};
    asked.annotations = {"key=value"};
    asked.mpiType = "mpich3";
    asked.glibc = true;
    asked.ssh = true;
    asked.init = true;
    asked.entrypoint.reset();
    asked.privateNetwork = true;
    asked.privateIpc = true;
    asked.privateUts = true;
    asked.readonlyRoot = true;
    asked.remapRoot = true;
    EXPECT_EQ(differences(request(), asked),
              "C library of the host: no instead of yes; IPC of its own: no instead of yes; "
              "MPI library of the host: no instead of yes; SSH: no instead of yes; "
              "annotation key: none instead of value; device /dev/x: no instead of yes; "
              "entrypoint of the image: no instead of yes; host name of its own: no instead of yes; "
              "init process: no instead of yes; mount on /b: none instead of /a; "
              "mount on /d: none instead of /c (read-only); network of its own: no instead of yes; "
              "process ids of its own: no instead of yes; read-only root filesystem: no instead of yes; "
              "root in the container: no instead of yes; type of the MPI library: none instead of mpich3");
}

TEST(ContainerSettings, WhatIsOtherwiseIsShownAsItIs) {
    auto started = request();
    started.mounts = {oci::parseVolume("/a:/b", "", "")};
    started.mpiType = "openmpi";
    auto asked = started;
    asked.mounts = {oci::parseVolume("/a:/b:ro", "", "")};
    asked.mpiType = "mpich3";
    EXPECT_EQ(differences(started, asked),
              "mount on /b: /a instead of /a (read-only); "
              "type of the MPI library: openmpi instead of mpich3");
    asked.mpiType.reset();
    asked.mpi = true;
    asked.mounts = {oci::parseVolume("/x/../a/:/b/", "", "")};
    EXPECT_THAT(differences(started, asked), IsEmpty()) << "any type; the same paths";
}

TEST(ContainerSettings, TheLastMountOfAPlaceCounts) {
    auto started = request();
    started.mounts = {oci::parseVolume("/a:/b", "", ""), oci::parseVolume("umount:/b", "", "")};
    auto asked = request();
    asked.mounts = {oci::parseVolume("/a:/b", "", "")};
    EXPECT_EQ(differences(started, asked), "mount on /b: none instead of /a");
    EXPECT_EQ(differences(asked, started), "mount on /b: /a instead of none");
    EXPECT_THAT(differences(request(), started), IsEmpty());
}

TEST(ContainerSettings, FlagsCanBeUnwanted) {
    auto started = request();
    started.readonlyRoot = true;
    EXPECT_EQ(describeDifferences(settingsOf(started), {{std::string(readonlyRootSetting), ""},
                                                        {std::string(remapRootSetting), ""}}),
              "read-only root filesystem: yes instead of no");
}

TEST(ContainerSettings, NothingOfAUserReachesTheTerminal) {
    EXPECT_EQ(describeDifferences({{"a\n", "\x1b[2J"}}, {{"a\n", "\n"}}).find_first_of("\n\x1b"),
              std::string::npos);
}

}  // namespace
}  // namespace sarus::engine::container_settings_test
