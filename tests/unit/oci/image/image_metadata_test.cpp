#include "oci/image/image_metadata.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace sarus::oci::image_metadata_test {
namespace {

std::string messageOf(auto function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(ImageMetadata, ReadsAllFieldsOfAMetaFile) {
    const auto metadata = parseImageMetadata(
        R"({"Cmd":["sh","-c"],"Entrypoint":["/e"],"WorkingDir":"/w","Env":["A=1","B=x=y"],"Labels":{"k":"v"},"Volumes":{"/b":{},"/a":null}})");
    EXPECT_EQ(metadata.volumes, (std::vector<std::string>{"/a", "/b"}));
    EXPECT_EQ(metadata.cmd, (std::vector<std::string>{"sh", "-c"}));
    EXPECT_EQ(metadata.entrypoint, std::vector<std::string>{"/e"});
    EXPECT_EQ(metadata.workingDir, "/w");
    EXPECT_EQ(metadata.env, (std::vector<std::string>{"A=1", "B=x=y"}));
    EXPECT_EQ(metadata.labels, (std::map<std::string, std::string>{{"k", "v"}}));
}

TEST(ImageMetadata, MissingAndNullFieldsAreEmpty) {
    EXPECT_EQ(parseImageMetadata("{}"), ImageMetadata{});
    EXPECT_EQ(
        parseImageMetadata(R"({"Cmd":null,"Entrypoint":null,"WorkingDir":null,"Env":null,"Labels":null})"),
        ImageMetadata{});
    EXPECT_EQ(parseImageMetadata(R"({"Volumes":null})"), ImageMetadata{});
    EXPECT_EQ(parseImageMetadata(R"({"Volumes":[]})"), ImageMetadata{});
}

TEST(ImageMetadata, WritesEmptyFieldsButLabelsAndVolumesOnlyIfThereAreAny) {
    EXPECT_EQ(serializeImageMetadata({}), R"({"Cmd":[],"Entrypoint":[],"WorkingDir":"","Env":[]})");
    ImageMetadata metadata;
    metadata.labels.emplace("a", "b");
    EXPECT_EQ(serializeImageMetadata(metadata),
              R"({"Cmd":[],"Entrypoint":[],"WorkingDir":"","Env":[],"Labels":{"a":"b"}})");
    metadata.labels.clear();
    metadata.volumes = {"/a"};
    EXPECT_EQ(serializeImageMetadata(metadata),
              R"({"Cmd":[],"Entrypoint":[],"WorkingDir":"","Env":[],"Volumes":{"/a":{}}})");
}

TEST(ImageMetadata, WhatIsWrittenIsReadBackUnchanged) {
    ImageMetadata metadata;
    metadata.cmd = {"quote\"", "back\\slash", "new\nline", "tab\t", "\x01", "\x7f", "gr\xC3\xBC\xC3\x9F", ""};
    metadata.entrypoint = {"/bin/x"};
    metadata.workingDir = "/a b";
    metadata.env = {"E=1"};
    metadata.labels = {{"", "empty key"}, {"k", ""}};
    metadata.volumes = {"/a", "/b \""};
    EXPECT_EQ(parseImageMetadata(serializeImageMetadata(metadata)), metadata);
}

TEST(ImageMetadata, WrongTypesAreRefusedByKey) {
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"Cmd":3})"); }),
              "Invalid image metadata: 'Cmd' must be a list of strings, found number");
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"Env":["A",{}]})"); }),
              "Invalid image metadata: 'Env' must be a string, found object");
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"WorkingDir":[]})"); }),
              "Invalid image metadata: 'WorkingDir' must be a string, found array");
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"Labels":{"x":null}})"); }),
              "Invalid image metadata: 'Labels.x' must be a string, found null");
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"Volumes":["/a"]})"); }),
              "Invalid image metadata: 'Volumes' must be an object, found array");
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"([])"); }),
              "Invalid image metadata: expected an object, found array");
    EXPECT_EQ(messageOf([] { parseImageMetadata("{"); }), "Invalid image metadata: not valid JSON");
}

TEST(ImageMetadata, NulCharactersAndInvalidUtf8AreRefused) {
    EXPECT_EQ(messageOf([] { parseImageMetadata(R"({"Cmd":["a\u0000b"]})"); }),
              "Invalid image metadata: 'Cmd' holds a NUL character");
    EXPECT_EQ(messageOf([] { parseImageMetadata("{\"WorkingDir\":\"\xFF\"}"); }),
              "Invalid image metadata: not valid JSON");
}

TEST(ImageMetadata, DeeplyNestedInputIsNoProblem) {
    const std::string deep(1'000'000, '[');
    EXPECT_THROW(parseImageMetadata("{\"Cmd\":" + deep), Error);
    EXPECT_THROW(parseImageMetadata("{\"Cmd\":" + deep + std::string(1'000'000, ']') + "}"), Error);
}

TEST(ImageConfig, TakesTheFieldsOfTheConfigObject) {
    const auto metadata = parseImageConfig(
        R"({"architecture":"amd64","config":{"Cmd":["sh"],"User":"1000","ExposedPorts":{},"Labels":{"l":"1"}},"rootfs":{}})");
    EXPECT_EQ(metadata.cmd, std::vector<std::string>{"sh"});
    EXPECT_EQ(metadata.labels.at("l"), "1");
}

TEST(ImageConfig, WithoutConfigObjectEverythingIsEmpty) {
    EXPECT_EQ(parseImageConfig(R"({"architecture":"amd64"})"), ImageMetadata{});
    EXPECT_EQ(parseImageConfig(R"({"config":null})"), ImageMetadata{});
    EXPECT_THROW(parseImageConfig(R"({"config":"x"})"), Error);
}

TEST(ImageConfig, ASingleStringIsOneArgument) {
    EXPECT_EQ(parseImageConfig(R"({"config":{"Entrypoint":"/bin/sh"}})").entrypoint,
              std::vector<std::string>{"/bin/sh"});
}

}  // namespace
}  // namespace sarus::oci::image_metadata_test
