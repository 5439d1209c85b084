#include "hooks/kit/container_user.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hooks {
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

TEST(NodeUid, IsTheOneOutsideOfTheUserNamespace) {
    EXPECT_EQ(nodeUid(1000, "         0          0 4294967295\n"), 1000U);
    EXPECT_EQ(nodeUid(0, "         0       1000          1\n         1     100000      65536\n"), 1000U);
    EXPECT_EQ(nodeUid(5, "         0       1000          1\n         1     100000      65536\n"), 100004U);
    EXPECT_THROW(nodeUid(7, "0 1000 1\n"), Error);
}

}  // namespace
}  // namespace sarus::hooks
