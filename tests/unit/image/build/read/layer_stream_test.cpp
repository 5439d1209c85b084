// Decompression and verification of blobs.

#include "image/build/read/layer_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "base/error.hpp"
#include "image/build/hash/sha256_pair.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::layer_stream_test {
namespace {

using testing::HasSubstr;

std::string mixedData(std::size_t size) {
    std::mt19937 random(42);
    std::string data;
    while (data.size() < size) {
        const auto length = random() % 3000;
        if (random() % 2 == 0) {
            data.append(length, static_cast<char>(random()));
        } else {
            for (unsigned int i = 0; i < length; ++i) {
                data += static_cast<char>(random());
            }
        }
    }
    data.resize(size);
    return data;
}

std::string readBlob(const std::string& packed, const std::string& diffId, std::uint64_t limit = 1U << 30U,
                     std::string digest = {}, HashPool* hashes = nullptr) {
    test::LayoutWriter layout;
    const auto stored = layout.addBlob(packed);
    const Layer layer{layout.files(), test::LayoutWriter::blobName(stored),
                      Digest(digest.empty() ? stored : digest), packed.size(), Digest(diffId)};
    ReadCounters counters;
    LayerStream stream(layer, counters, limit, hashes);
    std::string out;
    for (auto bytes = stream.peek(); !bytes.empty(); bytes = stream.peek()) {
        out.append(bytes.begin(), bytes.end());
        stream.consume(bytes.size());
    }
    stream.verify();
    EXPECT_EQ(counters.blobBytes, packed.size());
    EXPECT_EQ(counters.unpackedBytes, out.size());
    return out;
}

std::string problemOf(const std::string& packed, const std::string& data, std::uint64_t limit = 1U << 30U,
                      std::string digest = {}) {
    try {
        readBlob(packed, test::sha256(data), limit, std::move(digest));
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(LayerStream, ReadsGzipZstdAndPlainBlobs) {
    for (const std::size_t size : {0U, 1U, 512U, 262144U, 3000001U}) {
        const auto data = mixedData(size);
        EXPECT_EQ(readBlob(test::gzip(data), test::sha256(data)), data);
        EXPECT_EQ(readBlob(test::zstd(data), test::sha256(data)), data);
        EXPECT_EQ(readBlob(data, test::sha256(data)), data);
    }
}

/// The digest of an output that holds `content`, of which `hashes` was told.
std::string digestOf(HashPool& hashes, const std::string& content) {
    return hashes.written().finish(
        content.size(), [&](std::uint64_t offset, std::span<unsigned char> buffer) {
            std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), buffer.size(), buffer.begin());
        });
}

TEST(LayerStream, DoesOtherHashingBesideItsOwn) {
    auto written = mixedData(100'000);
    const struct iovec piece { written.data(), written.size() };
    HashPool alone;
    alone.written().noteWrite(0, written.size(), true);
    const auto expected = digestOf(alone, written);
    for (const int jobs : {0, 1, 20, 1000}) {
        for (const auto& data : {mixedData(5'000'000), std::string(5'000'000, 'x')}) {
            HashPool others;
            others.written().noteWrite(0, written.size(), false);
            for (int i = 0; i < jobs; ++i) {
                others.add({BlocksToHash(0, {&piece, 1}), 0, {}});
            }
            EXPECT_EQ(readBlob(test::gzip(data), test::sha256(data), 1U << 30U, {}, &others), data);
            int ended = jobs;
            while (others.take()) {
                --ended;
            }
            if (ended > 0) {
                EXPECT_EQ(digestOf(others, written), expected);
            }
            if (Sha256Pair::available() && data[0] == data[1]) {
                EXPECT_GE(ended, std::min(jobs, 5'000'000 / 100'000 - 2));
            }
        }
    }
}

TEST(LayerStream, ReadsConcatenatedMembersAndFrames) {
    const auto data = mixedData(500000);
    for (const auto pack : {test::gzip, test::zstd}) {
        std::string packed;
        for (std::size_t offset = 0; offset < data.size(); offset += 4999) {
            packed += pack(std::string_view(data).substr(offset, 4999));
        }
        EXPECT_EQ(readBlob(packed, test::sha256(data)), data);
        EXPECT_EQ(readBlob(pack("") + pack(data) + pack(""), test::sha256(data)), data);
    }
}

TEST(LayerStream, ReadsZstdWithASkippableFrameInFront) {
    const auto data = mixedData(1000);
    const std::string frame("\x50\x2a\x4d\x18\x04\x00\x00\x00skip", 12);
    EXPECT_EQ(readBlob(frame + test::zstd(data), test::sha256(data)), data);
}

TEST(LayerStream, TruncatedDataAreErrorsWhereverTheyEnd) {
    const auto data = mixedData(20000);
    for (const auto pack : {test::gzip, test::zstd}) {
        const auto packed = pack(data);
        for (std::size_t size = 5; size < packed.size(); size += 331) {
            EXPECT_NE(problemOf(packed.substr(0, size), data), "no error") << size;
        }
        EXPECT_THAT(problemOf(packed.substr(0, packed.size() - 1), data), HasSubstr("end too early"));
    }
}

TEST(LayerStream, ForeignDataBehindTheEndAreErrors) {
    const auto data = mixedData(20000);
    EXPECT_THAT(problemOf(test::gzip(data) + "garbage and more of it", data), HasSubstr("damaged"));
    EXPECT_THAT(problemOf(test::zstd(data) + "garbage and more of it", data), HasSubstr("damaged"));
}

TEST(LayerStream, AWrongGzipChecksumIsAnError) {
    const auto data = mixedData(20000);
    auto packed = test::gzip(data);
    packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] + 1);
    EXPECT_THAT(problemOf(packed, data), HasSubstr("checksum"));
}

TEST(LayerStream, AWrongDigestIsAnError) {
    const auto data = mixedData(20000);
    EXPECT_THAT(problemOf(test::gzip(data), data, 1U << 30U, test::sha256("other")),
                HasSubstr("does not match its digest"));
    EXPECT_THAT(problemOf(test::gzip(data), "other"), HasSubstr("does not match diff_id"));
    EXPECT_THAT(problemOf(data, "other"), HasSubstr("does not match diff_id"));
}

TEST(LayerStream, AWrongSizeIsAnErrorBeforeAnythingIsRead) {
    test::LayoutWriter layout;
    const auto digest = layout.addBlob("abc");
    ReadCounters counters;
    const Layer layer{layout.files(), test::LayoutWriter::blobName(digest), Digest(digest), 4,
                      Digest(digest)};
    EXPECT_THROW(LayerStream(layer, counters, 100), Error);
    EXPECT_EQ(counters.blobBytes, 0U);
}

TEST(LayerStream, ABlobThatIsNoRegularFileIsAnError) {
    test::LayoutWriter layout;
    const auto path = layout.path() + "/fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    ReadCounters counters;
    const Layer layer{layout.files(), "fifo", Digest(test::sha256("")), 0, Digest(test::sha256(""))};
    EXPECT_THROW(LayerStream(layer, counters, 100), Error);
}

TEST(LayerStream, BombsStopAtTheLimit) {
    const std::string data(50U << 20U, '\0');
    EXPECT_THAT(problemOf(test::gzip(data), data, 10U << 20U), HasSubstr("unpack to more than 10.00MB"));
}

TEST(LayerStream, CanBeDroppedAtAnyTime) {
    const auto data = mixedData(20U << 20U);
    test::LayoutWriter layout;
    const auto packed = test::zstd(data);
    const Layer layer{layout.files(), test::LayoutWriter::blobName(layout.addBlob(packed)),
                      Digest(test::sha256(packed)), packed.size(), Digest(test::sha256(data))};
    ReadCounters counters;
    for (int i = 0; i < 20; ++i) {
        LayerStream stream(layer, counters, 1U << 30U);
        for (int j = 0; j < i; ++j) {
            stream.consume(stream.peek().size());
        }
    }
}

TEST(Decompressor, TheFallbackReadsTheSameGzipData) {
    const auto data = mixedData(100000);
    const auto packed = test::gzip(data.substr(0, 50000)) + test::gzip(data.substr(50000));
    const auto decompressor = makeZlibDecompressor();
    std::string out;
    std::size_t offset = 0;
    std::vector<unsigned char> buffer(777);
    while (true) {
        const auto count = std::min<std::size_t>(1000, packed.size() - offset);
        const auto step = decompressor->step(
            {reinterpret_cast<const unsigned char*>(packed.data()) + offset, count}, buffer);
        offset += step.consumed;
        out.append(reinterpret_cast<const char*>(buffer.data()), step.produced);
        if (step.produced == 0 && offset == packed.size()) {
            break;
        }
    }
    EXPECT_TRUE(decompressor->complete());
    EXPECT_EQ(out, data);
}

TEST(Digest, AcceptsWholeDigestsOnly) {
    const std::string hex(64, 'a');
    EXPECT_EQ(Digest("sha256:" + hex).hex(), hex);
    EXPECT_EQ(Digest("sha512:" + hex + hex).algorithm(), "sha512");
    for (const std::string& bad : {std::string(), "sha256:" + hex.substr(1), "sha256:" + hex + "a",
                                   "sha256:" + std::string(64, 'A'), "md5:" + hex, "sha512:" + hex, hex,
                                   "sha256:" + std::string(62, 'a') + "/.", "sha256:../" + hex.substr(3)}) {
        EXPECT_THROW(Digest{bad}, Error) << bad;
    }
}

}  // namespace
}  // namespace sarus::image::build::layer_stream_test
