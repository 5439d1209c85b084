#include "image/store/index.hpp"

#include <gtest/gtest.h>

#include "base/text.hpp"

namespace sarus::image::index_test {
namespace {

const std::string hex64(64, 'd');

// As Sarus 1.7 writes it.
const std::string documented = R"({
   "images": [
      {
         "uniqueKey": "docker.io/library/alpine/latest",
         "server": "docker.io",
         "namespace": "library",
         "image": "alpine",
         "tag": "latest",
         "digest": "",
         "registryDigest": "sha256:)" +
                               hex64 + R"(",
         "id": "d539cd357acb",
         "imagePath": "/home/user/.sarus/images/docker.io/library/alpine/latest.squashfs",
         "metadataPath": "/home/user/.sarus/images/docker.io/library/alpine/latest.meta",
         "datasize": "2.61MB",
         "created": "2022-03-15T17:24:08"
      },
      {
         "uniqueKey": "quay.io/ns/tool/sha256-)" +
                               hex64 + R"(",
         "server": "quay.io",
         "namespace": "ns",
         "image": "tool",
         "tag": "",
         "digest": "",
         "registryDigest": "sha256:)" +
                               hex64 + R"(",
         "id": "",
         "imagePath": "/home/user/.sarus/images/quay.io/ns/tool/sha256-)" +
                               hex64 + R"(.squashfs",
         "metadataPath": "/home/user/.sarus/images/quay.io/ns/tool/sha256-)" +
                               hex64 + R"(.meta",
         "datasize": "1016.00KB",
         "created": "2022-03-15T17:24:09"
      }
   ]
})";

std::string entryWith(const std::string& key, const std::string& value) {
    std::vector<std::pair<std::string, std::string>> members{
        {"server", "docker.io"}, {"namespace", "library"}, {"image", "a"}, {"tag", "t"}};
    std::string text = R"({"images":[{"uniqueKey":"x")";
    for (auto& [name, content] : members) {
        text += cat(",\"", name, "\":", name == key ? value : cat('"', content, '"'));
    }
    return text + "}]}";
}

TEST(Index, readsTheDocumentedFormat) {
    const auto index = parseIndex(documented);
    EXPECT_FALSE(index.damaged);
    ASSERT_EQ(index.images.size(), 2U);
    EXPECT_EQ(index.images[0].reference.full(), "docker.io/library/alpine:latest");
    EXPECT_EQ(index.images[0].registryDigest, "sha256:" + hex64);
    EXPECT_EQ(index.images[0].id, "d539cd357acb");
    EXPECT_EQ(index.images[0].size, "2.61MB");
    EXPECT_EQ(index.images[0].created, "2022-03-15T17:24:08");
    EXPECT_EQ(index.images[1].reference.full(), "quay.io/ns/tool@sha256:" + hex64);
}

TEST(Index, writesTheDocumentedFormatByteForByte) {
    EXPECT_EQ(serializeIndex(parseIndex(documented).images, "/home/user/.sarus/images"), documented);
    EXPECT_EQ(serializeIndex({}, "/x"), "{\n   \"images\": []\n}");
}

TEST(Index, toleratesMissingIdAndRegistryDigest) {
    const auto index = parseIndex(
        R"({"images":[{"uniqueKey":"docker.io/library/a/t","server":"docker.io","namespace":"library","image":"a",
        "tag":"t","digest":"","imagePath":"","metadataPath":"","datasize":"1.00KB","created":"2020-01-01T00:00:00"}]})");
    EXPECT_FALSE(index.damaged);
    ASSERT_EQ(index.images.size(), 1U);
    EXPECT_EQ(index.images[0].id, "");
    EXPECT_EQ(index.images[0].registryDigest, "");
}

TEST(Index, imageWithoutTagAndRegistryDigestGetsItsDigestFromTheKey) {
    const auto index =
        parseIndex(cat(R"({"images":[{"uniqueKey":"docker.io/library/a/sha256-)", hex64,
                       R"(","server":"docker.io","namespace":"library","image":"a","tag":""}]})"));
    ASSERT_EQ(index.images.size(), 1U);
    EXPECT_EQ(index.images[0].reference.digest, "sha256:" + hex64);
}

TEST(Index, keyWithADoubleSlashForAnEmptyNamespaceIsUnderstood) {
    const auto index = parseIndex(
        R"({"images":[{"uniqueKey":"srv.io//img/t","server":"srv.io","namespace":"","image":"img","tag":"t","registryDigest":""}]})");
    ASSERT_EQ(index.images.size(), 1U);
    EXPECT_EQ(index.images[0].reference.uniqueKey(), "srv.io/img/t");
}

TEST(Index, saysWhatIsNoIndex) {
    for (const auto* text : {"", "{", "[]", "null", "{}", R"({"images":{}})", R"({"images":[1]})",
                             R"({"images":"x"})", "\xff\xfe"}) {
        EXPECT_TRUE(parseIndex(text).damaged) << text;
    }
    EXPECT_FALSE(parseIndex(R"({"images":[]})").damaged);
}

TEST(Index, entriesWhichLeadOutOfTheRepositoryAreNotTaken) {
    EXPECT_EQ(parseIndex(entryWith("", "")).images.size(), 1U);
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"server", "\"..\""},
                                                          {"server", "\"\""},
                                                          {"server", "1"},
                                                          {"namespace", "\"../../etc\""},
                                                          {"image", "\"/etc/passwd\""},
                                                          {"image", "\"a/../b\""},
                                                          {"tag", "\"../x\""},
                                                          {"tag", "\"a/b\""},
                                                          {"tag", "null"}}) {
        const auto index = parseIndex(entryWith(key, value));
        EXPECT_TRUE(index.images.empty()) << key << value;
        EXPECT_TRUE(index.damaged) << key << value;
    }
}

TEST(StoredMetadata, keepsWhatSarusReadsAndAddsTheStore) {
    const oci::ImageMetadata metadata{{"sh"}, {"/entry"}, "/work", {"A=b"}, {{"k", "v"}}};
    const StoreInfo info{"sha256:" + hex64, "d539cd357acb", "sha256:" + hex64, 4096};
    const auto text = serializeStoredMetadata(metadata, info);
    EXPECT_EQ(oci::parseImageMetadata(text), metadata);
    EXPECT_EQ(parseStoreInfo(text), info);
}

TEST(StoredMetadata, saysWhatTheBytesDependOn) {
    const StoreInfo info{"",
                         "d539cd357acb",
                         "sha256:" + hex64,
                         4096,
                         BuildRecord{"-comp xz", "1000:100", "2.0.0", "xz 5.4.1"},
                         "0f",
                         "1e"};
    const auto text = serializeStoredMetadata({}, info);
    EXPECT_EQ(parseStoreInfo(text), info);
    EXPECT_NE(text.find("\"build\""), std::string::npos);
}

TEST(StoredMetadata, withoutOrWithADamagedBuildRecordIsRead) {
    const StoreInfo info{"", "d539cd357acb", "sha256:" + hex64, 4096};
    const auto text = serializeStoredMetadata({}, info);
    EXPECT_EQ(text.find("\"build\""), std::string::npos);
    EXPECT_EQ(parseStoreInfo(text), info);
    for (const auto* damage :
         {"1", "null", "[]", R"({"options":1,"owner":"","builder":"","compressor":""})"}) {
        auto damaged = text;
        damaged.insert(damaged.find("\"squashfsSize\""), cat("\"build\": ", damage, ", "));
        EXPECT_EQ(parseStoreInfo(damaged), info) << damaged;
    }
}

TEST(StoredMetadata, ofSarusHasNoStore) {
    EXPECT_EQ(parseStoreInfo(R"({"Cmd":["sh"],"Entrypoint":[],"WorkingDir":"","Env":[]})"), std::nullopt);
    EXPECT_EQ(parseStoreInfo("{"), std::nullopt);
    EXPECT_EQ(parseStoreInfo(R"({"Store":{"registryDigest":1}})"), std::nullopt);
}

}  // namespace
}  // namespace sarus::image::index_test
