#include "base/fsverity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/sha256_blocks.hpp"

namespace sarus::fsverity::fsverity_test {
namespace {

std::string digestOf(std::size_t size) {
    std::vector<unsigned char> file((size + blockSize - 1) / blockSize * blockSize);
    std::vector<const unsigned char*> blocks;
    for (std::size_t i = 0; i < size; ++i) {
        file[i] = static_cast<unsigned char>(i * 7 + i / blockSize);
    }
    for (std::size_t i = 0; i < file.size(); i += blockSize) {
        blocks.push_back(&file[i]);
    }
    std::vector<Hash> hashes(blocks.size());
    hashBlocks(blocks.data(), blocks.size(), hashes.data());
    Leaves leaves;
    leaves.resize(blocks.size());
    leaves.set(0, hashes);
    return leaves.digest(size);
}

TEST(FsVerity, digestsAreThoseOfFsverityUtils) {
    // Printed by `fsverity digest` 1.5.
    const std::vector<std::pair<std::size_t, std::string>> expected{
        {0, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"},
        {1, "b803429503d95915829b29fdbc8bbad142f3abfd11b1cadf5526582e685c0551"},
        {4095, "b37a93497ff6ed2821409ced1dc20f4c1002cc361adf2f22ec444a22c06fe857"},
        {4096, "87a706bdba32be89a173dc11d6a91c08165b4dcfcf743988c94595e82934a41a"},
        {4097, "5c6077f10edc31c27b2a65cbaa199e2cfd36998bf104ccd2f7395eb509682064"},
        {8192, "870c5a8845344e284913be24101260588059e053bc58a58aa1fb4072b4d486f2"},
        {524288, "9613b285b37589320574d16f1447444fb68289259e661f4418dc6374ef3c5b9f"},
        {524289, "355acec90f25617bed6ee0e57380add05b4abb6855b8c7a9224c142cf027a98a"},
        {528384, "d88e5c2aea165a8d8864af881899bbd4e3a59c3a951524b8226b4a0c6044c343"},
        {67108869, "27ac65d693c522f85d3e9757d370c5bb423508a18215e8a4c233a709066466d1"},
    };
    for (const auto& [size, hex] : expected) {
        EXPECT_EQ(digestOf(size), std::string(digestPrefix) + hex) << size;
        EXPECT_TRUE(isDigest(digestOf(size)));
    }
}

TEST(FsVerity, leavesMayShrink) {
    const Hash hash{1};
    Leaves grown;
    grown.resize(300);
    for (std::uint64_t i = 0; i < 300; ++i) {
        grown.set(i, {&hash, 1});
    }
    grown.resize(130);
    Leaves fresh;
    fresh.resize(130);
    for (std::uint64_t i = 0; i < 130; ++i) {
        fresh.set(i, {&hash, 1});
    }
    EXPECT_EQ(grown.digest(130 * blockSize), fresh.digest(130 * blockSize));
}

TEST(FsVerity, onlyWholeDigestsAreDigests) {
    const auto digest = digestOf(1);
    EXPECT_FALSE(isDigest(digest.substr(1)));
    EXPECT_FALSE(isDigest(digest + "0"));
    EXPECT_FALSE(isDigest(digest.substr(0, digest.size() - 1) + "G"));
    EXPECT_FALSE(isDigest("sha256:" + digest.substr(digestPrefix.size())));
}

}  // namespace
}  // namespace sarus::fsverity::fsverity_test
