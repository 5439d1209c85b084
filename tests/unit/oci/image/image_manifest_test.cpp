#include "oci/image/image_manifest.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::oci::image_manifest_test {
namespace {

const std::string digestA = "sha256:" + std::string(64, 'a');
const std::string digestB = "sha256:" + std::string(64, 'b');
const std::string digestC = "sha256:" + std::string(64, 'c');

std::string entry(const std::string& digest, const std::string& platform) {
    return cat(R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","size":10,"digest":")", digest,
               '"', platform.empty() ? "" : ",\"platform\":", platform, '}');
}

std::string selected(const std::string& entries, const Platform& platform) {
    const auto index = parseImageIndex(cat(R"({"schemaVersion":2,"manifests":[)", entries, "]}"));
    const auto* found = selectPlatform(index, platform);
    return found != nullptr ? found->digest.text() : "none";
}

TEST(PlatformName, HasTwoOrThreeParts) {
    EXPECT_EQ(parsePlatformName("linux/arm64"), (Platform{"linux", "arm64", ""}));
    EXPECT_EQ(parsePlatformName("linux/arm/v7"), (Platform{"linux", "arm", "v7"}));
    for (const auto* text : {"", "linux", "linux/", "/arm64", "linux/arm64/", "linux/arm/v7/x", "Linux/arm64",
                             "linux/-x", "linux/a b"}) {
        EXPECT_THROW(parsePlatformName(text), Error) << text;
    }
}

TEST(ManifestKind, isToldByTheMediaType) {
    EXPECT_EQ(manifestKind(R"({"mediaType":"application/vnd.oci.image.manifest.v1+json"})"),
              ManifestKind::imageManifest);
    EXPECT_EQ(manifestKind(R"({"mediaType":"application/vnd.docker.distribution.manifest.v2+json"})"),
              ManifestKind::imageManifest);
    EXPECT_EQ(manifestKind(R"({"mediaType":"application/vnd.oci.image.index.v1+json"})"),
              ManifestKind::imageIndex);
    EXPECT_EQ(manifestKind(R"({"mediaType":"application/vnd.docker.distribution.manifest.list.v2+json"})"),
              ManifestKind::imageIndex);
    EXPECT_EQ(manifestKind(R"({"mediaType":"text/plain","config":{}})"), ManifestKind::unknown);
}

TEST(ManifestKind, isToldByTheMembersWithoutAMediaType) {
    EXPECT_EQ(manifestKind(R"({"schemaVersion":2,"config":{},"layers":[]})"), ManifestKind::imageManifest);
    EXPECT_EQ(manifestKind(R"({"schemaVersion":2,"manifests":[]})"), ManifestKind::imageIndex);
    EXPECT_EQ(manifestKind("{}"), ManifestKind::unknown);
}

TEST(ManifestKind, rejectsWhatIsNoObject) {
    EXPECT_THROW(manifestKind("<html>"), Error);
    EXPECT_THROW(manifestKind("[]"), Error);
    EXPECT_THROW(manifestKind(R"({"mediaType":3})"), Error);
}

TEST(ManifestKind, rejectsWhatCouldBeTakenForBoth) {
    EXPECT_THROW(manifestKind(R"({"config":{},"layers":[],"manifests":[]})"), Error);
}

TEST(ImageManifest, keepsTheOrderOfLayers) {
    const auto manifest = parseImageManifest(cat(R"({"config":)", entry(digestA, ""), R"(,"layers":[)",
                                                 entry(digestC, ""), ',', entry(digestB, ""), "]}"));
    EXPECT_EQ(manifest.config.digest.text(), digestA);
    ASSERT_EQ(manifest.layers.size(), 2U);
    EXPECT_EQ(manifest.layers[0].digest.text(), digestC);
    EXPECT_EQ(manifest.layers[0].size, 10U);
    EXPECT_EQ(manifest.layers[1].digest.text(), digestB);
}

TEST(ImageManifest, rejectsDigestsThatCouldBePaths) {
    EXPECT_THROW(parseImageIndex(R"({"manifests":[{"digest":"sha256:../../etc/passwd","size":1}]})"), Error);
    EXPECT_THROW(parseImageIndex(R"({"manifests":[{"size":1}]})"), Error);
    EXPECT_THROW(parseImageIndex(cat(R"({"manifests":[{"digest":")", digestA, R"(","size":-1}]})")), Error);
    EXPECT_THROW(parseImageIndex(R"({"manifests":{}})"), Error);
}

TEST(Digest, isAnAlgorithmAndItsNumberOfHexDigits) {
    EXPECT_TRUE(Digest::isValid(digestA));
    EXPECT_TRUE(Digest::isValid("sha512:" + std::string(128, '0')));
    EXPECT_FALSE(Digest::isValid("sha256:" + std::string(63, 'a')));
    EXPECT_FALSE(Digest::isValid("sha256:" + std::string(64, 'A')));
    EXPECT_FALSE(Digest::isValid("md5:" + std::string(32, 'a')));
    EXPECT_FALSE(Digest::isValid(std::string(64, 'a')));
    EXPECT_FALSE(Digest::isValid(""));
}

TEST(Platform, isSelectedByOsAndArchitecture) {
    const auto entries = cat(entry(digestA, R"({"os":"linux","architecture":"ppc64le"})"), ',',
                             entry(digestB, R"({"os":"windows","architecture":"amd64"})"), ',',
                             entry(digestC, R"({"os":"linux","architecture":"amd64"})"));
    EXPECT_EQ(selected(entries, {"linux", "amd64", ""}), digestC);
    EXPECT_EQ(selected(entries, {"linux", "s390x", ""}), "none");
}

TEST(Platform, anEqualVariantWinsOverAnEntryWithoutVariant) {
    const auto without = entry(digestA, R"({"os":"linux","architecture":"arm64"})");
    const auto equal = entry(digestB, R"({"os":"linux","architecture":"arm64","variant":"v8"})");
    const auto other = entry(digestC, R"({"os":"linux","architecture":"arm64","variant":"v9"})");
    EXPECT_EQ(selected(cat(other, ',', without, ',', equal), {"linux", "arm64", "v8"}), digestB);
    EXPECT_EQ(selected(cat(other, ',', without), {"linux", "arm64", "v8"}), digestA);
    EXPECT_EQ(selected(other, {"linux", "arm64", "v8"}), "none");
}

TEST(Platform, aMissingVariantMeansTheDefaultOfTheArchitecture) {
    const auto entries = cat(entry(digestA, R"({"os":"linux","architecture":"arm","variant":"v6"})"), ',',
                             entry(digestB, R"({"os":"linux","architecture":"arm","variant":"v7"})"), ',',
                             entry(digestC, R"({"os":"linux","architecture":"arm64","variant":"v8"})"));
    EXPECT_EQ(selected(entries, {"linux", "arm64", ""}), digestC);
    EXPECT_EQ(selected(entries, {"linux", "arm", ""}), digestB);
    EXPECT_EQ(selected(entries, {"linux", "arm", "v6"}), digestA);
    EXPECT_EQ(selected(entries, {"linux", "arm", "v5"}), "none");
    EXPECT_EQ(selected(entry(digestA, R"({"os":"linux","architecture":"amd64","variant":"v3"})"),
                       {"linux", "amd64", ""}),
              "none");
    EXPECT_EQ(selected(entry(digestA, R"({"os":"linux","architecture":"amd64","variant":"v1"})"),
                       {"linux", "amd64", ""}),
              digestA);
}

TEST(Platform, entriesWithoutAPlatformAreSkipped) {
    EXPECT_EQ(
        selected(cat(entry(digestA, ""), ',', entry(digestB, R"({"os":"linux","architecture":"amd64"})")),
                 {"linux", "amd64", ""}),
        digestB);
    EXPECT_EQ(
        selected(entry(digestA, R"({"os":"unknown","architecture":"unknown"})"), {"linux", "amd64", ""}),
        "none");
}

std::string kindProblem(const std::string& config, const std::string& layer, const std::string& more = "") {
    try {
        checkIsImage(parseImageManifest(cat(R"({"config":{"mediaType":")", config, R"(","size":2,"digest":")",
                                            digestA, R"("},"layers":[{"mediaType":")", layer,
                                            R"(","size":2,"digest":")", digestB, R"("}])", more, '}')));
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

TEST(Kind, OfAnImageIsThatOfConfigurationAndLayers) {
    const std::string ociConfig = "application/vnd.oci.image.config.v1+json";
    const std::string ociLayer = "application/vnd.oci.image.layer.v1.tar+gzip";
    for (const std::string& config :
         {ociConfig, std::string("application/vnd.docker.container.image.v1+json")}) {
        for (const std::string& layer :
             {ociLayer, std::string("application/vnd.docker.image.rootfs.diff.tar.gzip")}) {
            EXPECT_EQ(kindProblem(config, layer), "");
        }
    }
    const auto foreign = [](const std::string& type) {
        return cat("This is no container image but '", type, "'");
    };
    const std::string empty = "application/vnd.oci.empty.v1+json";
    EXPECT_EQ(kindProblem(empty, "application/x.weights", R"(,"artifactType":"application/x.model")"),
              foreign("application/x.model"));
    EXPECT_EQ(kindProblem(empty, "application/x.weights"), foreign("application/x.weights"));
    EXPECT_EQ(kindProblem("application/vnd.cncf.helm.config.v1+json",
                          "application/vnd.cncf.helm.chart.content.v1.tar+gzip"),
              foreign("application/vnd.cncf.helm.config.v1+json"));
    EXPECT_EQ(kindProblem("application/vnd.wasm.config.v0+json", ociLayer),
              foreign("application/vnd.wasm.config.v0+json"));
    EXPECT_EQ(kindProblem(ociConfig, "application/vnd.dev.cosign.simplesigning.v1+json"),
              foreign("application/vnd.dev.cosign.simplesigning.v1+json"));
    EXPECT_EQ(kindProblem(ociConfig, ociLayer + "+encrypted"),
              cat("The image is encrypted (layers of the type '", ociLayer, "+encrypted')"));
    EXPECT_NE(kindProblem(ociConfig, ""), "");
}

TEST(Kind, OfAManifestThatIsNoImagesIsNamed) {
    EXPECT_THROW(checkMayBeImage(R"({"mediaType":"application/vnd.oci.artifact.manifest.v1+json"})"), Error);
    EXPECT_NO_THROW(
        checkMayBeImage(R"({"mediaType":"application/vnd.docker.distribution.manifest.v1+prettyjws"})"));
    EXPECT_NO_THROW(checkMayBeImage(R"({"schemaVersion":1})"));
    EXPECT_NO_THROW(checkMayBeImage(R"({"schemaVersion":2,"config":{},"layers":[]})"));
}

TEST(SelectPlatform, takesAnEntryWithoutAPlatformWhereNoOtherFits) {
    const auto here = R"({"os":"linux","architecture":"amd64"})";
    const auto other = R"({"os":"linux","architecture":"s390x"})";
    EXPECT_EQ(selected(cat(entry(digestA, ""), ',', entry(digestB, here)), {"linux", "amd64", ""}), digestB);
    EXPECT_EQ(selected(cat(entry(digestA, other), ',', entry(digestB, "")), {"linux", "amd64", ""}), digestB);
    EXPECT_EQ(selected(entry(digestA, other), {"linux", "amd64", ""}), "none");
}

}  // namespace
}  // namespace sarus::oci::image_manifest_test
