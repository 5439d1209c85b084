// A squashfs file with other owners is the one that a conversion would have made, and files that cannot be
// trusted are not copied.

#include "image/build/reuse.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqfs/id_table.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "base/file_io.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/store/conversions.hpp"

namespace sarus::image::build::reuse_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;

class Reuse : public testing::Test {
protected:
    Reuse() {
        TarWriter tar;
        for (const auto* id : {"0", "1000", "4000000000"}) {
            tar.add({.name = cat("by", id),
                     .content = std::string(200000, id[0]),
                     .mode = 06755,
                     .pax = {{"uid", id}, {"gid", cat(id[0], '7')}, {"SCHILY.xattr.user.x", "v"}}});
        }
        layout.writeIndex(layout.addImage({tar.finish(), TarWriter().file("upper", "x").finish()}));
        ::unsetenv("HOME");
    }
    ~Reuse() override { ::setenv("HOME", "/", 1); }

    /// Converts the image; with `owner` all files are 1234:5678, else as in the layers.
    BuildResult convert(const std::string& name, bool owner, std::string_view options = "") {
        auto request = test::requestFor(layout, layout.scratch(name));
        request.squashfs = parseMksquashfsOptions(options);
        if (!owner) {
            request.owner.reset();
        }
        auto result = buildImage(request);
        layersId = result.layersId.empty() ? layersId : result.layersId;
        return result;
    }

    std::optional<ReusedFile> reuse(const std::string& name, const ForcedOwner& owner) {
        const auto output = openFile(layout.scratch("out"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        return reuseSquashfs(layout.scratch(name), layersId, owner, output.get(), {});
    }

    void expectRefused(const std::string& why) {
        EXPECT_FALSE(reuse("made", {})) << why;
        EXPECT_TRUE(readFile(layout.scratch("out")).empty()) << why;
    }

    std::map<std::string, std::string> ownersIn(const std::string& name) {
        squashfs::Reader reader(layout.scratch(name));
        const auto ids = squashfs::own(sqfs_id_table_create(0));
        const auto decompressor = reader.newDecompressor();
        EXPECT_EQ(
            sqfs_id_table_read(ids.get(), reader.file().get(), &reader.superblock(), decompressor.get()), 0);
        std::map<std::string, std::string> owners;
        for (const auto& entry : reader.list(*reader.root())) {
            sqfs_u32 uid = 0;
            sqfs_u32 gid = 0;
            sqfs_id_table_index_to_id(ids.get(), entry.inode->base.uid_idx, &uid);
            sqfs_id_table_index_to_id(ids.get(), entry.inode->base.gid_idx, &gid);
            owners[entry.name] = cat(uid, ':', gid);
        }
        return owners;
    }

    LayoutWriter layout;
    std::string layersId;
};

TEST_F(Reuse, TheCopyIsWhatAConversionMakes) {
    const auto flat = convert("flat", true, "-comp lz4");
    const auto kept = convert("kept", false, "-comp lz4");
    EXPECT_EQ(flat.layersId, kept.layersId);
    EXPECT_EQ(flat.layersId.size(), 64U);
    EXPECT_EQ(ownersIn("flat"), (std::map<std::string, std::string>{{"by0", "1234:5678"},
                                                                    {"by1000", "1234:5678"},
                                                                    {"by4000000000", "1234:5678"},
                                                                    {"upper", "1234:5678"}}));
    EXPECT_EQ(
        ownersIn("kept"),
        (std::map<std::string, std::string>{
            {"by0", "0:7"}, {"by1000", "1000:17"}, {"by4000000000", "4000000000:47"}, {"upper", "0:0"}}));
    const auto reowned = reuse("flat", {});
    ASSERT_TRUE(reowned);
    EXPECT_TRUE(readFile(layout.scratch("out")) == readFile(layout.scratch("kept")));
    EXPECT_EQ(reowned->digest, kept.squashfsDigest);
    EXPECT_EQ(reowned->size, kept.squashfsSize);
    EXPECT_EQ(reowned->entries, kept.entries);
    EXPECT_EQ(reowned->compressor, "lz4");
    const auto flattened = reuse("kept", {.uid = 1234, .gid = 5678});
    ASSERT_TRUE(flattened);
    EXPECT_TRUE(readFile(layout.scratch("out")) == readFile(layout.scratch("flat")));
    EXPECT_EQ(flattened->digest, flat.squashfsDigest);
}

TEST_F(Reuse, EveryCompressorAndTheLackOfPadding) {
    for (const auto* options : {"-comp gzip", "-comp xz", "-comp zstd -nopad", "-comp lz4 -exports"}) {
        convert("flat", true, options);
        convert("kept", false, options);
        ASSERT_TRUE(reuse("flat", {})) << options;
        EXPECT_TRUE(readFile(layout.scratch("out")) == readFile(layout.scratch("kept"))) << options;
    }
}

TEST_F(Reuse, FilesThatLackSomethingOfTheLayersAreNotRecorded) {
    convert("other", true);
    for (const auto* options : {"-no-xattrs", "-all-time 5"}) {
        EXPECT_EQ(convert("made", true, options).layersId, "");
        expectRefused(options);
    }
    EXPECT_NE(convert("made", true, "-all-root").layersId, "");
}

TEST_F(Reuse, OtherLayersAndDamagedFilesAreRefused) {
    convert("made", true);
    const auto good = readFile(layout.scratch("made"));
    ASSERT_TRUE(reuse("made", {}));
    for (const std::size_t position : {0U, 40U, 48U, 100U, 300U}) {
        auto bytes = good;
        bytes[position] = static_cast<char>(bytes[position] ^ 1);
        LayoutWriter::write(layout.scratch("made"), bytes);
        expectRefused(cat("a changed byte at ", position));
    }
    const auto record = good.find("sarus owners: ");
    for (const auto position : {record, record + 20, record + 85, record - 3}) {
        auto bytes = good;
        bytes[position] = static_cast<char>(bytes[position] ^ 1);
        LayoutWriter::write(layout.scratch("made"), bytes);
        expectRefused(cat("a changed byte in the record at ", position - record));
    }
    for (const std::size_t size : {0U, 50U, 96U, 3000U}) {
        LayoutWriter::write(layout.scratch("made"), good.substr(0, size));
        expectRefused(cat("truncated to ", size));
    }
    LayoutWriter::write(layout.scratch("made"), good.substr(0, record));
    expectRefused("no record");
    LayoutWriter::write(layout.scratch("made"), good + "x");
    expectRefused("longer");
    LayoutWriter::write(layout.scratch("made"), good);
    layersId = std::string(64, '0');
    expectRefused("other layers");
}

TEST_F(Reuse, OnlyRegularFilesThatNobodyElseWritesAreRead) {
    convert("good", true);
    const auto path = layout.scratch("made");
    expectRefused("none");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expectRefused("a FIFO");
    ::unlink(path.c_str());
    ASSERT_EQ(::symlink(layout.scratch("good").c_str(), path.c_str()), 0);
    expectRefused("a symbolic link");
    ::unlink(path.c_str());
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    expectRefused("a directory");
    ::rmdir(path.c_str());
    LayoutWriter::write(path, readFile(layout.scratch("good")));
    for (const mode_t mode : {0664U, 0646U}) {
        ASSERT_EQ(::chmod(path.c_str(), mode), 0);
        expectRefused("others may write");
    }
    ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
    EXPECT_TRUE(reuse("made", {}));
}

TEST_F(Reuse, ACopyThatDoesNotFitLeavesAnEmptyOutput) {
    convert("made", true);
    struct rlimit old {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto oldHandler = ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small { 1000, old.rlim_max };
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    expectRefused("the disk is full");
    ::setrlimit(RLIMIT_FSIZE, &old);
    ::signal(SIGXFSZ, oldHandler);
}

TEST_F(Reuse, AConversionLooksForTheFileOfTheOtherProgram) {
    const auto kept = convert("kept", false, "-comp lz4");
    ::setenv("HOME", layout.scratch("").c_str(), 1);
    noteConversion(Converter::podmanHpc, kept.layersId, layout.scratch("kept"));
    auto request = test::requestFor(layout, layout.scratch("out"));
    EXPECT_NE(buildImage(request).compressor, "lz4");
    request.convertedBy = Converter::sarus;
    EXPECT_NE(buildImage(request).compressor, "lz4");
    request.convertedBy = Converter::podmanHpc;
    EXPECT_EQ(buildImage(request).compressor, "lz4");
    EXPECT_EQ(ownersIn("out").at("by1000"), "1234:5678");
    LayoutWriter::write(layout.scratch("kept"), "no more");
    EXPECT_NE(buildImage(request).compressor, "lz4") << "the layers are converted";
    EXPECT_EQ(ownersIn("out").at("by1000"), "1234:5678");
}

}  // namespace
}  // namespace sarus::image::build::reuse_test
