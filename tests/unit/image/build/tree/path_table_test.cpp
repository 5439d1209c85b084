// Names of layers, by number.

#include "image/build/tree/path_table.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sarus::image::build::path_table_test {
namespace {

TEST(PathTable, KeepsMoreNamesThanItHasRoomForInTheBeginning) {
    constexpr int count = 150'000;
    PathTable paths;
    std::vector<PathId> known;
    for (int i = 0; i < count; ++i) {
        known.push_back(paths.intern(splitPath("usr/" + std::to_string(i % 300) + '/' + std::to_string(i))));
    }
    EXPECT_EQ(paths.size(), 1U + 1U + 300U + count);
    for (int i = 0; i < count; ++i) {
        const auto text = "/usr/" + std::to_string(i % 300) + '/' + std::to_string(i);
        ASSERT_EQ(paths.text(known[static_cast<std::size_t>(i)]), text);
        ASSERT_EQ(paths.intern(splitPath(text)), known[static_cast<std::size_t>(i)]);
    }
}

}  // namespace
}  // namespace sarus::image::build::path_table_test
