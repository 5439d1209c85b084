#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/sha256_blocks.hpp"

namespace sarus::sha256_test {
namespace {

TEST(Sha256, matchesTheStandardsExamples) {
    EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256Hex(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, doesNotDependOnHowTheDataIsDivided) {
    const std::string data(300, 'x');
    const auto whole = sha256Hex(data);
    for (const std::size_t step : {1U, 7U, 55U, 56U, 63U, 64U, 65U, 128U}) {
        Sha256 sha;
        for (std::size_t i = 0; i < data.size(); i += step) {
            sha.update(std::string_view(data).substr(i, step));
        }
        EXPECT_EQ(sha.finishHex(), whole) << step;
    }
}

TEST(Sha256, isTheSameWithAndWithoutInstructionsOfTheProcessor) {
    std::vector<unsigned char> data(3 * sha256::blockSize);
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<unsigned char>(i * 37 + i / 16);
    }
    auto fast = sha256::startState;
    auto portable = sha256::startState;
    sha256::compress(fast, data.data(), 3);
    sha256::compressPortably(portable, data.data(), 3);
    EXPECT_EQ(fast, portable);
    auto other = sha256::startState;
    sha256::compressTwo(fast, data.data(), other, data.data() + sha256::blockSize, 2);
    sha256::compressPortably(portable, data.data(), 2);
    EXPECT_EQ(fast, portable);
    portable = sha256::startState;
    sha256::compressPortably(portable, data.data() + sha256::blockSize, 2);
    EXPECT_EQ(other, portable);
}

}  // namespace
}  // namespace sarus::sha256_test
