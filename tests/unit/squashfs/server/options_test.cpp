#include "squashfs/server/options.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace sarus::squashfs::options_test {
namespace {

Options parse(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (auto& word : words) {
        arguments.push_back(word.data());
    }
    return parseOptions(arguments);
}

TEST(SquashfsServerOptions, AnImageAndAMountPoint) {
    const auto options = parse({"image", "dir"});
    EXPECT_EQ(options.image, "image");
    EXPECT_EQ(options.mountPoint, "dir");
    EXPECT_EQ(options.fuseFd, -1);
    EXPECT_FALSE(options.foreground || options.uid || options.allowOther);
}

TEST(SquashfsServerOptions, OptionsOfMounts) {
    const auto options = parse({"-f", "-o", "uid=3,gid=4,allow_other,ro", "-ocache=24,threads=3,readahead=0",
                                "image", "-o", "metadata_cache=2,ready_fd=9", "/dev/fd/7"});
    EXPECT_TRUE(options.foreground && options.allowOther);
    EXPECT_EQ(options.uid, 3U);
    EXPECT_EQ(options.gid, 4U);
    EXPECT_EQ(options.caches.blocks, std::size_t{24} << 20U);
    EXPECT_EQ(options.caches.metadata, std::size_t{2} << 20U);
    EXPECT_EQ(options.threads, 3U);
    EXPECT_EQ(options.readahead, 0U);
    EXPECT_EQ(options.readyFd, 9);
    EXPECT_EQ(options.fuseFd, 7);
}

TEST(SquashfsServerOptions, NamesBehindTwoDashes) {
    EXPECT_EQ(parse({"--", "-image", "-dir"}).image, "-image");
}

TEST(SquashfsServerOptions, MistakesAreReported) {
    for (const auto& words : std::vector<std::vector<std::string>>{{},
                                                                   {"image"},
                                                                   {"a", "b", "c"},
                                                                   {"-x", "a", "b"},
                                                                   {"a", "b", "-o"},
                                                                   {"-ouid", "a", "b"},
                                                                   {"-ouid=-1", "a", "b"},
                                                                   {"-ouid=4294967295", "a", "b"},
                                                                   {"-ocache=0", "a", "b"},
                                                                   {"-orw", "a", "b"},
                                                                   {"-othreads=65", "a", "b"}}) {
        EXPECT_THROW(parse(words), Error);
    }
}

}  // namespace
}  // namespace sarus::squashfs::options_test
