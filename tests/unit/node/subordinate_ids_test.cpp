#include "node/subordinate_ids.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sarus::node::subordinate_ids_test {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;

TEST(SubordinateIds, UsersAreNamedByNameOrNumber) {
    const auto* const text = "alice:100000:65536\nbob:200000:65536\n1000:300000:10\n";
    EXPECT_THAT(subordinateRanges(text, "alice", 1000),
                ElementsAre(FieldsAre(100000U, 65536U), FieldsAre(300000U, 10U)));
    EXPECT_THAT(subordinateRanges(text, "carol", 1001), IsEmpty());
}

TEST(SubordinateIds, WhatIsNoRangeIsLeftOut) {
    EXPECT_THAT(
        subordinateRanges("a:1\na:x:1\na:1:0\na:4294967295:1\na:4294967000:1000\na:-1:5\n\na:7:8", "a", 1),
        ElementsAre(FieldsAre(7U, 8U)));
}

}  // namespace
}  // namespace sarus::node::subordinate_ids_test
