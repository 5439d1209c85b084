// What a container has written, above its image.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/temporary_directory.hpp"
#include "image/build/layer_fixture.hpp"
#include "image/build/read/squashfs_layer.hpp"

namespace sarus::image::build::container_test {
namespace {

using test::LayoutWriter;
using test::TarWriter;
using testing::UnorderedElementsAre;

/// The members of a squashfs file, with their content.
struct Content {
    TarEntry entry;
    std::string text;
};

std::map<std::string, Content> contentOf(const std::string& image) {
    std::atomic<std::uint64_t> bytes{0};
    SquashfsLayer layer(image, bytes);
    std::map<std::string, Content> all;
    for (TarEntry entry; layer.next(entry);) {
        auto& found = all[entry.path];
        found.entry = entry;
        if (entry.type == TarEntry::Type::regular) {
            layer.readContent(
                [&](std::span<const unsigned char> part) { found.text.append(part.begin(), part.end()); });
        }
    }
    return all;
}

class SavedContainer : public testing::Test {
protected:
    void imageOf(const std::string& archive, std::optional<Owner> owner = {}) {
        layout.writeIndex(layout.addImage({archive}));
        auto building = test::requestFor(layout, layout.scratch("image"));
        building.owner = owner;
        buildImage(building);
    }
    void write(const std::string& name, const std::string& text) const {
        createDirectories((upper / name).substr(0, (upper / name).rfind('/')));
        replaceFile(upper / name, text, 0644);
    }
    std::map<std::string, Content> save() {
        request.image = layout.scratch("image");
        request.directories = {upper.path()};
        request.outputPath = layout.scratch("saved");
        request.progress.style = ProgressStyle::none;
        buildImage(request);
        return contentOf(request.outputPath);
    }
    std::string problem() {
        try {
            save();
        } catch (const Error& error) {
            return cat(error.what(), '\n', error.hint());
        }
        return "no error";
    }

    LayoutWriter layout;
    sarus::test::TemporaryDirectory upper;
    BuildRequest request;
};

std::vector<std::string> names(const std::map<std::string, Content>& all) {
    std::vector<std::string> result;
    for (const auto& [name, content] : all) {
        result.push_back(name);
    }
    return result;
}

TEST_F(SavedContainer, HasTheImageAndTheChanges) {
    const std::string big(300'000, 'b');
    imageOf(TarWriter()
                .directory("d", 0711, 5000)
                .file("d/f", big, 04640)
                .hardLink("d/g", "d/f")
                .symlink("l", "/etc/passwd")
                .file("changed", "old")
                .file("zeros", std::string(1U << 20U, '\0') + "end")
                .add({.name = "null", .type = '3', .mode = 0666, .major = 5, .minor = 300})
                .add({.name = "pipe", .type = '6', .mode = 0600})
                .add({.name = "x", .content = "x", .pax = {{"SCHILY.xattr.user.x", "v"}}})
                .finish());
    write("changed", "new");
    write("d/added", "added");
    ASSERT_EQ(::link((upper / "d/added").c_str(), (upper / "linked").c_str()), 0);
    const auto all = save();
    EXPECT_THAT(names(all), UnorderedElementsAre(".", "d", "d/f", "d/g", "l", "changed", "zeros", "null",
                                                 "pipe", "x", "d/added", "linked"));
    EXPECT_EQ(all.at("d/f").text, big);
    EXPECT_EQ(all.at("d/f").entry.mode, 04640);
    EXPECT_EQ(all.at("d/g").entry.type, TarEntry::Type::hardLink);
    EXPECT_EQ(all.at("d/g").entry.linkTarget, "d/f");
    EXPECT_EQ(all.at("l").entry.linkTarget, "/etc/passwd");
    EXPECT_EQ(all.at("changed").text, "new");
    EXPECT_EQ(all.at("zeros").text, std::string(1U << 20U, '\0') + "end");
    EXPECT_EQ(all.at("null").entry.deviceMajor, 5U);
    EXPECT_EQ(all.at("null").entry.deviceMinor, 300U);
    EXPECT_EQ(all.at("pipe").entry.type, TarEntry::Type::fifo);
    EXPECT_THAT(all.at("x").entry.xattrs, UnorderedElementsAre(std::pair("user.x", "v")));
    EXPECT_EQ(all.at("linked").entry.linkTarget, "d/added");
    EXPECT_EQ(all.at("linked").entry.uid, ::geteuid());
}

TEST_F(SavedContainer, KeepsTheOwnersOfTheImage) {
    imageOf(TarWriter().file("f", "x").finish(), Owner{4711, 815});
    const auto all = save();
    EXPECT_EQ(all.at("f").entry.uid, 4711U);
    EXPECT_EQ(all.at("f").entry.gid, 815U);
}

TEST_F(SavedContainer, LacksWhatTheContainerRemoved) {
    imageOf(TarWriter()
                .directory("d")
                .file("d/gone", "x")
                .directory("new")
                .file("new/old", "x")
                .file("e/f", "x")
                .finish());
    write("d/.wh.gone", "");
    write("new/file", "x");
    struct stat status {};
    ASSERT_EQ(::stat((upper / "new").c_str(), &status), 0);
    request.container.opaque = {status.st_ino};
    EXPECT_THAT(names(save()), UnorderedElementsAre(".", "d", "new", "new/file", "e", "e/f"));
}

TEST_F(SavedContainer, HasTheImagesOwnFileWhereThatIsAskedFor) {
    imageOf(TarWriter().file("etc/hosts", "the image's").finish());
    write("etc/hosts", "the node's");
    write("etc/passwd", "the node's");
    write("etc/other", "other");
    request.container.leftOut = {"etc/hosts", "etc/passwd"};
    const auto all = save();
    EXPECT_EQ(all.at("etc/hosts").text, "the image's");
    EXPECT_THAT(names(all), UnorderedElementsAre(".", "etc", "etc/hosts", "etc/other"));
}

TEST_F(SavedContainer, ADamagedImageIsAnErrorAndNeverCrashes) {
    imageOf(TarWriter()
                .file("d/f", std::string(5000, 'x'))
                .symlink("l", "t")
                .hardLink("h", "d/f")
                .add({.name = "null", .type = '3', .mode = 0666, .major = 1, .minor = 3})
                .finish());
    const auto good = readFile(layout.scratch("image"));
    for (std::size_t i = 0; i < good.size(); ++i) {
        if (good[i] == 0 && i % 16 != 0) {
            continue;
        }
        auto damaged = good;
        damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
        LayoutWriter::write(layout.scratch("image"), damaged);
        problem();
    }
}

}  // namespace
}  // namespace sarus::image::build::container_test
