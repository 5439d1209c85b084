// What the tar reader takes from archives, and how it refuses damaged ones.

#include "image/build/read/tar_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::tar_reader_test {
namespace {

using test::TarWriter;
using testing::HasSubstr;

/// Hands out a text in pieces of a given size, so that every boundary falls somewhere.
class PiecewiseSource final : public ByteSource {
public:
    PiecewiseSource(std::string text, std::size_t size) : data(std::move(text)), piece(size) {}
    std::span<const unsigned char> peek() override {
        const auto count = std::min(piece - position % piece, data.size() - position);
        return {reinterpret_cast<const unsigned char*>(data.data()) + position, count};
    }
    void consume(std::size_t count) noexcept override { position += count; }

private:
    std::string data;
    std::size_t piece;
    std::size_t position = 0;
};

struct Read {
    TarEntry entry;
    std::string content;
};

std::vector<Read> readAllOf(const std::string& archive, std::size_t piece = 100) {
    PiecewiseSource source(archive, piece);
    TarReader reader(source);
    std::vector<Read> result;
    TarEntry entry;
    while (reader.next(entry)) {
        result.push_back({entry, {}});
        if (entry.type == TarEntry::Type::regular) {
            reader.readContent([&](std::span<const unsigned char> bytes) {
                result.back().content.append(bytes.begin(), bytes.end());
            });
        }
    }
    return result;
}

std::string problemOf(const std::string& archive) {
    try {
        readAllOf(archive);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(TarReader, ReadsMembersWhateverThePiecesOfTheStream) {
    const auto archive = TarWriter()
                             .file("a", std::string(1000, 'x'), 0640)
                             .directory("d/")
                             .symlink("l", "a")
                             .file("empty", "")
                             .finish();
    for (const std::size_t piece : {1U, 7U, 511U, 512U, 513U, 100000U}) {
        const auto members = readAllOf(archive, piece);
        ASSERT_EQ(members.size(), 4U);
        EXPECT_EQ(members[0].content, std::string(1000, 'x'));
        EXPECT_EQ(members[0].entry.mode, 0640);
        EXPECT_EQ(members[1].entry.type, TarEntry::Type::directory);
        EXPECT_EQ(members[2].entry.linkTarget, "a");
        EXPECT_EQ(members[3].entry.size, 0U);
    }
}

TEST(TarReader, SkipsContentThatIsNotRead) {
    PiecewiseSource source(TarWriter().file("a", std::string(5000, 'x')).file("b", "y").finish(), 100);
    TarReader reader(source);
    TarEntry entry;
    ASSERT_TRUE(reader.next(entry));
    ASSERT_TRUE(reader.next(entry));
    EXPECT_EQ(entry.path, "b");
    EXPECT_FALSE(reader.next(entry));
}

TEST(TarReader, AnArchiveMayEndWithoutTheBlocksOfZeros) {
    EXPECT_EQ(readAllOf(TarWriter().file("a", "x").unfinished()).size(), 1U);
    EXPECT_EQ(readAllOf("").size(), 0U);
    EXPECT_EQ(readAllOf(std::string(1024, '\0')).size(), 0U);
}

TEST(TarReader, WhatFollowsTheEndIsNotRead) {
    EXPECT_EQ(readAllOf(TarWriter().file("a", "x").finish() + std::string(512, '!')).size(), 1U);
}

TEST(TarReader, LongNamesOfGnuTar) {
    const std::string name(300, 'n');
    TarWriter tar;
    tar.addRaw({.name = "././@LongLink", .type = 'L', .content = name + '\0'}, 301);
    tar.addRaw({.name = "././@LongLink", .type = 'K', .content = "t" + name + '\0'}, 302);
    tar.addRaw({.name = "short", .type = '2', .link = "short"}, 0);
    tar.file("next", "");
    const auto members = readAllOf(tar.finish());
    EXPECT_EQ(members[0].entry.path, name);
    EXPECT_EQ(members[0].entry.linkTarget, "t" + name);
    EXPECT_EQ(members[1].entry.path, "next");
}

TEST(TarReader, PaxRecordsReplaceFields) {
    TarWriter tar;
    tar.addPax('x', {{"path", "from/pax"}, {"size", "3"}, {"mtime", "77.5"}, {"comment", ""}});
    tar.addRaw({.name = "header", .content = "abc"}, 0);
    const auto members = readAllOf(tar.finish());
    EXPECT_EQ(members[0].entry.path, "from/pax");
    EXPECT_EQ(members[0].content, "abc");
    EXPECT_EQ(members[0].entry.mtime, 77);
}

TEST(TarReader, TimesOfAnySizeAreTimes) {
    const auto mtime = [](const std::string& text) {
        return readAllOf(TarWriter().add({.name = "a", .pax = {{"mtime", text}}}).finish())[0].entry.mtime;
    };
    EXPECT_EQ(mtime("100000000000"), 100'000'000'000);
    EXPECT_EQ(mtime("-100000000000.5"), -100'000'000'001);
    EXPECT_GT(mtime("1" + std::string(30, '0')), 100'000'000'000) << "who stores it clamps it anyway";
    EXPECT_THROW(mtime("1e11"), Error);
}

TEST(TarReader, GlobalHeadersAndVolumeLabelsArePassedOver) {
    TarWriter tar;
    tar.addPax('g', {{"path", "evil"}, {"comment", "0123"}});
    tar.addRaw({.name = "label", .type = 'V'}, 0);
    tar.file("a", "x");
    const auto members = readAllOf(tar.finish());
    ASSERT_EQ(members.size(), 1U);
    EXPECT_EQ(members[0].entry.path, "a");
}

TEST(TarReader, OnlyRegularFilesAreFollowedByData) {
    TarWriter tar;
    tar.addRaw({.name = "l", .type = '1', .link = "a", .magic = "ustar  "},
               5000);  // GNU's; of a pax archive it could be data
    tar.addRaw({.name = "d", .type = '5'}, 5000);
    tar.file("a", "x");
    EXPECT_EQ(readAllOf(tar.finish()).size(), 3U);
}

TEST(TarReader, V7ArchivesMarkDirectoriesByASlash) {
    TarWriter tar;
    tar.addRaw({.name = "d/", .type = '\0'}, 0);
    tar.addRaw({.name = "f", .type = '\0'}, 0);
    const auto members = readAllOf(tar.finish());
    EXPECT_EQ(members[0].entry.type, TarEntry::Type::directory);
    EXPECT_EQ(members[1].entry.type, TarEntry::Type::regular);
}

std::string sparseContent() {
    std::string content(10000, '\0');
    content.replace(1000, 3, "abc");
    content.replace(9997, 3, "end");
    return content;
}

TEST(TarReader, PaxSparseFormats) {
    const std::string expected = sparseContent();
    TarWriter format00;
    format00.addPax('x', {{"GNU.sparse.size", "10000"},
                          {"GNU.sparse.numblocks", "2"},
                          {"GNU.sparse.offset", "1000"},
                          {"GNU.sparse.numbytes", "3"},
                          {"GNU.sparse.offset", "9997"},
                          {"GNU.sparse.numbytes", "3"}});
    format00.addRaw({.name = "f", .content = "abcend"}, 6);
    TarWriter format01;
    format01.addPax(
        'x', {{"GNU.sparse.size", "10000"}, {"GNU.sparse.name", "f"}, {"GNU.sparse.map", "1000,3,9997,3"}});
    format01.addRaw({.name = "GNUSparseFile.0/f", .content = "abcend"}, 6);
    TarWriter format10;
    format10.addPax('x', {{"GNU.sparse.major", "1"},
                          {"GNU.sparse.minor", "0"},
                          {"GNU.sparse.name", "f"},
                          {"GNU.sparse.realsize", "10000"}});
    std::string map = "2\n1000\n3\n9997\n3\n";
    map.resize(512, '\0');
    format10.addRaw({.name = "GNUSparseFile.0/f", .content = map + "abcend"}, 518);
    for (const auto* tar : {&format00, &format01, &format10}) {
        const auto members = readAllOf(TarWriter(*tar).file("next", "n").finish());
        ASSERT_EQ(members.size(), 2U);
        EXPECT_EQ(members[0].entry.path, "f");
        EXPECT_EQ(members[0].entry.size, 10000U);
        EXPECT_EQ(members[0].content, expected);
        EXPECT_EQ(members[1].content, "n");
    }
}

TEST(TarReader, SparseMapsThatContradictThemselvesAreErrors) {
    for (const std::string map :
         {"0,7", "0,3,1,3", "9999,6", "0,3", "0,3,3", "0,99999999999999999999", "18446744073709551615,6"}) {
        TarWriter tar;
        tar.addPax('x', {{"GNU.sparse.size", "10000"}, {"GNU.sparse.name", "f"}, {"GNU.sparse.map", map}});
        tar.addRaw({.name = "f", .content = "abcend"}, 6);
        EXPECT_THAT(problemOf(tar.finish()), HasSubstr("damaged")) << map;
    }
}

TEST(TarReader, TruncatedArchivesAreErrors) {
    const auto archive = TarWriter().file("a", std::string(2000, 'x')).unfinished();
    for (const std::size_t size : {100U, 511U, 513U, 1500U, 2559U}) {
        EXPECT_THAT(problemOf(archive.substr(0, size)), HasSubstr("ends too early")) << size;
    }
    EXPECT_THAT(problemOf(TarWriter().addPax('x', {{"path", "p"}}).unfinished()),
                HasSubstr("after an extended header"));
}

TEST(TarReader, DamagedHeadersAreErrors) {
    auto archive = TarWriter().file("a", "x").finish();
    archive[3] = 'Z';
    EXPECT_THAT(problemOf(archive), HasSubstr("wrong checksum"));
    EXPECT_THAT(problemOf(TarWriter().file("a", "").unfinished() + std::string(512, '\0') +
                          TarWriter().file("b", "").finish()),
                HasSubstr("single block of zeros"));
    EXPECT_THAT(problemOf(std::string(1024, 'x')), HasSubstr("damaged"));
}

TEST(TarReader, MalformedPaxRecordsAreErrors) {
    for (const std::string record : {"5 a=b", "9 a=b\n", "x a=b\n", "6 a=bb\n", "6 =bbb\n", "4 a\n",
                                     "0 a=b\n", "3 \n", "99999999999999999999999 a=b\n"}) {
        TarWriter tar;
        tar.addRaw({.name = "pax", .type = 'x', .content = record}, record.size());
        EXPECT_THAT(problemOf(tar.file("a", "").finish()), HasSubstr("damaged")) << record;
    }
}

TEST(TarReader, NamesWithNulAreErrors) {
    EXPECT_THAT(problemOf(TarWriter().addPax('x', {{"path", std::string("a\0b", 3)}}).file("x", "").finish()),
                HasSubstr("NUL"));
    EXPECT_THAT(
        problemOf(TarWriter().addPax('x', {{"linkpath", std::string("a\0b", 3)}}).symlink("x", "y").finish()),
        HasSubstr("NUL"));
}

TEST(TarReader, ExtendedHeadersAreLimited) {
    TarWriter tar;
    tar.addRaw({.name = "bomb", .type = 'x'}, 1U << 30U);
    EXPECT_THAT(problemOf(tar.finish()), HasSubstr("have more than 2097152 bytes"));
}

TEST(TarReader, AllExtendedHeadersOfAMemberAreLimitedTogether) {
    TarWriter tar;
    for (int i = 0; i < 3; ++i) {
        tar.addPax('x', {{"SCHILY.xattr.user.a", std::string(1'000'000, 'v')}});
    }
    EXPECT_THAT(problemOf(tar.file("x", "").finish()), HasSubstr("have more than 2097152 bytes"));
}

TEST(TarReader, AbsurdSizesAndDevicesAreErrors) {
    TarWriter tar;
    tar.addPax('x', {{"size", "9223372036854775807"}}).file("a", "");
    EXPECT_THAT(problemOf(tar.finish()), HasSubstr("not a number in range"));
    EXPECT_THAT(problemOf(TarWriter().add({.name = "d", .type = '3', .major = 5000}).finish()),
                HasSubstr("device number"));
}

TEST(TarReader, UnknownMemberTypesAreErrors) {
    EXPECT_THAT(problemOf(TarWriter().add({.name = "multi", .type = 'M'}).finish()),
                HasSubstr("unsupported type 'M'"));
}

TEST(TarReader, RefusesWhatTarProgramsReadDifferently) {
    using Records = std::vector<std::pair<std::string, std::string>>;
    const auto problem = [](const Records& records, const TarWriter::Member& member, std::uint64_t size = 0) {
        TarWriter tar;
        if (!records.empty()) {
            tar.addPax('x', records);
        }
        return problemOf(tar.addRaw(member, size).file("next", "").finish());
    };
    const TarWriter::Member file{.name = "a"};
    const TarWriter::Member directory{.name = "a", .type = '5'};
    EXPECT_THAT(problem({{"linkpath", "/etc/passwd"}}, file),
                HasSubstr("a link target without being a link"));
    EXPECT_THAT(problem({{"size", "512"}}, directory), HasSubstr("data without being a file"));
    EXPECT_THAT(problem({{"comment", ""}}, {.name = "a", .type = '1', .link = "b"}, 512),
                HasSubstr("data without being a file"));
    EXPECT_THAT(problem({}, {.name = "a", .type = '1'}), HasSubstr("empty link target"));
    EXPECT_THAT(problem({}, {.name = "d/"}), HasSubstr("named like a directory"));
    EXPECT_THAT(problem({}, {.name = "d/", .type = '\0'}, 512), HasSubstr("data without being a file"));
    EXPECT_THAT(problem({}, {.name = "label", .type = 'V'}, 512), HasSubstr("volume label has data"));
    EXPECT_THAT(problem({}, {.name = "a", .magic = "ustar 00", .prefix = "p"}), HasSubstr("unknown format"));
    EXPECT_THAT(problem({{"comment", std::string("a\0b", 3)}}, file), HasSubstr("NUL"));
    EXPECT_THAT(problem({{"size", ""}}, file), HasSubstr("'size' is empty"));
    EXPECT_THAT(problem({{"GNU.sparse.name", "b"}}, file), HasSubstr("unknown format"));
    EXPECT_THAT(problem({{"GNU.sparse.size", "1"}}, file), HasSubstr("unknown format"));
    EXPECT_THAT(problem({{"GNU.sparse.name", "b"}}, directory),
                HasSubstr("a sparse map without being a file"));
    EXPECT_THAT(problem({{"SCHILY.realsize", "1"}}, file), HasSubstr("unknown format"));
    EXPECT_THAT(problem({{"SUN.holesdata", " 0 1 2"}}, file), HasSubstr("unknown format"));
    EXPECT_THAT(problem({}, {.name = "s", .type = 'S'}), HasSubstr("unknown format"));
    EXPECT_THAT(
        problem({{"GNU.sparse.map", "0,0"}, {"GNU.sparse.size", "1"}, {"GNU.sparse.realsize", "2"}}, file),
        HasSubstr("unknown format"));
    EXPECT_THAT(
        problem({{"GNU.sparse.numblocks", "1"}, {"GNU.sparse.numbytes", "0"}, {"GNU.sparse.offset", "0"}},
                file),
        HasSubstr("inconsistent"));
    EXPECT_THAT(
        problem({{"GNU.sparse.offset", "0"}, {"GNU.sparse.numbytes", "0"}, {"GNU.sparse.size", "1"}}, file),
        HasSubstr("inconsistent"));
}

TEST(TarReader, RefusesTwoNamesOfAMember) {
    TarWriter twoHeaders;
    twoHeaders.addPax('x', {{"path", "p"}}).addPax('x', {{"comment", ""}});
    EXPECT_THAT(problemOf(twoHeaders.file("a", "").finish()), HasSubstr("two extended headers"));
    TarWriter twoNames;
    twoNames.addRaw({.name = "@", .type = 'L', .content = "long"}, 4).addPax('x', {{"path", "p"}});
    EXPECT_THAT(problemOf(twoNames.file("a", "").finish()), HasSubstr("two names"));
    TarWriter linkOfFile;
    linkOfFile.addRaw({.name = "@", .type = 'K', .content = "long"}, 4);
    EXPECT_THAT(problemOf(linkOfFile.file("a", "").finish()),
                HasSubstr("a link target without being a link"));
    EXPECT_THAT(problemOf(TarWriter().addRaw({.name = "@", .type = 'L'}, 0).file("a", "").finish()),
                HasSubstr("name is empty"));
}

TEST(TarReader, OnlyBlanksSurroundANumber) {
    const auto size = [](std::string_view field) {
        return readAllOf(TarWriter()
                             .addRaw({.name = "a", .content = "x", .size = std::string(field)}, 1)
                             .finish())[0]
            .entry.size;
    };
    EXPECT_EQ(size("  0000001 "), 1U);
    EXPECT_THROW(size("\n0000000001"), Error);
    EXPECT_THROW(size("\t0000000001"), Error);
}

TEST(TarReader, SurvivesEveryDamageOfASingleByte) {
    TarWriter tar;
    tar.addPax('x', {{"path", "p"}, {"GNU.sparse.size", "10000"}, {"GNU.sparse.map", "1000,3,9997,3"}});
    tar.addRaw({.name = "f", .content = "abcend"}, 6).file("b", "content").symlink("l", "t");
    const auto good = tar.finish();
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (const char replacement : {'\0', '9', '\xff'}) {
            auto bad = good;
            bad[i] = replacement;
            problemOf(bad);  // an error or not; never a crash or a hang
        }
    }
}

}  // namespace
}  // namespace sarus::image::build::tar_reader_test
