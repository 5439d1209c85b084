// How layers become one tree: OCI image specification, layer.md, and the rules stated at ImageTree and
// LayerMerger.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "image/build/layer_fixture.hpp"

namespace sarus::image::build::merge_test {
namespace {

using test::convert;
using test::namesOf;
using test::TarWriter;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string errorOf(const std::vector<std::string>& layers) {
    try {
        convert(layers);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

TEST(Merge, AnImageWithoutLayersIsAnEmptyRoot) {
    const auto tree = convert({});
    EXPECT_THAT(namesOf(tree), IsEmpty());
    EXPECT_EQ(tree.at("/").mode, 0040755U);
    EXPECT_EQ(tree.at("/").mtime, 0U);
}

TEST(Merge, AFileOfAnUpperLayerReplacesTheLowerOne) {
    const auto tree =
        convert({TarWriter().file("a", "old", 0600).finish(), TarWriter().file("a", "new", 0755).finish()});
    EXPECT_EQ(tree.at("a").content, "new");
    EXPECT_EQ(tree.at("a").mode, 0100755U);
}

TEST(Merge, AWhiteoutHidesFilesAndWholeTreesOfLowerLayers) {
    const auto lower = TarWriter()
                           .file("a", "1")
                           .directory("d")
                           .file("d/x", "2")
                           .file("d/y/z", "3")
                           .file("keep", "4")
                           .finish();
    EXPECT_THAT(namesOf(convert({lower, TarWriter().file(".wh.a", "").file(".wh.d", "").finish()})),
                ElementsAre("keep"));
    EXPECT_THAT(namesOf(convert({lower, TarWriter().file("d/y/.wh.z", "").finish()})),
                ElementsAre("a", "d", "d/x", "d/y", "keep"));
}

TEST(Merge, AWhiteoutOfNothingChangesNothing) {
    EXPECT_THAT(namesOf(convert({TarWriter().file("a", "").finish(),
                                 TarWriter().file(".wh.b", "").file("no/.wh.c", "").finish()})),
                ElementsAre("a"));
}

TEST(Merge, AWhiteoutDoesNotActOnItsOwnLayerWhereverItStands) {
    const auto lower = TarWriter().directory("d", 0700).file("d/old", "1").finish();
    const auto before = TarWriter().file(".wh.d", "").file("d/new", "2").finish();
    const auto after = TarWriter().file("d/new", "2").file(".wh.d", "").finish();
    for (const auto& upper : {before, after}) {
        const auto tree = convert({lower, upper});
        EXPECT_THAT(namesOf(tree), ElementsAre("d", "d/new"));
        EXPECT_EQ(tree.at("d").mode, 0040755U) << "the old directory's metadata went with it";
    }
}

TEST(Merge, AnOpaqueDirectoryKeepsOnlyItsOwnLayersEntriesWhereverTheMarkStands) {
    const auto lower = TarWriter().directory("d", 0700).file("d/old", "1").file("d/sub/x", "1").finish();
    for (const bool markFirst : {true, false}) {
        TarWriter upper;
        if (markFirst) {
            upper.file("d/.wh..wh..opq", "");
        }
        upper.file("d/new", "2");
        if (!markFirst) {
            upper.file("d/.wh..wh..opq", "");
        }
        const auto tree = convert({lower, upper.finish()});
        EXPECT_THAT(namesOf(tree), ElementsAre("d", "d/new"));
        EXPECT_EQ(tree.at("d").mode, 0040700U) << "an opaque mark says nothing about the directory itself";
    }
}

TEST(Merge, LayersAboveAWhiteoutShowAgain) {
    const auto tree = convert({TarWriter().file("a", "1").finish(), TarWriter().file(".wh.a", "").finish(),
                               TarWriter().file("a", "3").finish()});
    EXPECT_EQ(tree.at("a").content, "3");
}

TEST(Merge, OtherReservedNamesAreIgnored) {
    const auto tree = convert({TarWriter()
                                   .directory(".wh..wh.plnk")
                                   .file(".wh..wh.plnk/1.2", "x")
                                   .file(".wh..wh.aufs", "")
                                   .file("a", "")
                                   .finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("a"));
}

TEST(Merge, WhiteoutsOfImpossibleNamesAreErrors) {
    for (const std::string name : {".wh.", ".wh..", ".wh..."}) {
        EXPECT_THAT(errorOf({TarWriter().file("d/" + name, "").finish()}),
                    HasSubstr("whiteout of the impossible name"));
    }
}

TEST(Merge, ADirectoryOverADirectoryMergesAndTakesTheNewMetadata) {
    const auto tree = convert({TarWriter().directory("d", 0700, 100).file("d/a", "").finish(),
                               TarWriter().directory("d", 0711, 200).file("d/b", "").finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("d", "d/a", "d/b"));
    EXPECT_EQ(tree.at("d").mode, 0040711U);
    EXPECT_EQ(tree.at("d").mtime, 200U);
}

TEST(Merge, ADirectoryThatIsOnlyImpliedKeepsTheLowerMetadata) {
    const auto tree =
        convert({TarWriter().directory("d", 0700, 100).finish(), TarWriter().file("d/b", "").finish()});
    EXPECT_EQ(tree.at("d").mode, 0040700U);
    EXPECT_EQ(tree.at("d").mtime, 100U);
}

TEST(Merge, ADirectoryThatNoLayerDescribesHasFixedMetadata) {
    const auto tree = convert({TarWriter().file("x/y/f", "").finish()});
    EXPECT_EQ(tree.at("x").mode, 0040755U);
    EXPECT_EQ(tree.at("x/y").mtime, 0U);
}

TEST(Merge, TheRootsMetadataComeFromTheTopmostLayerThatHasThem) {
    const auto tree =
        convert({TarWriter().directory("./", 0700, 5).finish(), TarWriter().directory("/", 0711, 7).finish(),
                 TarWriter().file("a", "").finish()});
    EXPECT_EQ(tree.at("/").mode, 0040711U);
    EXPECT_EQ(tree.at("/").mtime, 7U);
}

TEST(Merge, TypeChangesReplaceRecursively) {
    const auto dir = TarWriter().directory("p").file("p/a", "1").file("p/b/c", "2").finish();
    const auto file = TarWriter().file("p", "f").finish();
    const auto link = TarWriter().symlink("p", "elsewhere").finish();
    EXPECT_THAT(namesOf(convert({dir, file})), ElementsAre("p"));
    EXPECT_EQ(convert({dir, link}).at("p").content, "elsewhere");
    EXPECT_EQ(convert({file, dir}).at("p/b/c").content, "2");
    EXPECT_EQ(convert({link, dir}).at("p").mode, 0040755U);
    EXPECT_EQ(convert({link, file}).at("p").content, "f");
}

TEST(Merge, AFileAmongTheParentsGivesWayToADirectory) {
    const auto tree = convert({TarWriter().file("p", "f").finish(), TarWriter().file("p/a", "1").finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("p", "p/a"));
    EXPECT_THAT(namesOf(convert({TarWriter().file("p", "f").file("p/a", "1").finish()})),
                ElementsAre("p", "p/a"));
}

TEST(Merge, TheLastOfSeveralEntriesOfANameWins) {
    const auto tree = convert({TarWriter().file("a", "first").file("a", "second").finish()});
    EXPECT_EQ(tree.at("a").content, "second");
}

TEST(Merge, AHardLinkKeepsTheInodeOfAnEntryThatIsRepeatedLater) {
    const auto tree =
        convert({TarWriter().file("a", "first").hardLink("b", "a").file("a", "second").finish()});
    EXPECT_EQ(tree.at("a").content, "second");
    EXPECT_EQ(tree.at("b").content, "first");
    EXPECT_NE(tree.at("a").inode, tree.at("b").inode);
}

TEST(Merge, HardLinksShareOneInode) {
    const auto tree =
        convert({TarWriter().file("a", "x", 0640).hardLink("d/b", "a").hardLink("c", "./d/b").finish()});
    EXPECT_EQ(tree.at("a").inode, tree.at("d/b").inode);
    EXPECT_EQ(tree.at("a").inode, tree.at("c").inode);
    EXPECT_EQ(tree.at("c").links, 3U);
    EXPECT_EQ(tree.at("c").mode, 0100640U) << "a link's own header says nothing about the inode";
}

TEST(Merge, AHardLinkToALowerLayersFile) {
    const auto tree = convert({TarWriter().file("a", "x").finish(), TarWriter().hardLink("b", "a").finish()});
    EXPECT_EQ(tree.at("a").inode, tree.at("b").inode);
    EXPECT_EQ(tree.at("b").content, "x");
}

TEST(Merge, AHardLinkShowsAFileWhoseNameAnUpperLayerHides) {
    const auto base = TarWriter().file("a", "x").finish();
    const auto link = TarWriter().hardLink("b", "a").finish();
    const auto hidden = convert({base, link, TarWriter().file(".wh.a", "").finish()});
    EXPECT_THAT(namesOf(hidden), ElementsAre("b"));
    EXPECT_EQ(hidden.at("b").content, "x");
    EXPECT_EQ(hidden.at("b").links, 1U);
    const auto replaced = convert({base, link, TarWriter().file("a", "new").finish()});
    EXPECT_EQ(replaced.at("b").content, "x");
    EXPECT_EQ(replaced.at("a").content, "new");
    const auto sameLayer = convert({TarWriter().file("a", "x").file("n", "noise").hardLink("b", "a").finish(),
                                    TarWriter().file("a", "new").finish()});
    EXPECT_EQ(sameLayer.at("b").content, "x");
}

TEST(Merge, AHardLinkMeansTheFileOfItsOwnLayersTime) {
    const auto tree = convert({TarWriter().file("a", "0").finish(), TarWriter().file("a", "1").finish(),
                               TarWriter().hardLink("b", "a").finish(), TarWriter().file("a", "3").finish()});
    EXPECT_EQ(tree.at("b").content, "1");
    EXPECT_EQ(tree.at("a").content, "3");
}

TEST(Merge, DanglingHardLinksAreErrors) {
    EXPECT_THAT(errorOf({TarWriter().hardLink("b", "a").finish()}),
                HasSubstr("hard link /b to /a, which does not exist"));
    EXPECT_THAT(errorOf({TarWriter().hardLink("b", "a").file("a", "later").finish()}),
                HasSubstr("does not exist"));
    EXPECT_THAT(errorOf({TarWriter().hardLink("b", "b").finish()}), HasSubstr("does not exist"));
    EXPECT_THAT(errorOf({TarWriter().file("a", "").finish(),
                         TarWriter().file(".wh.a", "").hardLink("b", "a").finish()}),
                HasSubstr("does not exist"));
    EXPECT_THAT(errorOf({TarWriter().file("a", "").finish(),
                         TarWriter().hardLink("b", "a").file(".wh.a", "").finish()}),
                HasSubstr("does not exist"));
}

TEST(Merge, AHardLinkToADirectoryIsAnError) {
    EXPECT_THAT(errorOf({TarWriter().directory("d").hardLink("b", "d").finish()}),
                HasSubstr("to the directory /d"));
    EXPECT_THAT(errorOf({TarWriter().hardLink("b", "/").finish()}), HasSubstr("to the directory /"));
}

TEST(Merge, AHardLinkOutsideMeansTheSameNameInside) {
    const auto tree =
        convert({TarWriter().file("etc/passwd", "inside").hardLink("b", "../../etc/passwd").finish()});
    EXPECT_EQ(tree.at("b").content, "inside");
}

TEST(Merge, ASymlinkAmongTheParentsIsFollowedInsideOfTheImage) {
    const auto base = TarWriter()
                          .directory("usr")
                          .directory("usr/lib")
                          .symlink("lib", "usr/lib")
                          .file("usr/lib/old", "1")
                          .finish();
    const auto tree = convert({base, TarWriter().file("lib/x", "2").file("lib/.wh.old", "").finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("lib", "usr", "usr/lib", "usr/lib/x"));
    EXPECT_EQ(tree.at("lib").content, "usr/lib");
    EXPECT_EQ(tree.at("usr/lib/x").content, "2");
}

TEST(Merge, AFileThroughALinkReplacesTheOneItPointsTo) {
    const auto base = TarWriter().symlink("lib", "usr/lib").file("usr/lib/x", "1").finish();
    EXPECT_EQ(convert({base, TarWriter().file("lib/x", "2").finish()}).at("usr/lib/x").content, "2");
}

TEST(Merge, LinksThatLeadOutStayInside) {
    for (const std::string target : {"/etc", "../../../etc", "/../etc/."}) {
        const auto tree = convert({TarWriter().symlink("a", target).file("a/f", "1").finish()});
        EXPECT_THAT(namesOf(tree), ElementsAre("a", "etc", "etc/f"));
        EXPECT_EQ(tree.at("a").content, target) << "the link itself is data";
    }
}

TEST(Merge, AnExplicitDirectoryReplacesASymlink) {
    const auto base =
        TarWriter().directory("usr/lib").symlink("lib", "usr/lib").file("usr/lib/old", "").finish();
    const auto tree =
        convert({base, TarWriter().directory("lib").file("lib/x", "").file("lib/.wh.old", "").finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("lib", "lib/x", "usr", "usr/lib", "usr/lib/old"));
}

TEST(Merge, AWayThatChangesWithinALayerIsFollowedAsItIsAtThatMoment) {
    const auto replaced = TarWriter()
                              .directory("e")
                              .file("d/sub/a", "1")
                              .symlink("d", "e")
                              .file("d/sub/b", "2")
                              .file("d", "3")
                              .file("d/sub/c", "4");
    EXPECT_THAT(namesOf(convert({TarWriter(replaced).finish()})),
                ElementsAre("d", "d/sub", "d/sub/c", "e", "e/sub", "e/sub/b"));
    const auto turned = TarWriter()
                            .directory("e")
                            .directory("f")
                            .symlink("l", "e")
                            .file("l/a", "1")
                            .symlink("l", "f")
                            .file("l/b", "2");
    EXPECT_THAT(namesOf(convert({TarWriter(turned).finish()})), ElementsAre("e", "e/a", "f", "f/b", "l"));
}

TEST(Merge, SymlinkLoopsAreErrors) {
    EXPECT_THAT(errorOf({TarWriter().symlink("a", "b").symlink("b", "a").file("a/f", "").finish()}),
                HasSubstr("Too many symbolic links"));
    EXPECT_THAT(errorOf({TarWriter().symlink("a", "a").file("a/f", "").finish()}),
                HasSubstr("Too many symbolic links"));
}

TEST(Merge, AHardLinkThroughASymlinkedDirectory) {
    const auto base = TarWriter().symlink("lib", "usr/lib").file("usr/lib/x", "1").finish();
    const auto tree = convert({base, TarWriter().hardLink("y", "lib/x").finish()});
    EXPECT_EQ(tree.at("y").inode, tree.at("usr/lib/x").inode);
}

TEST(Merge, AHardLinkToASymlinkSharesTheSymlink) {
    const auto tree = convert({TarWriter().symlink("a", "t").hardLink("b", "a").finish()});
    EXPECT_EQ(tree.at("a").inode, tree.at("b").inode);
    EXPECT_EQ(tree.at("b").content, "t");
}

TEST(Merge, NamesCannotLeaveTheRoot) {
    const auto tree = convert({TarWriter()
                                   .file("../../a", "1")
                                   .file("/b", "2")
                                   .file("x/../../c", "3")
                                   .file("./d//e/.", "4")
                                   .finish()});
    EXPECT_THAT(namesOf(tree), ElementsAre("a", "b", "c", "d", "d/e"));
}

TEST(Merge, ARootThatIsNoDirectoryIsAnError) {
    for (const std::string name : {".", "/.", "a/.."}) {
        EXPECT_THAT(errorOf({TarWriter().symlink(name, "/etc").finish()}),
                    HasSubstr("replaces the root directory"));
    }
}

TEST(Merge, NamesThatNoFilesystemHoldsAreErrors) {
    EXPECT_EQ(errorOf({TarWriter().file(std::string(255, 'n'), "").finish()}), "no error");
    EXPECT_THAT(errorOf({TarWriter().file(std::string(256, 'n'), "").finish()}), HasSubstr("too long"));
    std::string path;
    for (int i = 0; i < 3000; ++i) {
        path += "d/";
    }
    EXPECT_THAT(errorOf({TarWriter().file(path + "f", "").finish()}), HasSubstr("too long"));
    EXPECT_EQ(errorOf({TarWriter().file(path.substr(0, 4000) + "f", "").finish()}), "no error");
}

TEST(Merge, TreesThatGrowThroughLinksAreLimited) {
    std::string path;
    for (int i = 0; i < 1000; ++i) {
        path += "d/";
    }
    TarWriter tar;
    tar.directory(path);
    for (int i = 1; i < 6; ++i) {
        tar.symlink(cat('l', i), i == 1 ? path : cat("l", i - 1, '/', path));
        tar.directory(cat('l', i, '/', path));
    }
    EXPECT_THAT(errorOf({tar.finish()}),
                testing::AnyOf(HasSubstr("4096 levels"), HasSubstr("Too many symbolic links")));
}

TEST(Merge, NamesMayHaveAnyBytes) {
    const auto tree = convert({TarWriter().file("\xff\xfe\n\x01", "x").finish()});
    EXPECT_EQ(tree.at("\xff\xfe\n\x01").content, "x");
}

TEST(Merge, DevicesAndFifosAreRecorded) {
    const auto tree =
        convert({TarWriter()
                     .add({.name = "null", .type = '3', .mode = 0666, .major = 1, .minor = 3})
                     .add({.name = "disk", .type = '4', .mode = 0660, .major = 259, .minor = 70000})
                     .add({.name = "pipe", .type = '6', .mode = 0600})
                     .finish()});
    EXPECT_EQ(tree.at("null").mode, 0020666U);
    EXPECT_EQ(tree.at("null").device, 0x103U);
    EXPECT_EQ(tree.at("disk").mode, 0060660U);
    EXPECT_EQ(tree.at("disk").device, (70000U & 0xFFU) | 259U << 8U | (70000U & ~0xFFU) << 12U);
    EXPECT_EQ(tree.at("pipe").mode, 0010600U);
}

TEST(Merge, SetIdBitsAndOddModesAreKept) {
    const auto tree = convert({TarWriter()
                                   .file("su", "x", 04755)
                                   .file("sg", "x", 02711)
                                   .directory("tmp", 01777)
                                   .file("closed", "x", 0)
                                   .finish()});
    EXPECT_EQ(tree.at("su").mode, 0104755U);
    EXPECT_EQ(tree.at("sg").mode, 0102711U);
    EXPECT_EQ(tree.at("tmp").mode, 0041777U);
    EXPECT_EQ(tree.at("closed").mode, 0100000U);
}

TEST(Merge, TimesBeyondTheFormatAreClamped) {
    TarWriter tar;
    tar.add({.name = "old", .mtime = -5});
    tar.add({.name = "far", .mtime = std::int64_t{1} << 40});
    tar.add({.name = "half", .pax = {{"mtime", "-1.5"}}});
    tar.add({.name = "exact", .pax = {{"mtime", "1234.999"}}});
    const auto tree = convert({tar.finish()});
    EXPECT_EQ(tree.at("old").mtime, 0U);
    EXPECT_EQ(tree.at("far").mtime, 0xFFFFFFFFU);
    EXPECT_EQ(tree.at("half").mtime, 0U);
    EXPECT_EQ(tree.at("exact").mtime, 1234U);
}

TEST(Merge, UserAttributesAndCapabilitiesAreKeptOthersAreNot) {
    const std::string binary("\0\x01\xff", 3);
    const auto tree =
        convert({TarWriter()
                     .add({.name = "f",
                           .content = "x",
                           .pax = {{"SCHILY.xattr.user.b", binary},
                                   {"SCHILY.xattr.user.a", "1"},
                                   {"SCHILY.xattr.security.capability", binary},
                                   {"SCHILY.xattr.security.selinux", "label"},
                                   {"SCHILY.xattr.trusted.overlay.opaque", "y"},
                                   {"SCHILY.xattr.user.overlay.opaque", "y"},
                                   {"SCHILY.xattr.system.posix_acl_access", "acl"}}})
                     .add({.name = "d", .type = '5', .pax = {{"SCHILY.xattr.user.d", "dir"}}})
                     .add({.name = "l", .type = '2', .link = "t", .pax = {{"SCHILY.xattr.user.l", "v"}}})
                     .finish()});
    EXPECT_THAT(tree.at("f").xattrs, testing::UnorderedElementsAre(
                                         std::pair<std::string, std::string>("security.capability", binary),
                                         std::pair<std::string, std::string>("user.a", "1"),
                                         std::pair<std::string, std::string>("user.b", binary)));
    EXPECT_EQ(tree.at("d").xattrs.at(0).second, "dir");
}

TEST(Merge, AnUpperDirectorysAttributesReplaceTheLowerOnes) {
    const auto lower =
        TarWriter().add({.name = "d", .type = '5', .pax = {{"SCHILY.xattr.user.x", "1"}}}).finish();
    EXPECT_THAT(convert({lower, TarWriter().directory("d").finish()}).at("d").xattrs, IsEmpty());
    EXPECT_THAT(convert({lower, TarWriter().file("d/f", "").finish()}).at("d").xattrs, testing::SizeIs(1));
}

TEST(Merge, AttributesThatNoFilesystemHoldsAreErrors) {
    EXPECT_THAT(errorOf({TarWriter()
                             .add({.name = "f", .pax = {{"SCHILY.xattr.user.x", std::string(65537, 'v')}}})
                             .finish()}),
                HasSubstr("extended attribute"));
    EXPECT_THAT(errorOf({TarWriter()
                             .add({.name = "f", .pax = {{"SCHILY.xattr.user." + std::string(251, 'k'), "v"}}})
                             .finish()}),
                HasSubstr("extended attribute"));
    EXPECT_EQ(errorOf({TarWriter()
                           .add({.name = "f", .pax = {{"SCHILY.xattr.user.x", std::string(65536, 'v')}}})
                           .finish()}),
              "no error");
}

TEST(Merge, MoreAttributesThanLinuxListsAreErrors) {
    TarWriter::Member file{.name = "f"};
    for (int i = 0; i < 6000; ++i) {
        file.pax.emplace_back(cat("SCHILY.xattr.user.", 10000 + i), "v");
    }
    EXPECT_THAT(errorOf({TarWriter().add(file).finish()}),
                HasSubstr("more extended attributes than Linux can list"));
    file.pax.resize(5000);
    EXPECT_EQ(errorOf({TarWriter().add(file).finish()}), "no error");
}

TEST(Merge, EverythingBelongsToTheOwnerOfTheConversion) {
    test::LayoutWriter layout;
    layout.writeIndex(layout.addImage({TarWriter().file("a", "x").directory("d").finish()}));
    buildImage(test::requestFor(layout, layout.scratch("out")));
    squashfs::Reader reader(layout.scratch("out"));
    EXPECT_EQ(reader.superblock().id_count, 2U) << "one user id and one group id";
}

TEST(Merge, FiveHundredLayers) {
    std::vector<std::string> layers;
    for (int i = 0; i < 500; ++i) {
        layers.push_back(TarWriter().file("same", cat(i)).file(cat("own", i), cat(i)).finish());
    }
    const auto tree = convert(layers);
    EXPECT_EQ(tree.size(), 502U);
    EXPECT_EQ(tree.at("same").content, "499");
}

TEST(Merge, LargeDirectoriesAndDeepTrees) {
    TarWriter tar;
    for (int i = 0; i < 20000; ++i) {
        tar.file(cat("d/f", i * 7919 % 20000), "");
    }
    EXPECT_EQ(convert({tar.finish()}).size(), 20002U);
}

}  // namespace
}  // namespace sarus::image::build::merge_test
