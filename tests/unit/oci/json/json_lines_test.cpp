#include "oci/json/json_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::oci::json_lines_test {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(JsonLines, NameKeysAndElementsByTheirPaths) {
    const auto found = findJsonLines(
        "{ \"a\":1,\n\n  \"b\": [ {\"c\" :\n  true}, -1.5e3\n, null ],\n"
        "\"d\\u0065 \\\"f}\": {},\n \"g\": \"x\\\\\", \"h\": [[],\n[\"]\"]] }\n");
    EXPECT_THAT(found.lines,
                UnorderedElementsAre(Pair("a", 1), Pair("b", 3), Pair("b[0]", 3), Pair("b[0].c", 3),
                                     Pair("b[1]", 4), Pair("b[2]", 5), Pair("de \"f}", 6), Pair("g", 7),
                                     Pair("h", 7), Pair("h[0]", 7), Pair("h[1]", 8), Pair("h[1][0]", 8)));
    EXPECT_TRUE(found.twice.empty());
}

TEST(JsonLines, KeysThatOccurTwiceHaveTheLineOfTheLast) {
    const auto found = findJsonLines("{\"a\": 1,\n\"a\": 2,\n\"b\": {\"a\": 3}}");
    EXPECT_THAT(found.twice, ElementsAre("a"));
    EXPECT_EQ(found.lines.at("a"), 2U);
    EXPECT_EQ(found.lines.at("b.a"), 3U);
}

TEST(JsonLines, EndWithTheText) {
    for (const auto* text : {"", "1", "\"", "{", "[", "{\"a\"", "[1,", "\"\\", "{}"}) {
        EXPECT_NO_THROW(findJsonLines(text)) << text;
    }
}

}  // namespace
}  // namespace sarus::oci::json_lines_test
