// Two digests at once are the same two digests.

#include "image/build/hash/sha256_pair.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "image/build/hash/hasher.hpp"

namespace sarus::image::build::sha256_pair_test {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes randomBytes(std::size_t size, unsigned int seed) {
    std::mt19937 random(seed);
    Bytes bytes(size);
    for (auto& byte : bytes) {
        byte = static_cast<unsigned char>(random());
    }
    return bytes;
}

std::string expected(const Bytes& bytes) {
    Hasher hasher("sha256");
    hasher.update(bytes);
    return hasher.finish().text();
}

/// Both digests, of data that come in parts of random sizes.
std::pair<std::string, std::string> inParts(const Bytes& first, const Bytes& second, std::size_t largest,
                                            unsigned int seed) {
    std::mt19937 random(seed);
    Sha256Pair pair;
    std::span<const unsigned char> a(first);
    std::span<const unsigned char> b(second);
    while (!a.empty() || !b.empty()) {
        const auto partA = std::min<std::size_t>(a.size(), random() % (largest + 1));
        const auto partB = std::min<std::size_t>(b.size(), random() % (largest + 1));
        pair.update(a.first(partA), b.first(partB));
        a = a.subspan(partA);
        b = b.subspan(partB);
    }
    return {Digest("sha256", pair.finish(0)).text(), Digest("sha256", pair.finish(1)).text()};
}

class Sha256PairTest : public testing::Test {
protected:
    void SetUp() override {
        if (!Sha256Pair::available()) {
            GTEST_SUCCEED() << "nothing to test: this processor has no SHA instructions";
            done = true;
        }
    }
    bool done = false;
};

TEST_F(Sha256PairTest, KnownValues) {
    if (done) {
        return;
    }
    // FIPS 180-4's examples: "abc" and nothing at all.
    Sha256Pair pair;
    pair.update(Bytes{'a', 'b', 'c'}, {});
    EXPECT_EQ(Digest("sha256", pair.finish(0)).hex(),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(Digest("sha256", pair.finish(1)).hex(),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Sha256PairTest, AllSizesAroundTheBlocks) {
    for (std::size_t size = 0; size <= 200 && !done; ++size) {
        const auto first = randomBytes(size, 1);
        const auto second = randomBytes(200 - size, 2);
        Sha256Pair pair;
        pair.update(first, second);
        EXPECT_EQ(Digest("sha256", pair.finish(0)).text(), expected(first)) << size;
        EXPECT_EQ(Digest("sha256", pair.finish(1)).text(), expected(second)) << size;
    }
}

TEST_F(Sha256PairTest, DataInParts) {
    for (unsigned int seed = 0; seed < 40 && !done; ++seed) {
        const auto first = randomBytes(seed * 997, seed);
        const auto second = randomBytes(50000, seed + 100);
        for (const std::size_t largest : {1U, 63U, 64U, 1000U, 70000U}) {
            const auto [a, b] = inParts(first, second, largest, seed);
            EXPECT_EQ(a, expected(first)) << seed << ' ' << largest;
            EXPECT_EQ(b, expected(second)) << seed << ' ' << largest;
        }
    }
}

TEST_F(Sha256PairTest, BlocksBesideADigest) {
    const auto written = randomBytes(40 * fsverity::blockSize, 7);
    const struct iovec piece { const_cast<unsigned char*>(written.data()), written.size() };
    for (unsigned int seed = 0; seed < 40; ++seed) {
        const std::size_t which = seed % 2;
        const auto data = randomBytes(seed * 10'007, seed);
        BlocksToHash blocks(0, {&piece, 1});
        Sha256Pair pair;
        std::mt19937 random(seed);
        for (std::span<const unsigned char> rest(data); !rest.empty();) {
            const auto part = std::min<std::size_t>(rest.size(), random() % 20'000);
            const auto left = pair.updateBeside(which, rest.first(part), blocks);
            EXPECT_TRUE(left.empty() || blocks.done());
            rest = rest.subspan(part - left.size());
            if (blocks.done()) {
                pair.update(which == 0 ? rest : std::span<const unsigned char>(),
                            which == 1 ? rest : std::span<const unsigned char>());
                break;
            }
        }
        EXPECT_EQ(Digest("sha256", pair.finish(which)).text(), expected(data)) << seed;
        if (seed < 10 || seed > 30) {
            EXPECT_EQ(blocks.done(), seed > 30) << seed;
        }
        blocks.hashRest();
        for (std::size_t i = 0; i < blocks.all().size(); ++i) {
            const auto* const begin = &written[i * fsverity::blockSize];
            EXPECT_EQ(Digest("sha256", blocks.all()[i]).text(),
                      expected({begin, begin + fsverity::blockSize}))
                << seed << ' ' << i;
        }
    }
}

}  // namespace
}  // namespace sarus::image::build::sha256_pair_test
