#include "hooks/kit/linker_cache/library_search.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.hpp"
#include "base/failing_listing.hpp"
#include "base/text.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::library_search_test {
namespace {

using test::Root;

const ElfFile like = [] {
    ElfFile elf;
    elf.is64Bit = true;
    elf.machine = machine::x86_64;
    return elf;
}();

std::vector<std::string> pathsOf(const LibrarySearch& search, const std::string& name) {
    std::vector<std::string> paths;
    for (const auto& library : search.findAll(
             like, [&](std::string_view file) { return file == name; }, ElfDetail::soname)) {
        paths.push_back(library.path);
    }
    return paths;
}

std::string found(const LibrarySearch& search, const std::string& name) {
    const auto library = search.find(like, name);
    return library ? library->path : "nothing";
}

TEST(LibrarySearchTest, DirectoriesOfLdLibraryPathComeFirst) {
    const Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.library("opt/x/libx.so.1", "libx.so.1");
    EXPECT_EQ(found(LibrarySearch(root.fd(), ""), "libx.so.1"), "/usr/lib/libx.so.1");
    const LibrarySearch search(root.fd(), "relative::/missing:/opt/x");
    EXPECT_EQ(found(search, "libx.so.1"), "/opt/x/libx.so.1");
    EXPECT_EQ(pathsOf(search, "libx.so.1"),
              (std::vector<std::string>{"/opt/x/libx.so.1", "/usr/lib/libx.so.1"}));
}

TEST(LibrarySearchTest, DirectoryOfTwoNamesIsSearchedOnce) {
    const Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.link("lib", "usr/lib");
    EXPECT_EQ(pathsOf(LibrarySearch(root.fd(), "/usr/lib:/lib"), "libx.so.1"),
              (std::vector<std::string>{"/usr/lib/libx.so.1"}));
}

TEST(LibrarySearchTest, CacheLeadsToDirectoriesThatNothingElseNames) {
    const Root root;
    root.glibc();
    root.library("opt/hidden/libx.so.1", "libx.so.1");
    root.write("etc/ld.so.conf", "/opt/hidden\n");
    updateLinkerCache(root.fd());
    root.write("etc/ld.so.conf", "");
    const LibrarySearch search(root.fd(), "");
    EXPECT_TRUE(search.hasCache());
    EXPECT_EQ(found(search, "libx.so.1"), "/opt/hidden/libx.so.1");
    EXPECT_EQ(pathsOf(search, "libx.so.1"), (std::vector<std::string>{"/opt/hidden/libx.so.1"}));
}

TEST(LibrarySearchTest, DamagedCacheCountsAsNone) {
    const Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.write("etc/ld.so.cache", "glibc-ld.so.cache1.1" + std::string(100, '\xff'));
    const LibrarySearch search(root.fd(), "");
    EXPECT_FALSE(search.hasCache());
    EXPECT_EQ(found(search, "libx.so.1"), "/usr/lib/libx.so.1");
}

TEST(LibrarySearchTest, OtherMachinesDamagedFilesAndDanglingLinksAreLeftOut) {
    const Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1", machine::aarch64);
    EXPECT_EQ(found(LibrarySearch(root.fd(), ""), "libx.so.1"), "nothing");
    root.write("usr/lib/liby.so.1",
               "\x7f"
               "ELF\x02\x01\x01");
    root.link("usr/lib/libz.so.1", "/nowhere");
    root.link("usr/lib/libl.so.1", "libl.so.1");
    checkErrno(::mkfifo((root / "usr/lib/libf.so.1").c_str(), 0600), "mkfifo");
    const LibrarySearch search(root.fd(), "");
    for (const auto* name : {"liby.so.1", "libz.so.1", "libl.so.1", "libf.so.1"}) {
        EXPECT_EQ(found(search, name), "nothing") << name;
        EXPECT_TRUE(pathsOf(search, name).empty()) << name;
    }
}

TEST(LibrarySearchTest, FirstUsableFileCountsWhenTheFirstIsDamaged) {
    const Root root;
    root.glibc();
    root.write("opt/a/libx.so.1", "no library");
    root.library("opt/b/libx.so.1", "libx.so.1");
    EXPECT_EQ(found(LibrarySearch(root.fd(), "/opt/a:/opt/b"), "libx.so.1"), "/opt/b/libx.so.1");
}

TEST(LibrarySearchTest, LinksOfTheImageStayInsideOfIt) {
    const Root outside;
    outside.library("libx.so.1", "libx.so.1");
    const Root root;
    root.glibc();
    root.link("opt/x", outside.path());
    root.link("usr/lib/libx.so.1", outside / "libx.so.1");
    const LibrarySearch search(root.fd(), "/opt/x:/../../../../../.." + outside.path());
    EXPECT_EQ(found(search, "libx.so.1"), "nothing");
}

TEST(LibrarySearchTest, MuslAndStaticImagesHaveNoGlibc) {
    const Root musl;
    musl.library("lib/ld-musl-x86_64.so.1", "");
    musl.library("usr/local/lib/libx.so.1", "libx.so.1");
    const LibrarySearch search(musl.fd(), "");
    EXPECT_FALSE(search.hasGlibc());
    EXPECT_FALSE(search.hasCache());
    EXPECT_EQ(found(search, "libx.so.1"), "/usr/local/lib/libx.so.1");
    const Root empty;
    EXPECT_TRUE(LibrarySearch(empty.fd(), "").linkers().empty());
    EXPECT_EQ(found(LibrarySearch(empty.fd(), ""), "libx.so.1"), "nothing");
}

TEST(LibrarySearchTest, HundredDirectoriesOfTheUserAreEnough) {
    const Root root;
    root.glibc();
    std::string path;
    for (int i = 0; i < 150; ++i) {
        root.library(cat("d", i, "/lib", i, ".so.1"), "libx.so.1");
        path += cat(":/d", i);
    }
    const LibrarySearch search(root.fd(), path);
    EXPECT_EQ(found(search, "lib99.so.1"), "/d99/lib99.so.1");
    EXPECT_EQ(found(search, "lib100.so.1"), "nothing");
}

TEST(LibrarySearchTest, OpenTellsWhichFileItIs) {
    const Root root;
    root.library("usr/lib/libx.so.1.2", "libx.so.1");
    root.link("usr/lib/libx.so.1", "libx.so.1.2");
    const LibrarySearch search(root.fd(), "");
    const auto link = search.open(like, "/usr/lib/libx.so.1", ElfDetail::everything);
    const auto file = search.open(like, "/usr/lib/libx.so.1.2", ElfDetail::everything);
    ASSERT_TRUE(link && file);
    EXPECT_EQ(link->inode, file->inode);
    EXPECT_EQ(link->elf.soname, "libx.so.1");
    EXPECT_FALSE(search.open(like, "/usr/lib", ElfDetail::soname));
}

TEST(LibrarySearchTest, ADirectoryOfIncludesThatCannotBeReadIsAnError) {
    const Root root;
    root.write("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
    root.write("etc/ld.so.conf.d/a.conf", "/opt/a\n");
    for (const int after : {0, 1}) {
        const test::FailingListing failing(EIO, after);
        EXPECT_THROW(configuredLibraryDirectories(root.fd()), Error) << after;
    }
    EXPECT_EQ(configuredLibraryDirectories(root.fd()), std::vector<std::string>{"/opt/a"});
}

}  // namespace
}  // namespace sarus::hooks::library_search_test
