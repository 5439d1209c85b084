#include "hook_contracts/mount.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hook_contracts::mount_test {
namespace {

std::string errorOf(const std::vector<std::string>& arguments) {
    try {
        parseMountRequests(arguments);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(MountHookRequests, AreThoseOfTheCommandLineOfRun) {
    const auto requests = parseMountRequests(std::vector<std::string>{
        "--mount=type=bind,src=/usr/lib/libexample.so.1,dst=/usr/local/lib/libexample.so.1", "--mount",
        "type=bind,src=/etc/configs,dst=/etc/host_configs,readonly", "--device=/dev/example:rw", "--device",
        "/dev/a:/dev/b:r"});
    ASSERT_EQ(requests.mounts.size(), 2U);
    EXPECT_EQ(requests.mounts[0].request.source, "/usr/lib/libexample.so.1");
    EXPECT_EQ(requests.mounts[0].destination("/unused"), "/usr/local/lib/libexample.so.1");
    EXPECT_FALSE(requests.mounts[0].request.readonly);
    EXPECT_TRUE(requests.mounts[1].request.readonly);
    ASSERT_EQ(requests.devices.size(), 2U);
    EXPECT_EQ(requests.devices[0].destination, "/dev/example");
    EXPECT_EQ(requests.devices[0].access, "rw");
    EXPECT_EQ(requests.devices[1].destination, "/dev/b");
    EXPECT_EQ(requests.devices[1].access, "r");
}

TEST(MountHookRequests, NoneIsNoError) {
    const auto requests = parseMountRequests({});
    EXPECT_TRUE(requests.mounts.empty());
    EXPECT_TRUE(requests.devices.empty());
}

TEST(MountHookRequests, WildcardIsReplacedInTheDestination) {
    const auto requests = parseMountRequests(std::vector<std::string>{
        "--mount=type=bind,src=/lib/libgnix-fi.so,dst=<FI_PROVIDER_PATH>/libgnix-fi.so"});
    ASSERT_TRUE(requests.mounts[0].hasWildcard);
    EXPECT_EQ(requests.mounts[0].destination("/usr/lib64/libfabric"), "/usr/lib64/libfabric/libgnix-fi.so");
}

TEST(MountHookRequests, ValueOfTheWildcardIsAPathAndNeverAnOption) {
    const auto requests =
        parseMountRequests(std::vector<std::string>{"--mount=type=bind,src=/a,dst=<FI_PROVIDER_PATH>"});
    EXPECT_EQ(requests.mounts[0].destination("/x,src=/etc/shadow,readonly"), "/x,src=/etc/shadow,readonly");
    EXPECT_EQ(requests.mounts[0].request.source, "/a");
    EXPECT_EQ(requests.mounts[0].destination("/<FI_PROVIDER_PATH>"), "/<FI_PROVIDER_PATH>");
}

TEST(MountHookRequests, ContainerHasNoSayInSources) {
    EXPECT_NE(errorOf({"--mount=type=bind,src=<FI_PROVIDER_PATH>/x,dst=/x"})
                  .find("may stand in the destination only"),
              std::string::npos);
}

TEST(MountHookRequests, ErrorsAreThoseOfTheEngine) {
    EXPECT_EQ(errorOf({"--mount=xyz"}), "Invalid mount request 'xyz': 'type' must be specified");
    EXPECT_EQ(errorOf({"--device=:rw"}), "Invalid device request ':rw': detected empty host device path");
    EXPECT_EQ(errorOf({"--mount"}), "The option --mount needs a value");
    EXPECT_EQ(errorOf({"--mounts=type=bind,src=/a,dst=/b"}),
              "Unknown argument --mounts=type=bind,src=/a,dst=/b");
    EXPECT_EQ(errorOf({"/dev/x"}), "Unknown argument /dev/x");
}

}  // namespace
}  // namespace sarus::hook_contracts::mount_test
