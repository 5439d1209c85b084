#include "starter/image/image_digest.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/small_files.hpp"
#include "starter/system_calls.hpp"

namespace sarus::starter::image_digest_test {
namespace {

TEST(ImageDigest, IsThatOfTheKernelIfTheFileHasFsVerity) {
    const test::TemporaryDirectory directory;
    test::makeSquashfsFile(directory / "image");
    const auto image = openFile(directory / "image", O_RDONLY);
    test::SystemCalls calls(directory.path());
    calls.enableVerity(cat("\x01\xAB", std::string(30, '\xFF')));
    EXPECT_EQ(fixedDigest(image.get(), "IMAGE"), cat("fsverity-sha256:01ab", std::string(60, 'f')));
}

TEST(ImageDigest, IsNoneForAFileThatItsOwnerCanChange) {
    const test::TemporaryDirectory directory;
    test::makeSquashfsFile(directory / "image");
    const auto image = openFile(directory / "image", O_RDONLY);
    EXPECT_EQ(fixedDigest(image.get(), "IMAGE"), std::nullopt);
}

}  // namespace
}  // namespace sarus::starter::image_digest_test
