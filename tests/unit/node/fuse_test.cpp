#include "node/fuse.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"

namespace sarus::node::fuse_test {
namespace {

TEST(Fuse, ADeviceThatCannotBeOpenedIsExplained) {
    const auto device = openFuseDevice();
    EXPECT_EQ(device.whyNot.empty(), static_cast<bool>(device.fd));
    EXPECT_TRUE(device.whyNot.empty() || device.whyNot.starts_with("/dev/fuse cannot be used: "))
        << device.whyNot;
}

TEST(Fuse, TheInstallationsFuseOverlayfsComesBeforeTheSystems) {
    const test::TemporaryDirectory prefix;
    const auto own = prefix / "bin/fuse-overlayfs";
    createDirectories(prefix / "bin");
    replaceFile(own, "", 0755);
    const auto expected = openFuseDevice().fd ? std::optional(own) : std::nullopt;
    EXPECT_EQ(usableFuseOverlayfs(prefix.path()), expected);
    removeTree(own);
    EXPECT_NE(usableFuseOverlayfs(prefix.path()), own);
}

}  // namespace
}  // namespace sarus::node::fuse_test
