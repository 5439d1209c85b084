// Archives that are read in place.

#include "image/build/read/archive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/build/read/image_names.hpp"

namespace sarus::image::build::archive_test {
namespace {

using test::TarWriter;
using testing::HasSubstr;

class ArchiveTest : public testing::Test {
protected:
    std::shared_ptr<const SourceFiles> open(const std::string& bytes) {
        test::LayoutWriter::write(scratch.scratch("archive"), bytes);
        return openArchive(openFile(scratch.scratch("archive"), O_RDONLY));
    }
    static std::string content(const SourceFiles& files, const std::string& name) {
        return readSmallFile(files, name, 1U << 20U);
    }
    std::string problem(const std::string& bytes, const std::string& name = "a") {
        try {
            content(*open(bytes), name);
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    test::LayoutWriter scratch;
};

TEST_F(ArchiveTest, MembersAreReadFromTheirPlace) {
    const std::string large(70000, 'y');
    const auto files = open(TarWriter()
                                .directory("d")
                                .file("d/a", large)
                                .file("./b", "of b")
                                .file("no/directory/for", "it")
                                .finish());
    EXPECT_EQ(content(*files, "d/a"), large);
    EXPECT_EQ(content(*files, "b"), "of b");
    EXPECT_EQ(content(*files, "no/directory/for"), "it");
    EXPECT_FALSE(files->contains("d"));
    EXPECT_THROW(readSmallFile(*files, "d/a", 69999), Error);
}

TEST_F(ArchiveTest, LinksAreFollowedAmongTheMembersOnly) {
    const auto files = open(TarWriter()
                                .file("old/layer.tar", "layer")
                                .symlink("new/layer.tar", "../old/layer.tar")
                                .hardLink("third", "new/layer.tar")
                                .symlink("up", "../old/layer.tar")
                                .symlink("absolute", "/etc/passwd")
                                .symlink("endless", "endless")
                                .finish());
    EXPECT_EQ(content(*files, "new/layer.tar"), "layer");
    EXPECT_EQ(content(*files, "third"), "layer");
    EXPECT_THROW(files->open("up"), Error);
    EXPECT_THROW(files->open("absolute"), Error);
    EXPECT_THROW(files->open("endless"), Error);
}

TEST_F(ArchiveTest, NamesAreNotResolved) {
    EXPECT_THAT(problem(TarWriter().symlink("x", "y").file("x/a", "1").finish(), "y/a"),
                HasSubstr("has no member 'y/a'"));
    EXPECT_THAT(problem(TarWriter().file("/a", "1").finish()), HasSubstr("has no member"));
    EXPECT_THAT(problem(TarWriter().file("b/../a", "1").finish()), HasSubstr("has no member"));
}

TEST_F(ArchiveTest, WhatTwoReadersCouldSeeDifferentlyIsRefused) {
    EXPECT_THAT(problem(TarWriter().file("a", "1").file("./a", "2").finish()), HasSubstr("member 'a' twice"));
    EXPECT_EQ(problem(TarWriter().file("b", "1").file("b", "2").file("a", "").finish()), "no error");
}

TEST_F(ArchiveTest, SparseMembersAreNamed) {
    TarWriter tar;
    tar.addPax('x', {{"GNU.sparse.map", "0,3"}, {"GNU.sparse.size", "1000"}});
    tar.addRaw({.name = "a", .content = "abc"}, 3);
    EXPECT_THAT(problem(tar.finish()), HasSubstr("'a' as a sparse file"));
}

TEST_F(ArchiveTest, WhatIsNoArchiveOrIsCutOffIsRefused) {
    const auto archive = TarWriter().file("a", std::string(5000, 'x')).finish();
    EXPECT_THAT(problem(""), HasSubstr("is empty"));
    EXPECT_THAT(problem("text"), HasSubstr("no image archive"));
    EXPECT_THAT(problem(std::string(5000, 'x')), HasSubstr("no image archive"));
    EXPECT_THAT(problem(archive.substr(0, 4000)), HasSubstr("ends too early"));
    EXPECT_EQ(problem(archive.substr(0, 5632)), "no error") << "many writers leave out the blocks at the end";
}

TEST(ImageNames, OneImageHasManyNames) {
    for (const char* name : {"tool", "tool:latest", "library/tool", "docker.io/library/tool:latest",
                             "localhost/tool", "load/library/tool"}) {
        EXPECT_TRUE(sameImageName(name, "tool:latest")) << name;
    }
    for (const char* name : {"tool:1", "other", "group/tool", "a.b:5000/tools"}) {
        EXPECT_FALSE(sameImageName(name, "tool:latest")) << name;
    }
    EXPECT_TRUE(sameImageName("localhost:5000/group/tool:1", "load/group/tool:1"));
    EXPECT_TRUE(isOnlyTag("1.0"));
    EXPECT_FALSE(isOnlyTag("tool:1.0"));
    EXPECT_EQ(tagOf("localhost:5000/tool"), "latest");
    EXPECT_EQ(tagOf("localhost:5000/tool:2"), "2");
}

}  // namespace
}  // namespace sarus::image::build::archive_test
