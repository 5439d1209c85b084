#include "podman_hpc/mount_program/squash_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::squash_layer_test {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// A store with the layers "one" (link ONE) and "two" (link TWO).
class FindSquashLayer : public ::testing::Test {
protected:
    FindSquashLayer() {
        fs::create_directories(store + "/l");
        for (const auto& [id, link] : {std::pair("one", "ONE"), std::pair("two", "TWO")}) {
            fs::create_directories(cat(store, '/', id, "/diff"));
            replaceFile(cat(store, '/', id, "/link"), link, 0644);
            fs::create_directory_symlink(cat("../", id, "/diff"), cat(store, "/l/", link));
        }
    }

    std::optional<SquashLayer> find(std::vector<std::string> lower) {
        for (auto& layer : lower) {
            layer = cat(store, '/', layer);
        }
        return findSquashLayer(
            {.lower = std::move(lower), .upper = "", .work = "", .further = {}, .target = "/m"});
    }

    /// The head of a squashfs of 4096 bytes.
    void addSquash(const std::string& name) {
        std::string image(4096, '\0');
        image.replace(0, 4, "hsqs");
        image[12] = 0;
        image[14] = 2;   // block size 131072
        image[20] = 5;   // lz4
        image[22] = 17;  // its logarithm
        image[28] = 4;   // version
        image[41] = 16;  // bytes used: 4096
        replaceFile(cat(store, "/l/", name, ".squash"), image, 0644);
    }

    const test::TemporaryDirectory directory;
    std::string store = directory / "overlay";
};

TEST_F(FindSquashLayer, BesideTheLink) {
    EXPECT_FALSE(find({"l/ONE", "l/TWO"}));
    addSquash("TWO");
    const auto found = find({"l/ONE", "l/TWO"});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->position, 1U);
    EXPECT_THAT(found->path, EndsWith("/l/TWO.squash"));
}

TEST_F(FindSquashLayer, TheTopmostHidesTheOthers) {
    addSquash("ONE");
    addSquash("TWO");
    EXPECT_EQ(find({"l/ONE", "l/TWO"})->position, 0U);
}

TEST_F(FindSquashLayer, OfALayersDirectory) {
    addSquash("ONE");
    const auto found = find({"one/diff", "one/empty"});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->position, 0U);
    EXPECT_FALSE(find({"two/diff", "two/empty"}));
}

TEST_F(FindSquashLayer, LinksAreNames) {
    addSquash("ONE");
    for (const auto* const link : {"../l/ONE", "", "one", "ONE/../ONE"}) {
        replaceFile(store + "/two/link", link, 0644);
        EXPECT_FALSE(find({"two/diff"})) << link;
    }
    fs::remove(store + "/two/link");
    ASSERT_EQ(::mkfifo((store + "/two/link").c_str(), 0644), 0);
    EXPECT_FALSE(find({"two/diff"}));
}

TEST_F(FindSquashLayer, RefusesWhatIsNoSquashFile) {
    const auto messageOf = [&] {
        try {
            find({"l/ONE"});
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const auto file = store + "/l/ONE.squash";
    addSquash("TWO");
    fs::create_symlink("TWO.squash", file);
    EXPECT_THAT(messageOf(), HasSubstr("it is a symbolic link"));
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0644), 0);
    EXPECT_THAT(messageOf(), HasSubstr("ONE.squash"));
    fs::remove(file);
    fs::create_directory(file);
    EXPECT_THAT(messageOf(), HasSubstr("ONE.squash"));
    fs::remove(file);
    replaceFile(file, "no image", 0644);
    EXPECT_THAT(messageOf(), HasSubstr("ONE.squash"));
}

}  // namespace
}  // namespace sarus::podman_hpc::squash_layer_test
