#include "podman_hpc/store/records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace sarus::podman_hpc::records_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string idA(64, 'a');
const std::string idB(64, 'b');
const std::string idCafe = "cafe" + std::string(60, '0');

std::string image(const std::string& id, const std::string& names, const std::string& layer = idA) {
    return cat(R"({"id":")", id, R"(","names":)", names, R"(,"layer":")", layer,
               R"(","digest":"sha256:1","zebra":{"b":1,"a":2.5},"mapped-layers":["x"]})");
}

TEST(Records, ListsAreWrittenAsTheyWereRead) {
    const auto text = cat("[", image(idA, R"(["x:1"])"), ",", image(idB, "null"), "]");
    EXPECT_EQ(serialize(parseImages(text, "f")), text);
}

TEST(Records, EmptyListsAreLists) {
    for (const auto* text : {"", "[]", "null", "\n"}) {
        EXPECT_EQ(serialize(parseImages(text, "f")), "[]");
        EXPECT_EQ(serialize(parseLayers(text, "f")), "[]");
    }
}

TEST(Records, IdsThatCouldLeadElsewhereAreRefused) {
    for (const auto& id : std::vector<std::string>{"../../etc", "", "abc", std::string(63, 'a') + "/"}) {
        EXPECT_THROW(parseImages(cat("[", image(id, "[]"), "]"), "f"), Error) << id;
        EXPECT_THROW(parseImages(cat("[", image(idA, "[]", id.empty() ? "." : id), "]"), "f"), Error) << id;
        EXPECT_THROW(parseLayers(cat(R"([{"id":")", id, R"("}])"), "f"), Error) << id;
    }
    EXPECT_THROW(parseImages("{", "f"), Error);
    EXPECT_THROW(parseImages("[1]", "f"), Error);
}

TEST(Records, NamesAreFoundBeforeIds) {
    const auto images =
        parseImages(cat("[", image(idCafe, R"(["docker.io/library/x:1"])"), ",",
                        image(idB, R"(["localhost/cafe:latest","host:5000/y/z:latest"])"), "]"),
                    "f");
    const auto find = [&](std::string_view word) {
        const auto* found = findImage(images, word);
        return found == nullptr ? std::string("none") : found->id;
    };
    EXPECT_EQ(find("cafe"), idB);  // an image may be named like the beginning of another one's id
    EXPECT_EQ(find("cafe0"), idCafe);
    EXPECT_EQ(find(cat("sha256:", idCafe)), idCafe);
    for (const auto* word : {"x:1", "library/x:1", "docker.io/x:1", "docker://docker.io/library/x:1"}) {
        EXPECT_EQ(find(word), idCafe) << word;
    }
    EXPECT_EQ(find("host:5000/y/z"), idB);
    EXPECT_EQ(find("x"), "none");
    EXPECT_EQ(find("docker.io/library/x@sha256:1"), idCafe);
    EXPECT_EQ(find("docker.io/library/x@sha256:2"), "none");
}

TEST(Records, AnIdMustBeUnique) {
    const auto images =
        parseImages(cat("[", image(idA, "[]"), ",", image("aa" + std::string(62, '0'), "[]"), "]"), "f");
    EXPECT_THROW(findImage(images, "aa"), Error);
    EXPECT_NE(findImage(images, "aaa"), nullptr);
}

TEST(Records, NamesChangeAndTheRestStays) {
    const auto images = parseImages(cat("[", image(idA, R"(["x:1"])"), "]"), "f");
    const auto changed = withNames(images[0], {"y:1", "z:1"});
    EXPECT_THAT(changed.names, ElementsAre("y:1", "z:1"));
    EXPECT_EQ(changed.json, image(idA, R"(["y:1","z:1"])"));
    EXPECT_THAT(withNames(images[0], {}).json, testing::Not(HasSubstr("names")));
    EXPECT_THAT(portable(images[0]).json, testing::Not(HasSubstr("mapped-layers")));
}

TEST(Records, AChainEndsAtTheLowestLayerOrWhereOneIsMissing) {
    const auto layers =
        parseLayers(cat(R"([{"id":")", idA, R"(","parent":")", idB, R"(","diff-size":7},{"id":")", idB,
                        R"("},{"id":")", idCafe, R"(","parent":")", std::string(64, 'd'), R"("}])"),
                    "f");
    const auto chain = chainOf(layers, idA);
    ASSERT_EQ(chain.layers.size(), 2U);
    EXPECT_EQ(chain.layers[0].id, idB);
    EXPECT_EQ(chain.layers[1].size, 7U);
    EXPECT_TRUE(chain.complete);
    EXPECT_FALSE(chainOf(layers, idCafe).complete);
    const auto circle = parseLayers(cat(R"([{"id":")", idA, R"(","parent":")", idA, R"("}])"), "f");
    EXPECT_FALSE(chainOf(circle, idA).complete);
}

}  // namespace
}  // namespace sarus::podman_hpc::records_test
