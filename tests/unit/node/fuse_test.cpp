#include "node/fuse.hpp"

#include <gtest/gtest.h>

namespace sarus::node::fuse_test {
namespace {

TEST(Fuse, ADeviceThatCannotBeOpenedIsExplained) {
    const auto device = openFuseDevice();
    EXPECT_EQ(device.whyNot.empty(), static_cast<bool>(device.fd));
    EXPECT_TRUE(device.whyNot.empty() || device.whyNot.starts_with("/dev/fuse cannot be used: "))
        << device.whyNot;
    if (!device.fd) {
        EXPECT_EQ(usableFuseOverlayfs(), std::nullopt);
    }
}

}  // namespace
}  // namespace sarus::node::fuse_test
