// Which image of a layout is taken, and what is refused.

#include "image/build/read/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::layout_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::HasSubstr;

std::string platformText(const std::string& architecture, const std::string& variant = {},
                         const std::string& os = "linux") {
    return cat(R"(,"platform":{"os":")", os, R"(","architecture":")", architecture, '"',
               variant.empty() ? "" : cat(R"(,"variant":")", variant, '"'), '}');
}

/// A layout with one image for each platform; the file "is" tells which it is.
class MultiPlatform : public testing::Test {
protected:
    std::string add(const std::string& architecture, const std::string& variant = {}) {
        const auto name = variant.empty() ? architecture : architecture + "/" + variant;
        return layout.addImage({TarWriter().file("is", name).finish()}, nullptr, architecture,
                               platformText(architecture, variant));
    }
    std::string chosen(const std::string& platform) {
        const auto image = openImage({.source = layout.path(), .platform = oci::parsePlatformName(platform)});
        return test::contentOf(image.layers.at(0)).substr(512, 20).c_str();
    }
    std::string problem(const ImageSelection& selection) {
        try {
            openImage(selection);
        } catch (const Error& error) {
            return cat(error.what(), " | ", error.hint());
        }
        return "no error";
    }
    LayoutWriter layout;
};

TEST_F(MultiPlatform, TheExactPlatformIsTaken) {
    layout.writeIndex(add("amd64") + "," + add("arm64", "v8") + "," + add("arm", "v7") + "," +
                      add("arm", "v6"));
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    EXPECT_EQ(chosen("linux/arm64/v8"), "arm64/v8");
    EXPECT_EQ(chosen("linux/arm/v6"), "arm/v6");
}

TEST_F(MultiPlatform, TheBestVariantThatThePlatformRunsIsTaken) {
    layout.writeIndex(add("arm", "v5") + "," + add("arm", "v7") + "," + add("arm64", "v8") + "," +
                      add("amd64", "v3") + "," + add("amd64"));
    EXPECT_EQ(chosen("linux/arm/v8"), "arm/v7");
    EXPECT_EQ(chosen("linux/arm/v6"), "arm/v5");
    EXPECT_EQ(chosen("linux/arm64"), "arm64/v8");
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    EXPECT_EQ(chosen("linux/amd64/v4"), "amd64/v3");
}

TEST_F(MultiPlatform, JsonThatIsNestedTooDeeplyIsRefused) {
    constexpr std::size_t levels = 1'000'000;
    layout.writeIndex(std::string(levels, '[') + std::string(levels, ']'));
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("index.json is nested deeper than 200 levels"));
}

TEST_F(MultiPlatform, WithoutOurPlatformTheErrorSaysWhatThereIs) {
    layout.writeIndex(add("s390x") + "," + add("arm", "v7"));
    EXPECT_THAT(problem({.source = layout.path(), .platform = oci::parsePlatformName("linux/amd64")}),
                testing::AllOf(HasSubstr("no variant for platform linux/amd64"),
                               HasSubstr("linux/s390x, linux/arm/v7")));
}

TEST_F(MultiPlatform, NestedIndexesAndAttestations) {
    const auto attestation = layout.addImage(
        {TarWriter().file("is", "attestation").finish()}, nullptr, "unknown",
        R"(,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest"})");
    const std::string inner =
        cat(R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)",
            attestation, ',', add("arm64", "v8"), ',', add("amd64"), "]}");
    layout.writeIndex(LayoutWriter::descriptor("application/vnd.oci.image.index.v1+json",
                                               layout.addBlob(inner), inner.size()));
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    const auto byDigest = openImage({.source = layout.path(),
                                     .manifestDigest = oci::Digest(test::sha256(inner)),
                                     .platform = oci::parsePlatformName("linux/arm64")});
    EXPECT_EQ(std::string(test::contentOf(byDigest.layers[0]).substr(512, 8)), "arm64/v8");
}

TEST_F(MultiPlatform, IndexesThatContainThemselvesEnd) {
    // A digest cannot contain itself, so the chain is long instead.
    std::string descriptor = add("amd64");
    for (int i = 0; i < 20; ++i) {
        const std::string index = cat(R"({"schemaVersion":2,"manifests":[)", descriptor, "]}");
        descriptor = LayoutWriter::descriptor("application/vnd.oci.image.index.v1+json",
                                              layout.addBlob(index), index.size());
    }
    layout.writeIndex(descriptor);
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("nested too deeply"));
}

TEST_F(MultiPlatform, AnImageForAnotherPlatformThanAskedForIsRefused) {
    layout.writeIndex(layout.addImage({}, nullptr, "s390x"));
    EXPECT_THAT(problem({.source = layout.path(), .platform = oci::parsePlatformName("linux/amd64")}),
                HasSubstr("is for the platform linux/s390x"));
    EXPECT_EQ(problem({.source = layout.path()}), "no error")
        << "without --platform the user gets what the reference names";
}

TEST_F(MultiPlatform, SeveralImagesWithoutPlatformsNeedAChoice) {
    const auto one = layout.addImage({TarWriter().file("is", "one").finish()});
    const auto two = layout.addImage({TarWriter().file("is", "two").finish()});
    layout.writeIndex(one + "," + two);
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("several images"));
}

TEST_F(MultiPlatform, TheNameDecidesAmongSeveralImages) {
    const auto named = [&](const char* name, const char* content) {
        return layout.addImage({TarWriter().file("is", content).finish()}, nullptr, "amd64",
                               cat(R"(,"annotations":{"org.opencontainers.image.ref.name":")", name, "\"}"));
    };
    layout.writeIndex(named("tool:1", "tool:1  ") + "," + named("docker.io/library/tool:2", "tool:2  ") +
                      "," + named("3", "tool:3  "));
    const auto content = [&](const std::string& name) {
        return test::contentOf(openImage({.source = layout.path(), .name = name}).layers[0]).substr(512, 6);
    };
    EXPECT_EQ(content("load/library/tool:1"), "tool:1");
    EXPECT_EQ(content("tool:2"), "tool:2");
    EXPECT_EQ(content("any:3"), "tool:3") << "a word alone is a tag";
    EXPECT_THAT(problem({.source = layout.path(), .name = "tool:4"}),
                HasSubstr("several images: 3, docker.io/library/tool:2, tool:1"));
}

TEST_F(MultiPlatform, AFileThatIsNoRegularFileIsNotWaitedFor) {
    layout.writeIndex(add("amd64"));
    ASSERT_EQ(::unlink((layout.path() + "/index.json").c_str()), 0);
    ASSERT_EQ(::mkfifo((layout.path() + "/index.json").c_str(), 0600), 0);
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("not a regular file"));
}

TEST_F(MultiPlatform, AManifestThatIsTooLargeIsRefusedUnread) {
    layout.writeIndex(add("amd64"));
    ASSERT_EQ(::truncate((layout.path() + "/index.json").c_str(), 300 << 20), 0);
    EXPECT_THAT(problem({.source = layout.path()}),
                HasSubstr("\"index.json\" has 300.00MB; the limit is 4.00MB"));
}

TEST_F(MultiPlatform, TheBlobsDirectoryMayBeASymlink) {
    layout.writeIndex(add("amd64"));
    ASSERT_EQ(::rename((layout.path() + "/blobs").c_str(), layout.scratch("cache").c_str()), 0);
    ASSERT_EQ(::symlink("../cache", (layout.path() + "/blobs").c_str()), 0);
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
}

TEST_F(MultiPlatform, DamagedMetadataAreErrors) {
    const auto image = layout.addImage({});
    layout.writeIndex(image);
    const auto digest = image.substr(image.find("sha256:"), 71);
    LayoutWriter::write(layout.blobPath(digest), "{}");
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("does not match its digest"));
    for (const std::string text : {"", "[]", "nonsense", "{}", R"({"manifests":{}})", R"({"manifests":[]})",
                                   R"({"manifests":[7]})", R"({"manifests":[{"digest":7}]})",
                                   R"({"manifests":[{"digest":"sha256:../../../etc/passwd","size":1}]})"}) {
        LayoutWriter::write(layout.path() + "/index.json", text);
        EXPECT_NE(problem({.source = layout.path()}), "no error") << text;
    }
    EXPECT_THAT(problem({.source = layout.scratch("nowhere")}), HasSubstr("nowhere: No such file"));
}

TEST_F(MultiPlatform, DeeplyNestedJsonIsSurvived) {
    LayoutWriter::write(layout.path() + "/index.json", std::string(2000000, '['));
    EXPECT_NE(problem({.source = layout.path()}), "no error");
}

TEST_F(MultiPlatform, LayersAndDiffIdsMustCorrespond) {
    const std::string config = R"({"os":"linux","architecture":"amd64","rootfs":{"diff_ids":[]}})";
    const auto layer = layout.addBlob("x");
    layout.writeIndex(layout.addManifest(
        config, LayoutWriter::descriptor("application/vnd.oci.image.layer.v1.tar", layer, 1)));
    EXPECT_THAT(problem({.source = layout.path()}), HasSubstr("has 1 layers, but its configuration names 0"));
}

TEST_F(MultiPlatform, LayerTypes) {
    const auto layer = layout.addBlob("x");
    const std::string config = cat(R"({"rootfs":{"diff_ids":[")", layer, R"("]}})");
    for (const std::string type :
         {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip",
          "application/vnd.oci.image.layer.v1.tar+zstd",
          "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
          "application/vnd.docker.image.rootfs.diff.tar.gzip",
          "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
          "application/vnd.docker.image.rootfs.diff.tar.zstd"}) {
        layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor(type, layer, 1)));
        EXPECT_EQ(problem({.source = layout.path()}), "no error") << type;
    }
    const std::string foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    const auto absent = "sha256:" + std::string(64, 'a');
    layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor(foreign, absent, 1)));
    EXPECT_THAT(problem({.source = layout.path()}),
                testing::StartsWith(
                    cat("Layer ", absent, " is not among the files of the image (type '", foreign, "') | ")));
    const std::string chart = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor(chart, layer, 1)));
    EXPECT_THAT(problem({.source = layout.path()}),
                HasSubstr(cat("This is no container image but '", chart, "'")));
}

}  // namespace
}  // namespace sarus::image::build::layout_test
