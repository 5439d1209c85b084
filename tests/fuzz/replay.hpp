#pragma once
// Unit tests that give a fuzzer what lies in its corpus: REPLAY(NAME, FOLDER), behind the source of the
// fuzzer with LLVMFuzzerTestOneInput renamed to replay_NAME.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace sarus::test::fuzz {

/// Gives each file of `folder` to `readInput`, which aborts if it finds a defect.
inline void replay(const std::filesystem::path& folder, int (*readInput)(const std::uint8_t*, std::size_t)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        SCOPED_TRACE(entry.path());
        std::ifstream file(entry.path(), std::ios::binary);
        ASSERT_TRUE(file.is_open());
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        EXPECT_EQ(readInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    }
}

}  // namespace sarus::test::fuzz

#define REPLAY(NAME, FOLDER)                              \
    TEST(FuzzCorpus, NAME) {                              \
        sarus::test::fuzz::replay(FOLDER, replay_##NAME); \
    }
