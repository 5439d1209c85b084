// Which image of a layout is taken, and what is refused.

#include "image/build/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::HasSubstr;

std::string platformText(const std::string& architecture, const std::string& variant = {}, const std::string& os = "linux") {
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
        const auto image = openImage({.layoutDirectory = layout.path(), .platform = Platform::parse(platform)});
        return readFile(image.layers.at(0).path).substr(512, 20).c_str();
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
    layout.writeIndex(add("amd64") + "," + add("arm64", "v8") + "," + add("arm", "v7") + "," + add("arm", "v6"));
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    EXPECT_EQ(chosen("linux/arm64/v8"), "arm64/v8");
    EXPECT_EQ(chosen("linux/arm/v6"), "arm/v6");
}

TEST_F(MultiPlatform, TheBestVariantThatThePlatformRunsIsTaken) {
    layout.writeIndex(add("arm", "v5") + "," + add("arm", "v7") + "," + add("arm64", "v8") + "," + add("amd64", "v3") + "," +
                      add("amd64"));
    EXPECT_EQ(chosen("linux/arm/v8"), "arm/v7");
    EXPECT_EQ(chosen("linux/arm/v6"), "arm/v5");
    EXPECT_EQ(chosen("linux/arm64"), "arm64/v8");
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    EXPECT_EQ(chosen("linux/amd64/v4"), "amd64/v3");
}

TEST_F(MultiPlatform, WithoutOurPlatformTheErrorSaysWhatThereIs) {
    layout.writeIndex(add("s390x") + "," + add("arm", "v7"));
    EXPECT_THAT(problem({.layoutDirectory = layout.path(), .platform = Platform::parse("linux/amd64")}),
                testing::AllOf(HasSubstr("nothing for the platform linux/amd64"), HasSubstr("linux/s390x, linux/arm/v7")));
}

TEST_F(MultiPlatform, NestedIndexesAndAttestations) {
    const auto attestation = layout.addImage(
        {TarWriter().file("is", "attestation").finish()}, nullptr, "unknown",
        R"(,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest"})");
    const std::string inner = cat(R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[)",
                                  attestation, ',', add("arm64", "v8"), ',', add("amd64"), "]}");
    layout.writeIndex(LayoutWriter::descriptor("application/vnd.oci.image.index.v1+json", layout.addBlob(inner), inner.size()));
    EXPECT_EQ(chosen("linux/amd64"), "amd64");
    const auto byDigest = openImage(
        {.layoutDirectory = layout.path(), .manifestDigest = test::sha256(inner), .platform = Platform::parse("linux/arm64")});
    EXPECT_EQ(std::string(readFile(byDigest.layers[0].path).substr(512, 8)), "arm64/v8");
}

TEST_F(MultiPlatform, IndexesThatContainThemselvesEnd) {
    // A digest cannot contain itself, so the chain is long instead.
    std::string descriptor = add("amd64");
    for (int i = 0; i < 20; ++i) {
        const std::string index = cat(R"({"schemaVersion":2,"manifests":[)", descriptor, "]}");
        descriptor = LayoutWriter::descriptor("application/vnd.oci.image.index.v1+json", layout.addBlob(index), index.size());
    }
    layout.writeIndex(descriptor);
    EXPECT_THAT(problem({.layoutDirectory = layout.path()}), HasSubstr("nested too deeply"));
}

TEST_F(MultiPlatform, AnImageForAnotherPlatformThanAskedForIsRefused) {
    layout.writeIndex(layout.addImage({}, nullptr, "s390x"));
    EXPECT_THAT(problem({.layoutDirectory = layout.path(), .platform = Platform::parse("linux/amd64")}),
                HasSubstr("is for the platform linux/s390x"));
    EXPECT_EQ(problem({.layoutDirectory = layout.path()}), "no error")
        << "without --platform the user gets what the reference names";
}

TEST_F(MultiPlatform, SeveralImagesWithoutPlatformsNeedAChoice) {
    const auto one = layout.addImage({TarWriter().file("is", "one").finish()});
    const auto two = layout.addImage({TarWriter().file("is", "two").finish()});
    layout.writeIndex(one + "," + two);
    EXPECT_THAT(problem({.layoutDirectory = layout.path()}), HasSubstr("several images"));
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
    EXPECT_THAT(problem({.layoutDirectory = layout.path()}), HasSubstr("does not match its digest"));
    for (const std::string text :
         {"", "[]", "nonsense", "{}", R"({"manifests":{}})", R"({"manifests":[]})", R"({"manifests":[7]})",
          R"({"manifests":[{"digest":7}]})", R"({"manifests":[{"digest":"sha256:../../../etc/passwd","size":1}]})"}) {
        LayoutWriter::write(layout.path() + "/index.json", text);
        EXPECT_NE(problem({.layoutDirectory = layout.path()}), "no error") << text;
    }
    EXPECT_THAT(problem({.layoutDirectory = layout.scratch("nowhere")}), HasSubstr("index.json: No such file"));
}

TEST_F(MultiPlatform, DeeplyNestedJsonIsSurvived) {
    LayoutWriter::write(layout.path() + "/index.json", std::string(2000000, '['));
    EXPECT_NE(problem({.layoutDirectory = layout.path()}), "no error");
}

TEST_F(MultiPlatform, LayersAndDiffIdsMustCorrespond) {
    const std::string config = R"({"os":"linux","architecture":"amd64","rootfs":{"diff_ids":[]}})";
    const auto layer = layout.addBlob("x");
    layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor("application/vnd.oci.image.layer.v1.tar", layer, 1)));
    EXPECT_THAT(problem({.layoutDirectory = layout.path()}), HasSubstr("has 1 layers, but its configuration names 0"));
}

TEST_F(MultiPlatform, LayerTypes) {
    const auto layer = layout.addBlob("x");
    const std::string config = cat(R"({"rootfs":{"diff_ids":[")", layer, R"("]}})");
    for (const std::string type :
         {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip",
          "application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
          "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
          "application/vnd.docker.image.rootfs.diff.tar.zstd"}) {
        layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor(type, layer, 1)));
        EXPECT_EQ(problem({.layoutDirectory = layout.path()}), "no error") << type;
    }
    for (const std::string type : {"", "text/plain", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
                                   "application/vnd.cncf.helm.chart.content.v1.tar+gzip"}) {
        layout.writeIndex(layout.addManifest(config, LayoutWriter::descriptor(type, layer, 1)));
        EXPECT_THAT(problem({.layoutDirectory = layout.path()}), HasSubstr("unsupported type")) << type;
    }
}

TEST(Platform, ParsesWholeTextsOnly) {
    EXPECT_EQ(Platform::parse("linux/arm/v7").variant, "v7");
    for (const std::string bad : {"", "linux", "/amd64", "linux/", "linux/arm/", "linux/arm/v7/x"}) {
        EXPECT_THROW(Platform::parse(bad), Error) << bad;
    }
}

}  // namespace
}  // namespace sarus::image::build
