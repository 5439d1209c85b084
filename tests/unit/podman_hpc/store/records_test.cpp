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

std::vector<PodmanImage> images(std::string_view text) {
    std::vector<std::string> problems;
    auto all = parseImages(text, "f", problems);
    EXPECT_THAT(problems, testing::IsEmpty());
    return all;
}

std::vector<PodmanLayer> layers(std::string_view text) {
    std::vector<std::string> problems;
    auto all = parseLayers(text, "f", problems);
    EXPECT_THAT(problems, testing::IsEmpty());
    return all;
}

/// What is said about a list of which nothing can be read.
std::string problemOf(std::string_view text, bool ofLayers = false) {
    std::vector<std::string> problems;
    EXPECT_TRUE(ofLayers ? parseLayers(text, "f", problems).empty()
                         : parseImages(text, "f", problems).empty());
    return problems.empty() ? "" : problems.front();
}

TEST(Records, ListsAreWrittenAsTheyWereRead) {
    const auto text = cat("[", image(idA, R"(["x:1"])"), ",", image(idB, "null"), "]");
    EXPECT_EQ(serialize(images(text)), text);
}

TEST(Records, EmptyListsAreLists) {
    for (const auto* text : {"[]", "null", "[ ]\n"}) {
        EXPECT_EQ(serialize(images(text)), "[]");
        EXPECT_EQ(serialize(layers(text)), "[]");
    }
}

TEST(Records, IdsThatCouldLeadElsewhereAreRefused) {
    for (const auto& id : std::vector<std::string>{"../../etc", "", "abc", std::string(63, 'a') + "/"}) {
        EXPECT_THAT(problemOf(cat("[", image(id, "[]"), "]")), HasSubstr("is not an id")) << id;
        EXPECT_THAT(problemOf(cat("[", image(idA, "[]", id.empty() ? "." : id), "]")),
                    HasSubstr("is not an id"))
            << id;
        EXPECT_THAT(problemOf(cat(R"([{"id":")", id, R"("}])"), true), HasSubstr("is not an id")) << id;
    }
}

TEST(Records, ABrokenRecordDoesNotHideTheOthers) {
    const auto good = image(idB, R"(["y:1"])");
    const auto with = [](const std::string& member) { return cat(R"({"id":")", idA, R"(",)", member, "}"); };
    for (const auto& [broken, problem] : std::vector<std::pair<std::string, std::string>>{
             {"7", "f: [0]: expected an object"},
             {"{]", "f: [0]: not valid JSON"},
             {"", "f: [0]: not valid JSON"},
             {"{}", "is not an id"},
             {R"({"id":7})", "f: [0].id: expected a string, found 7"},
             {with(R"("names":"x:1")"), "f: [0].names: expected a list of strings, found 'x:1'"},
             {with(R"("names":[["x"]])"), "f: [0].names[0]: expected a string"},
             {with(R"("created":"yesterday")"), "f: [0].created: expected a time"},
             {with(R"("metadata":{})"), "f: [0].metadata: expected a string"},
             {with(R"("big-data-sizes":{"manifest":"2"})"),
              "f: [0].big-data-sizes.manifest: expected a number"},
             {with(R"("big-data-digests":[])"), "f: [0].big-data-digests: expected an object"}}) {
        std::vector<std::string> problems;
        const auto read = parseImages(cat("[", broken, ",", good, "]"), "f", problems);
        EXPECT_EQ(serialize(read), cat("[", good, "]")) << broken;
        EXPECT_THAT(problems, ElementsAre(HasSubstr(problem))) << broken;
    }
    std::vector<std::string> problems;
    EXPECT_EQ(serialize(parseImages(cat("[", good, ",", good, "]"), "f", problems)), cat("[", good, "]"));
    EXPECT_THAT(problems, ElementsAre(HasSubstr("is there twice")));
    EXPECT_THAT(problemOf(cat(R"([{"id":")", idA, R"(","diff-size":"7"}])"), true),
                HasSubstr("diff-size: expected a number"));
}

TEST(Records, WhatIsWrongWithAWholeListIsSaid) {
    EXPECT_EQ(problemOf(""), "f is empty");
    EXPECT_EQ(problemOf("{}"), "f is not a list");
    EXPECT_EQ(problemOf(std::string_view("\0\0", 2)), "f is not a list");
    EXPECT_EQ(problemOf("[]x"), "f has more behind the end of the list");
}

TEST(Records, AListIsReadAsFarAsItGoes) {
    const auto one = image(idA, R"(["x:1","[\"{"])");
    const auto two = image(idB, R"(["y:1"])");
    const auto text = cat("[", one, ",", two, "]");
    for (std::size_t end = 0; end < text.size(); ++end) {
        std::vector<std::string> problems;
        const auto read = parseImages(text.substr(0, end), "f", problems);
        EXPECT_EQ(read.size(), end < one.size() + 1 ? 0U : end < text.size() - 1 ? 1U : 2U) << end;
        ASSERT_EQ(problems.size(), 1U) << end;
        EXPECT_THAT(problems.front(), HasSubstr(end == 0 ? "f is empty" : "f was cut off behind ")) << end;
    }
}

TEST(Records, NamesAreFoundBeforeIds) {
    const auto known = images(cat("[", image(idCafe, R"(["docker.io/library/x:1"])"), ",",
                                  image(idB, R"(["localhost/cafe:latest","host:5000/y/z:latest"])"), "]"));
    const auto find = [&](std::string_view word) {
        const auto* found = findImage(known, word);
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
    const auto known = images(cat("[", image(idA, "[]"), ",", image("aa" + std::string(62, '0'), "[]"), "]"));
    EXPECT_THROW(findImage(known, "aa"), Error);
    EXPECT_NE(findImage(known, "aaa"), nullptr);
}

TEST(Records, NamesChangeAndTheRestStays) {
    const auto known = images(cat("[", image(idA, R"(["x:1"])"), "]"));
    const auto changed = withNames(known[0], {"y:1", "z:1"});
    EXPECT_THAT(changed.names, ElementsAre("y:1", "z:1"));
    EXPECT_EQ(changed.json, image(idA, R"(["y:1","z:1"])"));
    EXPECT_THAT(withNames(known[0], {}).json, testing::Not(HasSubstr("names")));
    EXPECT_THAT(portable(known[0]).json, testing::Not(HasSubstr("mapped-layers")));
}

TEST(Records, AChainEndsAtTheLowestLayerOrWhereOneIsMissing) {
    const auto known =
        layers(cat(R"([{"id":")", idA, R"(","parent":")", idB, R"(","diff-size":7},{"id":")", idB,
                   R"("},{"id":")", idCafe, R"(","parent":")", std::string(64, 'd'), R"("}])"));
    const auto chain = chainOf(known, idA);
    ASSERT_EQ(chain.layers.size(), 2U);
    EXPECT_EQ(chain.layers[0].id, idB);
    EXPECT_EQ(chain.layers[1].size, 7U);
    EXPECT_TRUE(chain.complete);
    EXPECT_FALSE(chainOf(known, idCafe).complete);
    const auto circle = layers(cat(R"([{"id":")", idA, R"(","parent":")", idA, R"("}])"));
    EXPECT_FALSE(chainOf(circle, idA).complete);
}

}  // namespace
}  // namespace sarus::podman_hpc::records_test
