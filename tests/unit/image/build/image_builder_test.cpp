// The conversion as a whole: reproducible bytes, limits, failures that leave nothing behind.

#include "image/build/image_builder.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "base/temporary_directory.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/store/conversions.hpp"
#include "image/store/file_digest.hpp"
#include "squashfs/identity.hpp"

namespace sarus::image::build::image_builder_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::HasSubstr;

std::string digestOfFile(const std::string& path) {
    const auto file = openFile(path, O_RDONLY);
    return fsverityDigestOfFile(file.get(), path);
}

std::string noise(std::size_t size, unsigned int seed) {
    std::mt19937 random(seed);
    std::string data(size, '\0');
    for (std::size_t at = 0; at < size; at += sizeof(std::uint32_t)) {
        const auto bytes = static_cast<std::uint32_t>(random()) & 0x3F3F3F3FU;
        std::memcpy(&data[at], &bytes, std::min(sizeof bytes, size - at));
    }
    return data;
}

std::vector<std::string> layersOfManySizes() {
    TarWriter lower;
    TarWriter upper;
    for (unsigned int i = 0; i < 120; ++i) {
        lower.file(cat("d", i % 7, "/f", i), noise(i * i * 171 % 400000, i % 100));
        upper.file(cat("d", i % 3, "/f", i * 2), noise(i * 311, i));
    }
    upper.file("d1/.wh.f1", "").hardLink("link", "d1/f8");
    return {lower.finish(), upper.finish()};
}

std::string problemOf(const BuildRequest& request) {
    try {
        buildImage(request);
    } catch (const Error& error) {
        return cat(error.what(), " | ", error.hint());
    }
    return "no error";
}

TEST(ImageBuilder, TheBytesDoNotDependOnTheNumberOfThreads) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage(layersOfManySizes()));
    auto request = test::requestFor(layout, layout.scratch("out"));
    std::string expected;
    for (const unsigned int workers : {1U, 2U, 4U, 16U}) {
        request.squashfs.workers = workers;
        const auto result = buildImage(request);
        expected = expected.empty() ? result.squashfsDigest : expected;
        EXPECT_EQ(result.squashfsDigest, expected) << workers;
    }
}

TEST(ImageBuilder, OnlyACompleteDirectoryStandsForItsLayers) {
    const sarus::test::TemporaryDirectory scratch;
    createDirectories(scratch / "layer");
    replaceFile(scratch / "layer/one", "1", 0644);
    BuildRequest request;
    request.directories = {scratch / "layer"};
    request.layersId = layersIdOf({"sha256:" + std::string(64, 'a')});
    request.outputPath = scratch / "out";
    request.progress.style = ProgressStyle::none;
    const auto idWith = [&](const std::string& lines) {
        replaceFile(scratch / "tar-split.gz", test::gzip(lines), 0644);
        request.promises = {scratch / "tar-split.gz"};
        return buildImage(request).layersId;
    };
    const std::string one = R"({"type":1,"name":"one","size":1,"position":1})"
                            "\n";
    EXPECT_EQ(idWith(one), request.layersId);
    EXPECT_EQ(idWith(one + R"({"type":1,"name":"other","size":1,"position":2})"
                           "\n"),
              "");
    EXPECT_EQ(idWith("damaged"), "");
}

TEST(ImageBuilder, TheBytesDoNotDependOnTheLayersCompression) {
    LayoutWriter layout;
    std::string expected;
    for (const auto pack : {test::gzip, test::zstd}) {
        layout.writeIndex(layout.addImage(layersOfManySizes(), pack));
        const auto result = buildImage(test::requestFor(layout, layout.scratch("out")));
        expected = expected.empty() ? result.squashfsDigest : expected;
        EXPECT_EQ(result.squashfsDigest, expected);
    }
}

TEST(ImageBuilder, TheOwnerIsAnInputOfTheBytes) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({TarWriter().file("a", "x").finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    const auto first = buildImage(request).squashfsDigest;
    request.owner->uid = 77;
    EXPECT_NE(buildImage(request).squashfsDigest, first);
}

TEST(ImageBuilder, ReportsDigestSizeAndEntriesOfTheFile) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({TarWriter().file("d/a", "x").file("b", "y").finish()}));
    const auto result = buildImage(test::requestFor(layout, layout.scratch("out")));
    const auto bytes = readFile(layout.scratch("out"));
    EXPECT_EQ(result.squashfsDigest, digestOfFile(layout.scratch("out")));
    EXPECT_EQ(result.squashfsSize, bytes.size());
    EXPECT_EQ(bytes.size() % 4096, 0U);
    EXPECT_EQ(result.entries, 3U);
}

TEST(ImageBuilder, TheFileBearsAnIdentityThatItsContentsDecide) {
    LayoutWriter layout;
    const auto identityOf = [&](const std::string& content, const std::string& compressor) {
        layout.writeIndex(layout.addImage({TarWriter().file("a", content).finish()}));
        auto request = test::requestFor(layout, layout.scratch("out"));
        request.squashfs.compressor = compressor;
        const auto result = buildImage(request);
        EXPECT_EQ(result.squashfsDigest, digestOfFile(layout.scratch("out")));
        return squashfs::squashfsIdentity(openFile(layout.scratch("out"), O_RDONLY).get(), "out");
    };
    for (const std::string compressor : {"zstd", "xz", "lz4"}) {  // the last one always writes options
        const auto identity = identityOf("1", compressor);
        EXPECT_EQ(identity.size(), 32U);
        EXPECT_EQ(identityOf("1", compressor), identity);
        EXPECT_NE(identityOf("2", compressor), identity);
    }
}

TEST(ImageBuilder, TheDigestIsThatOfTheFileWhateverWasWrittenTwice) {
    LayoutWriter layout;
    const auto large = noise(8'000'000, 1);
    // Equal contents are written and then overwritten by what comes next.
    layout.writeIndex(layout.addImage({TarWriter()
                                           .file("a", large)
                                           .file("b", large)
                                           .file("c", "c")
                                           .file("d", noise(400'000, 2))
                                           .file("e", large)
                                           .finish(),
                                       layersOfManySizes().front()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    for (const unsigned int workers : {1U, 3U}) {
        for (const bool padding : {true, false}) {
            request.squashfs.workers = workers;
            request.squashfs.padding = padding;
            const auto result = buildImage(request);
            EXPECT_EQ(result.squashfsDigest, digestOfFile(layout.scratch("out")))
                << workers << ' ' << padding;
        }
    }
}

TEST(ImageBuilder, EqualContentsAreStoredOnce) {
    LayoutWriter layout;
    const auto content = noise(3000000, 1);
    layout.writeIndex(layout.addImage({TarWriter().file("a", content).finish()}));
    const auto once = buildImage(test::requestFor(layout, layout.scratch("out"))).squashfsSize;
    layout.writeIndex(
        layout.addImage({TarWriter().file("a", content).file("b", content).file("c/d", content).finish()}));
    EXPECT_LT(buildImage(test::requestFor(layout, layout.scratch("out"))).squashfsSize, once + 8192);
    EXPECT_EQ(test::readTree(layout.scratch("out")).at("c/d").content, content);
}

TEST(ImageBuilder, FilesThatAreEqualInPartKeepTheirOwnContent) {
    const auto blocks = noise(5 * 131072, 1);
    const auto large = noise(30'000'000, 2);  // more than what is written at once
    const std::map<std::string, std::string> files{
        {"a", blocks + "end"},
        {"b", blocks + "END"},                      // other end, same size
        {"c", blocks.substr(0, 2 * 131072)},        // begins like the others
        {"d", blocks.substr(131072) + "end"},       // ends like the first
        {"e", noise(5 * 131072, 3) + "end"},        // same sizes of all blocks
        {"f", std::string(131072, '\0') + blocks},  // the same behind a hole
        {"large1", large + "1"},
        {"large2", large + "2"},
        {"small", "end"},
    };
    TarWriter tar;
    for (const auto& [name, content] : files) {
        tar.file(name, content);
    }
    tar.file("z-last", large);
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({tar.finish()}));
    const auto size = buildImage(test::requestFor(layout, layout.scratch("out"))).squashfsSize;
    const auto tree = test::readTree(layout.scratch("out"));
    for (const auto& [name, content] : files) {
        EXPECT_TRUE(tree.at(name).content == content) << name;
    }
    EXPECT_TRUE(tree.at("z-last").content == large);
    struct stat status {};
    ASSERT_EQ(::stat(layout.scratch("out").c_str(), &status), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), size)
        << "what was given up at the end must not stay";
    EXPECT_LT(size, 28'000'000U) << "6 of 8 bits are random: the large content is there once";
}

TEST(ImageBuilder, HiddenContentsAreNotStored) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage(
        {TarWriter()
             .file("a", noise(2000000, 1))
             .file("d/b", noise(2000000, 2))
             .file("e/c", noise(2000000, 3))
             .finish(),
         TarWriter().file("a", "new").file(".wh.d", "").file("e/.wh..wh..opq", "").finish()}));
    EXPECT_LT(buildImage(test::requestFor(layout, layout.scratch("out"))).squashfsSize, 8193U);
}

TEST(ImageBuilder, HolesAndZerosTakeNoSpace) {
    TarWriter tar;
    tar.addPax(
        'x',
        {{"GNU.sparse.size", "50000000"}, {"GNU.sparse.name", "hole"}, {"GNU.sparse.map", "30000000,3"}});
    tar.addRaw({.name = "hole", .content = "abc"}, 3);
    tar.file("zeros", std::string(5000000, '\0'));
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({tar.finish()}));
    EXPECT_LT(buildImage(test::requestFor(layout, layout.scratch("out"))).squashfsSize, 8193U);
    const auto tree = test::readTree(layout.scratch("out"));
    EXPECT_EQ(tree.at("hole").content.size(), 50000000U);
    EXPECT_EQ(tree.at("hole").content.substr(30000000, 4), std::string("abc\0", 4));
    EXPECT_EQ(tree.at("zeros").content, std::string(5000000, '\0'));
}

TEST(ImageBuilder, BlocksThatAreStoredAsTheyAreKeepTheirContent) {
    std::mt19937 random(5);
    std::map<std::string, std::string> files;
    for (const std::size_t size : {3'000'000U, 131'072U, 500'000U, 262'144U, 131'073U, 40'000U, 2'000'000U}) {
        std::string data(size, '\0');
        std::generate(data.begin(), data.end(), [&] { return static_cast<char>(random()); });
        files.emplace(cat("random", size), data);
        files.emplace(cat("zeros and random", size), std::string(140'000, '\0') + data);
        files.emplace(cat("noise and random", size), noise(300'000, 9) + data);
    }
    TarWriter tar;
    for (const auto& [name, content] : files) {
        tar.file(name, content);
    }
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({tar.finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    const auto digest = buildImage(request).squashfsDigest;
    const auto tree = test::readTree(layout.scratch("out"));
    for (const auto& [name, content] : files) {
        EXPECT_TRUE(tree.at(name).content == content) << name;
    }
    request.squashfs.memory = 1;
    EXPECT_EQ(buildImage(request).squashfsDigest, digest) << "how much may wait does not change the bytes";
}

TEST(ImageBuilder, FilesOfAllSizesAroundTheBlockSize) {
    TarWriter tar;
    for (const std::size_t size : {1U, 511U, 512U, 131071U, 131072U, 131073U, 262144U, 500000U}) {
        tar.file(cat("f", size), noise(size, static_cast<unsigned int>(size)));
    }
    const auto tree = test::convert({tar.finish()});
    for (const auto& [name, seen] : tree) {
        if (name != "/") {
            EXPECT_EQ(seen.content,
                      noise(seen.content.size(), static_cast<unsigned int>(seen.content.size())))
                << name;
            EXPECT_EQ(name, cat("f", seen.content.size()));
        }
    }
}

TEST(ImageBuilder, WithoutXattrsNoneAreStored) {
    LayoutWriter layout;
    layout.writeIndex(
        layout.addImage({TarWriter().add({.name = "f", .pax = {{"SCHILY.xattr.user.x", "v"}}}).finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    request.squashfs = parseMksquashfsOptions("-no-xattrs");
    buildImage(request);
    EXPECT_TRUE(test::readTree(layout.scratch("out")).at("f").xattrs.empty());
}

TEST(ImageBuilder, TheEntryLimitHolds) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage(
        {TarWriter().file("a", "").file("b", "").finish(), TarWriter().file("a", "").finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    request.limits.entries = 3;
    EXPECT_EQ(problemOf(request), "no error");
    request.limits.entries = 2;
    EXPECT_THAT(problemOf(request), HasSubstr("more than 2 entries"));
    EXPECT_FALSE(pathExists(layout.scratch("out"))) << "a failed conversion leaves no output";
}

TEST(ImageBuilder, TheSizeLimitHolds) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({TarWriter().file("zeros", std::string(20U << 20U, '\0')).finish()}));
    auto request = test::requestFor(layout, layout.scratch("out"));
    request.limits.unpackedBytes = 10U << 20U;
    EXPECT_THAT(problemOf(request), HasSubstr("unpack to more than 10.00MB"));
    EXPECT_FALSE(pathExists(layout.scratch("out")));
}

TEST(ImageBuilder, DamageInAnyLayerLeavesNoOutput) {
    for (const std::size_t damaged : {0U, 1U}) {
        LayoutWriter layout;
        layout.writeIndex(layout.addImage(layersOfManySizes()));
        auto request = test::requestFor(layout, layout.scratch("out"));
        const auto path = cat(layout.path(), '/', request.layers[damaged].name);
        auto blob = readFile(path);
        blob[blob.size() / 2] = static_cast<char>(blob[blob.size() / 2] ^ 1);
        LayoutWriter::write(path, blob);
        EXPECT_NE(problemOf(request), "no error");
        EXPECT_FALSE(pathExists(layout.scratch("out")));
    }
}

TEST(ImageBuilder, AMissingBlobIsNamed) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage(layersOfManySizes()));
    auto request = test::requestFor(layout, layout.scratch("out"));
    ASSERT_EQ(::unlink(cat(layout.path(), '/', request.layers[0].name).c_str()), 0);
    EXPECT_THAT(problemOf(request), HasSubstr(request.layers[0].name));
}

TEST(ImageBuilder, AFileSizeLimitIsAClearErrorAndLeavesNoOutput) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({TarWriter().file("a", noise(3000000, 1)).finish()}));
    const auto request = test::requestFor(layout, layout.scratch("out"));
    struct rlimit old {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto oldHandler = ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 500000, old.rlim_max };
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto problem = problemOf(request);
    ::setrlimit(RLIMIT_FSIZE, &old);
    ::signal(SIGXFSZ, oldHandler);
    EXPECT_THAT(problem, testing::AllOf(HasSubstr("File too large"), HasSubstr("Free some space")));
    EXPECT_FALSE(pathExists(layout.scratch("out")));
}

TEST(ImageBuilder, AnOutputThatIsASymlinkIsRefused) {
    LayoutWriter layout;
    layout.writeIndex(layout.addImage({}));
    LayoutWriter::write(layout.scratch("precious"), "data");
    ASSERT_EQ(::symlink(layout.scratch("precious").c_str(), layout.scratch("out").c_str()), 0);
    EXPECT_NE(problemOf(test::requestFor(layout, layout.scratch("out"))), "no error");
    EXPECT_EQ(readFile(layout.scratch("precious")), "data");
}

TEST(Progress, KnowsItsStyles) {
    const auto log = openFile("/dev/null", O_WRONLY);
    EXPECT_EQ(parseProgressStyle("none", log.get()), ProgressStyle::none);
    EXPECT_EQ(parseProgressStyle("plain", log.get()), ProgressStyle::plain);
    EXPECT_EQ(parseProgressStyle("auto", log.get()), ProgressStyle::plain);
    EXPECT_THROW(parseProgressStyle("fancy", log.get()), Error);
    const auto terminal = openFile("/dev/ptmx", O_RDWR | O_NOCTTY);
    EXPECT_EQ(parseProgressStyle("auto", terminal.get()), ProgressStyle::terminal);
}

}  // namespace
}  // namespace sarus::image::build::image_builder_test
