// What is written depends on the files alone, equal files share their blocks, and failures of other threads
// reach the caller.

#include "image/build/write/content_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "base/error.hpp"
#include "base/file_io.hpp"
#include "image/scratch.hpp"

namespace sarus::image::build::content_writer_test {
namespace {

/// An output with nothing but contents.
class Output {
public:
    Output(const std::string& path, unsigned int workers, const SquashfsOptions& squashfsOptions = {},
           int flags = O_CREAT | O_TRUNC)
        : options(squashfsOptions),
          descriptor(openFile(path, O_RDWR | flags, 0600)),
          file(descriptor.get(), path),
          fragments(squashfs::own(sqfs_frag_table_create(0))),
          writer(file, hashes, *fragments, options, workers) {}

    const Inode& add(const std::string& content) {
        Inode& inode = inodes.emplace_back();
        inode.type = Inode::Type::regular;
        inode.size = content.size();
        writer.begin(inode);
        writer.append({reinterpret_cast<const unsigned char*>(content.data()), content.size()}, nullptr);
        writer.end();
        return inode;
    }

    std::string digest() {
        hashes.finish();
        return hashes.written().finish(file.size(),
                                       [this](auto offset, auto buffer) { file.read(offset, buffer); });
    }

    SquashfsOptions options;
    UniqueFd descriptor;
    squashfs::File file;
    squashfs::Handle<sqfs_frag_table_t> fragments;
    HashPool hashes;
    std::deque<Inode> inodes;
    ContentWriter writer;
};

std::string noise(std::size_t size, unsigned int seed) {
    std::mt19937 random(seed);
    std::string bytes(size, '\0');
    for (auto& byte : bytes) {
        byte = static_cast<char>(random() % 64);
    }
    return bytes;
}

TEST(ContentWriter, TheNumberOfThreadsChangesNothing) {
    const test::Scratch scratch;
    std::string expected;
    std::string expectedDigest;
    for (const unsigned int workers : {1U, 2U, 8U}) {
        Output output(scratch.path("out"), workers);
        for (unsigned int i = 0; i < 60; ++i) {
            output.add(noise(i * 20'000 + i, i % 40));
        }
        output.writer.finish();
        const auto written = readFile(scratch.path("out"), 256U << 20U);
        EXPECT_EQ(written.size(), output.file.size());
        const auto digest = output.digest();
        expected = expected.empty() ? written : expected;
        expectedDigest = expectedDigest.empty() ? digest : expectedDigest;
        EXPECT_TRUE(written == expected) << workers;
        EXPECT_EQ(digest, expectedDigest) << workers;
    }
}

TEST(ContentWriter, EqualFilesShareTheirBlocks) {
    const test::Scratch scratch;
    Output output(scratch.path("out"), 2);
    const auto content = noise(5 * (128U << 10U), 1);
    const auto& first = output.add(content);
    const auto& other = output.add(noise(300'000, 2));
    const auto& again = output.add(content);
    output.writer.finish();
    EXPECT_EQ(first.content->start, again.content->start);
    EXPECT_EQ(first.content->blocks, again.content->blocks);
    EXPECT_NE(first.content->start, other.content->start);
    Output twice(scratch.path("twice"), 2, parseMksquashfsOptions("-no-duplicates"));
    twice.add(content);
    twice.add(noise(300'000, 2));
    const auto& separate = twice.add(content);
    twice.writer.finish();
    EXPECT_NE(separate.content->start, 0U);
    EXPECT_GT(twice.file.size(), output.file.size());
}

TEST(ContentWriter, WhatNobodyHashesYetTakesLittleMemory) {
    const test::Scratch scratch;
    Output output(scratch.path("out"), 2);
    for (unsigned int i = 0; i < 100; ++i) {
        output.add(
            std::string(1U << 20U, static_cast<char>('a' + i % 10)));  // it becomes small, or a duplicate
    }
    output.writer.finish();
    std::size_t kept = 0;
    while (auto job = output.hashes.take()) {
        for (const auto& chunk : job->keeps) {
            kept += chunk->capacity();
        }
        job->toHash.hashRest();
        output.hashes.end(*job);
    }
    EXPECT_LE(kept, 4U << 20U);
}

TEST(ContentWriter, WhatWasGivenUpLastIsCutOff) {
    const test::Scratch scratch;
    Output output(scratch.path("out"), 2);
    const auto content = noise(3 * (128U << 10U), 1);
    output.add(content);
    output.add(content);
    output.writer.finish();
    std::uint64_t stored = 0;
    for (const auto word : output.inodes[0].content->blocks) {
        stored += word & 0xFFFFFFU;
    }
    EXPECT_EQ(readFile(scratch.path("out"), 256U << 20U).size(), stored);
}

TEST(ContentWriter, ADiskThatIsFullReachesTheCaller) {
    try {
        Output output("/dev/full", 2, {}, 0);
        for (unsigned int i = 0; i < 1000; ++i) {
            output.add(noise(1U << 20U, i % 3));
        }
        output.writer.finish();
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.errnum(), ENOSPC) << error.what();
    }
}

TEST(ContentWriter, CanBeGivenUpAtAnyTime) {
    const test::Scratch scratch;
    for (unsigned int files = 0; files < 20; ++files) {
        Output output(scratch.path("out"), 4);
        for (unsigned int i = 0; i < files; ++i) {
            output.add(noise(500'000, i));
        }
    }
}

}  // namespace
}  // namespace sarus::image::build::content_writer_test
