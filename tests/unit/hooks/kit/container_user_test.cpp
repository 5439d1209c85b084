#include "hooks/kit/container_user.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::hooks::container_user_test {
namespace {

using Mappings = std::vector<oci::RuntimeIdMapping>;

TEST(ContainerUser, IsTheUserOfTheConfigurationWithoutMappings) {
    const auto user = mapContainerUser({1000, 100, {}, {4, 27}}, {}, {});
    EXPECT_EQ(user.uid, 1000U);
    EXPECT_EQ(user.gid, 100U);
    EXPECT_EQ(user.groups, (std::vector<gid_t>{4, 27}));
}

TEST(ContainerUser, IsSeenThroughTheMappingsOfAUserNamespace) {
    const Mappings mappings{{0, 100000, 1000}, {1000, 5000, 1}};
    EXPECT_EQ(mapContainerUser({0, 999, {}, {}}, mappings, mappings).uid, 100000U);
    EXPECT_EQ(mapContainerUser({0, 999, {}, {}}, mappings, mappings).gid, 100999U);
    EXPECT_EQ(mapContainerUser({1000, 1000, {}, {}}, mappings, mappings).uid, 5000U);
}

TEST(ContainerUser, GroupsWithoutAnIdOutsideAreLeftOut) {
    const Mappings mappings{{0, 100000, 10}};
    EXPECT_EQ(mapContainerUser({0, 0, {}, {5, 10, 4294967295U}}, mappings, mappings).groups,
              (std::vector<gid_t>{100005}));
}

TEST(ContainerUser, WithoutAnIdOutsideIsAnError) {
    const Mappings mappings{{0, 100000, 10}};
    EXPECT_THROW(mapContainerUser({10, 0, {}, {}}, mappings, {}), Error);
    EXPECT_THROW(mapContainerUser({0, 10, {}, {}}, {}, mappings), Error);
}

oci::BundleConfig configOf(uid_t uid, const char* uidMappings) {
    return oci::BundleConfig::parse(
        cat(R"({"process":{"user":{"uid":)", uid, R"(}},"linux":{"uidMappings":)", uidMappings, "}}"), "x");
}

TEST(CallersUid, IsWhatTheEngineTellsAtEveryDepthOfUserNamespaces) {
    const auto config = configOf(0, R"([{"containerID":0,"hostID":0,"size":1}])");
    for (const auto* map : {"0 1000 1\n", "0 0 1\n", "1000 0 1\n"}) {
        EXPECT_EQ(callersUid(config, map, "1000", 0), 1000U) << map;
    }
    for (const auto* wrong : {"", "-1", "1x", "4294967296"}) {
        EXPECT_THROW(callersUid(config, "0 0 1\n", wrong, 0), Error) << wrong;
    }
}

TEST(CallersUid, OfAnotherEngineIsThatOfThisProcessOutside) {
    const auto plain = configOf(7, "[]");
    constexpr auto podmans = "         0       1000          1\n         1     100000      65536\n";
    EXPECT_EQ(callersUid(plain, podmans, {}, 0), 1000U);
    EXPECT_EQ(callersUid(plain, podmans, {}, 5), 100004U);
    EXPECT_THROW(callersUid(plain, "0 1000 1\n", {}, 7), Error);
    // podman run --userns=keep-id, outside and inside of the container's namespace
    const auto keepId = configOf(
        1000, R"([{"containerID":0,"hostID":1,"size":1000},{"containerID":1000,"hostID":0,"size":1}])");
    EXPECT_EQ(callersUid(keepId, podmans, {}, 0), 1000U);
    EXPECT_EQ(callersUid(keepId, "0 1 1000\n1000 0 1\n", {}, 0), 1000U);
}

}  // namespace
}  // namespace sarus::hooks::container_user_test
