#include "hooks/kit/container_user.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::hooks {
namespace {

using Mappings = std::vector<oci::BundleIdMapping>;

TEST(ContainerUser, IsTheUserOfTheConfigurationWithoutMappings) {
    const auto user = mapContainerUser({1000, 100, {4, 27}}, {}, {});
    EXPECT_EQ(user.uid, 1000U);
    EXPECT_EQ(user.gid, 100U);
    EXPECT_EQ(user.groups, (std::vector<gid_t>{4, 27}));
}

TEST(ContainerUser, IsSeenThroughTheMappingsOfAUserNamespace) {
    const Mappings mappings{{0, 100000, 1000}, {1000, 5000, 1}};
    EXPECT_EQ(mapContainerUser({0, 999, {}}, mappings, mappings).uid, 100000U);
    EXPECT_EQ(mapContainerUser({0, 999, {}}, mappings, mappings).gid, 100999U);
    EXPECT_EQ(mapContainerUser({1000, 1000, {}}, mappings, mappings).uid, 5000U);
}

TEST(ContainerUser, GroupsWithoutAnIdOutsideAreLeftOut) {
    const Mappings mappings{{0, 100000, 10}};
    EXPECT_EQ(mapContainerUser({0, 0, {5, 10, 4294967295U}}, mappings, mappings).groups, (std::vector<gid_t>{100005}));
}

TEST(ContainerUser, WithoutAnIdOutsideIsAnError) {
    const Mappings mappings{{0, 100000, 10}};
    EXPECT_THROW(mapContainerUser({10, 0, {}}, mappings, {}), Error);
    EXPECT_THROW(mapContainerUser({0, 10, {}}, {}, mappings), Error);
}

}  // namespace
}  // namespace sarus::hooks
