// The digest that is computed while a file is written is that of the file.

#include "image/build/hash/written_digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace sarus::image::build::written_digest_test {
namespace {

using Bytes = std::vector<unsigned char>;

std::string digestOf(Bytes file) {
    const auto size = file.size();
    file.resize((size + fsverity::blockSize - 1) / fsverity::blockSize * fsverity::blockSize);
    std::vector<const unsigned char*> blocks;
    for (std::size_t i = 0; i < file.size(); i += fsverity::blockSize) {
        blocks.push_back(&file[i]);
    }
    std::vector<fsverity::Hash> hashes(blocks.size());
    fsverity::hashBlocks(blocks.data(), blocks.size(), hashes.data());
    fsverity::Leaves leaves;
    leaves.resize(blocks.size());
    leaves.set(0, hashes);
    return leaves.digest(size);
}

/// Writes what it is told to into memory; what is to be hashed can be kept back.
class Writer {
public:
    explicit Writer(unsigned int seed) : random(seed) {}

    void write(std::size_t begin, std::size_t size, bool hashLater) {
        Bytes data(size);
        std::generate(data.begin(), data.end(), [&] { return static_cast<unsigned char>(random()); });
        file.resize(std::max(file.size(), begin + size));
        std::copy(data.begin(), data.end(), file.begin() + static_cast<std::ptrdiff_t>(begin));
        digest.noteWrite(begin, begin + size, hashLater);
        if (!hashLater) {
            waiting.emplace_back(begin, std::move(data));
        }
    }

    /// In any order, cut into pieces of any size.
    void hash() {
        std::shuffle(waiting.begin(), waiting.end(), random);
        for (auto& [begin, data] : waiting) {
            std::vector<struct iovec> pieces;
            for (std::size_t done = 0; done < data.size();) {
                const auto part = std::min<std::size_t>(
                    data.size() - done, random() % 3 == 0 ? random() % 20'000 : random() % 700);
                pieces.push_back({&data[done], part});
                done += part;
            }
            BlocksToHash blocks(begin, pieces);
            for (auto alone = random() % 4; alone > 0 && !blocks.done(); --alone) {
                fsverity::Hash hash;
                const auto* const block = blocks.next();
                fsverity::hashBlocks(&block, 1, &hash);
                blocks.setNext(hash);
            }
            blocks.hashRest();
            digest.take(blocks);
        }
        waiting.clear();
    }

    std::string finish() {
        return digest.finish(file.size(), [this](std::uint64_t offset, std::span<unsigned char> buffer) {
            bytesRead += buffer.size();
            std::memcpy(buffer.data(), &file.at(offset), buffer.size());
        });
    }

    Bytes file;
    WrittenDigest digest;
    std::size_t bytesRead = 0;
    std::mt19937 random;

private:
    std::vector<std::pair<std::size_t, Bytes>> waiting;
};

TEST(WrittenDigest, IsThatOfTheFile) {
    for (unsigned int seed = 0; seed < 60; ++seed) {
        Writer writer(seed);
        std::size_t position = 0;
        for (int i = 0; i < 30; ++i) {
            const std::size_t size = writer.random() % (seed % 3 == 0 ? 9000 : 60'000);
            writer.write(position, size, writer.random() % 4 == 0);
            position += size;
            if (writer.random() % 4 == 0) {
                position -= writer.random() % std::min<std::size_t>(position + 1, 30'000);
            }
            if (writer.random() % 3 == 0) {
                writer.hash();
            }
        }
        writer.hash();
        EXPECT_EQ(writer.finish(), digestOf(writer.file)) << seed;
    }
}

TEST(WrittenDigest, ReadsOnlyWhatWasNotWrittenInWholeBlocks) {
    Writer writer(1);
    writer.write(0, 1'000'000, false);
    writer.write(1'000'000, 3'000'000, false);
    writer.write(0, 96, true);
    writer.hash();
    EXPECT_EQ(writer.finish(), digestOf(writer.file));
    EXPECT_EQ(writer.bytesRead, 2 * fsverity::blockSize + 4'000'000 % fsverity::blockSize);
}

TEST(WrittenDigest, OfAFileThatWasCutOff) {
    Writer writer(2);
    writer.write(0, 100'000, false);
    writer.hash();
    writer.file.resize(50'000);
    writer.write(50'000, 10'000, false);
    writer.hash();
    EXPECT_EQ(writer.finish(), digestOf(writer.file));
}

TEST(WrittenDigest, OfAnEmptyFile) {
    Writer writer(3);
    EXPECT_EQ(writer.finish(), digestOf({}));
}

}  // namespace
}  // namespace sarus::image::build::written_digest_test
