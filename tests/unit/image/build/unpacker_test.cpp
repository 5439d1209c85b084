// Unpacking, of friendly and of hostile images.

#include "image/build/unpacker.hpp"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <thread>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::unpacker_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::ElementsAre;
using testing::HasSubstr;

class Unpack : public testing::Test {
protected:
    std::string makeImage(const std::string& archive) {
        layout.writeIndex(layout.addImage({archive}));
        buildImage(test::requestFor(layout, layout.scratch("image")));
        return layout.scratch("image");
    }
    struct stat statusOf(const std::string& name) {
        struct stat status {};
        EXPECT_EQ(::lstat((layout.scratch("out/") + name).c_str(), &status), 0) << name;
        return status;
    }
    std::string problemOf(const std::string& image) {
        try {
            unpackSquashfs(image, layout.scratch("out"));
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }
    std::vector<std::string> leftovers() {
        std::vector<std::string> names;
        DIR* directory = ::opendir(layout.scratch("").c_str());
        while (const auto* entry = ::readdir(directory)) {
            if (std::string_view(entry->d_name).find(".unpack-") != std::string_view::npos) {
                names.emplace_back(entry->d_name);
            }
        }
        ::closedir(directory);
        return names;
    }
    /// An image whose root holds one entry of a name that no honest program writes.
    std::string hostileImage(std::string_view name, Inode::Type type) {
        const std::string path = layout.scratch("hostile");
        const UniqueFd file = openFile(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
        HashPool hashes;
        SquashfsWriter writer(file.get(), path, SquashfsOptions(), 1, hashes);
        const PathTable paths;
        Inodes inodes;
        ImageTree tree(paths, inodes);
        Inode& inode = inodes.emplace_back();
        inode.type = type;
        inode.target = "/tmp";
        tree.root().children.emplace(name, std::make_unique<Node>(&inode, &tree.root(), 1));
        writer.contents().finish();
        writer.writeTree(tree, {{}}, {0, 0});
        return path;
    }
    LayoutWriter layout;
};

TEST_F(Unpack, MakesFilesDirectoriesAndLinks) {
    unpackSquashfs(makeImage(TarWriter()
                                 .directory("d", 0711, 5000)
                                 .file("d/f", std::string(300000, 'x'), 0640)
                                 .hardLink("d/g", "d/f")
                                 .symlink("l", "/etc/passwd")
                                 .file("empty", "")
                                 .add({.name = "pipe", .type = '6', .mode = 0600})
                                 .finish()),
                   layout.scratch("out"));
    EXPECT_EQ(readFile(layout.scratch("out/d/f")), std::string(300000, 'x'));
    EXPECT_EQ(statusOf("d/f").st_mode, 0100640U);
    EXPECT_EQ(statusOf("d/f").st_mtime, 1'000'000'000);
    EXPECT_EQ(statusOf("d/f").st_ino, statusOf("d/g").st_ino);
    EXPECT_EQ(statusOf("d").st_mode, 0040711U);
    EXPECT_EQ(statusOf("d").st_mtime, 5000);
    EXPECT_TRUE(S_ISLNK(statusOf("l").st_mode));
    EXPECT_EQ(statusOf("empty").st_size, 0);
    EXPECT_TRUE(S_ISFIFO(statusOf("pipe").st_mode));
    EXPECT_THAT(leftovers(), ElementsAre());
}

TEST_F(Unpack, TheOwnerCanAlwaysReadAndEnter) {
    unpackSquashfs(makeImage(TarWriter().directory("d", 0).file("d/f", "x", 0).finish()),
                   layout.scratch("out"));
    EXPECT_EQ(statusOf("d").st_mode, 0040500U);
    EXPECT_EQ(statusOf("d/f").st_mode, 0100400U);
}

TEST_F(Unpack, DropsSetIdBitsAndDevices) {
    unpackSquashfs(makeImage(TarWriter()
                                 .file("su", "x", 06755)
                                 .directory("sg", 02755)
                                 .add({.name = "null", .type = '3', .mode = 0666, .major = 1, .minor = 3})
                                 .finish()),
                   layout.scratch("out"));
    EXPECT_EQ(statusOf("su").st_mode, 0100755U);
    EXPECT_EQ(statusOf("sg").st_mode, 0040755U);
    EXPECT_FALSE(pathExists(layout.scratch("out/null")));
}

TEST_F(Unpack, SetsUserAttributesOnly) {
    unpackSquashfs(makeImage(TarWriter()
                                 .add({.name = "f",
                                       .content = "x",
                                       .pax = {{"SCHILY.xattr.user.x", "v"},
                                               {"SCHILY.xattr.security.capability", "cap"}}})
                                 .finish()),
                   layout.scratch("out"));
    char value[16];
    EXPECT_EQ(::getxattr(layout.scratch("out/f").c_str(), "security.capability", value, sizeof value), -1);
    const auto size = ::getxattr(layout.scratch("out/f").c_str(), "user.x", value, sizeof value);
    if (size < 0 && errno == ENOTSUP) {
        GTEST_SKIP() << "this filesystem has no user attributes";
    }
    EXPECT_EQ(std::string(value, static_cast<std::size_t>(size)), "v");
}

TEST_F(Unpack, HolesStayHoles) {
    unpackSquashfs(makeImage(TarWriter().file("zeros", std::string(10U << 20U, '\0')).finish()),
                   layout.scratch("out"));
    EXPECT_EQ(statusOf("zeros").st_size, 10 << 20);
    EXPECT_LT(statusOf("zeros").st_blocks, 1000);
}

TEST_F(Unpack, AnExistingResultStays) {
    createDirectories(layout.scratch("out"));
    LayoutWriter::write(layout.scratch("out/mark"), "first");
    EXPECT_EQ(problemOf(makeImage(TarWriter().file("f", "x").finish())), "no error");
    EXPECT_EQ(readFile(layout.scratch("out/mark")), "first");
    EXPECT_FALSE(pathExists(layout.scratch("out/f")));
    EXPECT_THAT(leftovers(), ElementsAre());
}

TEST_F(Unpack, SeveralAtOnceAllSucceed) {
    TarWriter tar;
    for (int i = 0; i < 200; ++i) {
        tar.file(cat("d", i % 9, "/f", i), cat("content ", i));
    }
    const auto image = makeImage(tar.finish());
    std::vector<std::string> problems(4);
    std::vector<std::thread> threads;
    for (auto& problem : problems) {
        threads.emplace_back([&] { problem = problemOf(image); });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    EXPECT_THAT(problems, testing::Each("no error"));
    EXPECT_EQ(readFile(layout.scratch("out/d1/f199")), "content 199");
    EXPECT_THAT(leftovers(), ElementsAre());
}

TEST_F(Unpack, ForbiddenNamesAreErrors) {
    for (const std::string_view name : {"..", ".", "a/b", "../escape", "/etc"}) {
        for (const auto type : {Inode::Type::regular, Inode::Type::symlink}) {
            EXPECT_THAT(problemOf(hostileImage(name, type)), HasSubstr("forbidden name")) << name;
            EXPECT_FALSE(pathExists(layout.scratch("out")));
            EXPECT_THAT(leftovers(), ElementsAre());
        }
    }
    EXPECT_FALSE(pathExists(layout.scratch("escape")));
}

TEST_F(Unpack, WhatIsNoSquashfsIsAnError) {
    LayoutWriter::write(layout.scratch("text"), std::string(10000, 'x'));
    EXPECT_THAT(problemOf(layout.scratch("text")), HasSubstr("not a squashfs file"));
    LayoutWriter::write(layout.scratch("text"), "");
    EXPECT_NE(problemOf(layout.scratch("text")), "no error");
    ASSERT_EQ(::mkfifo(layout.scratch("fifo").c_str(), 0600), 0);
    EXPECT_THAT(problemOf(layout.scratch("fifo")), HasSubstr("not a regular file"));
    EXPECT_THAT(problemOf(layout.scratch("missing")), HasSubstr("No such file"));
}

TEST_F(Unpack, DamagedImagesNeverCrashOrEscape) {
    const auto good = readFile(makeImage(
        TarWriter().file("d/f", std::string(5000, 'x')).symlink("l", "t").hardLink("h", "d/f").finish()));
    for (std::size_t i = 0; i < good.size(); ++i) {
        if (good[i] == 0 && i % 16 != 0) {
            continue;
        }
        auto bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 0x55);
        LayoutWriter::write(layout.scratch("bad"), bad);
        problemOf(layout.scratch("bad"));
        removeTree(layout.scratch("out"));
    }
    for (std::size_t size = 0; size < good.size(); size += 97) {
        LayoutWriter::write(layout.scratch("bad"), good.substr(0, size));
        problemOf(layout.scratch("bad"));
        removeTree(layout.scratch("out"));
    }
    EXPECT_THAT(leftovers(), ElementsAre());
}

}  // namespace
}  // namespace sarus::image::build::unpacker_test
