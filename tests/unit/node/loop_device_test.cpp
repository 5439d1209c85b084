#include "node/loop_device.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/file_io.hpp"

namespace sarus::node::loop_device_test {
namespace {

// Each start would use up a device more.
TEST(FindLoopDevice, AListOfDevicesThatCannotBeReadIsAnError) {
    const auto file = openFile("/proc/self/exe", O_RDONLY);
    EXPECT_FALSE(findLoopDevice(file.get()));
    for (const int after : {0, 1}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(findLoopDevice(file.get()), Error) << after;
    }
}

}  // namespace
}  // namespace sarus::node::loop_device_test
