#include "starter/image/unpacked_image.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "starter/entry/credentials.hpp"

namespace sarus::starter::unpacked_image_test {
namespace {

/// A node on which many ranks start containers of one image at the same moment.
class UnpackedImages : public testing::Test {
protected:
    UnpackedImages() {
        builder = directory / "builder";
        replaceFile(builder,
                    "#!/bin/sh\nsleep 0.1\nmkdir \"$3\"\necho unpacked >>" + (directory / "log") + "\n",
                    0755);
        checkErrno(::chmod(builder.c_str(), 0755), "chmod");
    }

    UnpackedImage open(const std::string& image) const {
        const auto file = openFile(image, O_RDONLY);
        return openUnpackedImage(file.get(), image, directory.path(), builder,
                                 Credentials::acquire(Mode::rootless));
    }

    test::TemporaryDirectory directory;
    std::string builder;
};

TEST_F(UnpackedImages, OfRanksWhichWaitForEachOtherAreUnpackedOnce) {
    constexpr int rounds = 20;
    constexpr std::size_t ranks = 6;
    constexpr unsigned int patience = 60;
    ::alarm(patience);  // ends the test if they wait for ever
    for (int round = 0; round < rounds; ++round) {
        const auto image = directory / cat("image-", round);
        replaceFile(image, "content", 0600);
        std::array<std::optional<UnpackedImage>, ranks> images;
        {
            std::vector<std::jthread> threads;
            for (auto& slot : images) {
                threads.emplace_back([&] { slot = open(image); });
            }
        }  // each of them returns while the others still use the image
    }
    ::alarm(0);
    EXPECT_EQ(split(trim(readFile(directory / "log")), '\n').size(), static_cast<std::size_t>(rounds));
}

}  // namespace
}  // namespace sarus::starter::unpacked_image_test
