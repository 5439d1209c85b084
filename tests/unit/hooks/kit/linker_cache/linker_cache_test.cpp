#include "hooks/kit/linker_cache/linker_cache.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "hooks/kit/linker_cache/cache_stamp.hpp"
#include "hooks/kit/linker_cache/library_scan.hpp"
#include "hooks/kit/linker_cache/library_table.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::linker_cache_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> namesOf(const std::vector<LibraryDirectory>& directories) {
    std::vector<std::string> names;
    for (const auto& directory : directories) {
        names.push_back(directory.path);
    }
    return names;
}

std::vector<std::string> librariesOf(const test::Root& root) {
    std::vector<std::string> lines;
    for (const auto& record :
         scanLibraries(root.fd(), librarySearchDirectories(root.fd(), findDynamicLinkers(root.fd())))
             .records) {
        lines.push_back(cat(record.name, " => ", record.path));
    }
    return lines;
}

TEST(LibraryDirectories, readsIncludesWithWildcardsInOrder) {
    const test::Root root;
    root.write("etc/ld.so.conf",
               "# first\ninclude ld.so.conf.d/*.conf other/exact\n/opt/last/  # with a comment\nhwcap 1 "
               "nosegneg\nrelative\n");
    root.write("etc/ld.so.conf.d/b.conf", "/opt/b\n/opt/b2=libc5\n");
    root.write("etc/ld.so.conf.d/a.conf", "/opt/a");
    root.write("etc/ld.so.conf.d/.hidden.conf", "/opt/hidden\n");
    root.write("etc/ld.so.conf.d/c.txt", "/opt/c\n");
    root.write("etc/other/exact", "/opt/exact dir\n");
    EXPECT_THAT(configuredLibraryDirectories(root.fd()),
                ElementsAre("/opt/a", "/opt/b", "/opt/b2", "/opt/exact dir", "/opt/last"));
}

TEST(LibraryDirectories, endsOnIncludesOfThemselvesAndMissingFiles) {
    const test::Root root;
    EXPECT_THAT(configuredLibraryDirectories(root.fd()), IsEmpty());
    root.write("etc/ld.so.conf",
               "include /etc/ld.so.conf\ninclude /etc/./ld.so.conf\ninclude /etc/none\n/a\n");
    EXPECT_THAT(configuredLibraryDirectories(root.fd()), Contains("/a"));
}

TEST(LibraryDirectories, neverReadsFilesOutsideOfTheRoot) {
    const test::TemporaryDirectory outside;
    replaceFile(outside / "secret.conf", "/leaked\n", 0644);
    const test::Root root;
    root.link("etc/ld.so.conf.d", outside.path());
    root.write("etc/ld.so.conf",
               cat("include ld.so.conf.d/*.conf\ninclude /../../../../", outside.path(), "/*.conf\n"));
    EXPECT_THAT(configuredLibraryDirectories(root.fd()), Not(Contains("/leaked")));
}

TEST(LibraryDirectories, refusesAConfigurationWithoutEnd) {
    const test::Root root;
    std::string lines;
    for (int i = 0; i < 2000; ++i) {
        lines += cat("/d", i, '\n');
    }
    root.write("etc/ld.so.conf", lines);
    EXPECT_THROW(configuredLibraryDirectories(root.fd()), Error);
}

TEST(LibraryDirectories, doesNotWaitForAFifoInPlaceOfTheConfiguration) {
    const test::Root root;
    createDirectories(root / "etc");
    ASSERT_EQ(::mkfifo((root / "etc/ld.so.conf").c_str(), 0644), 0);
    EXPECT_THAT(configuredLibraryDirectories(root.fd()), IsEmpty());
}

TEST(LibraryDirectories, listsConfiguredDirectoriesFirstAndEachDirectoryOnce) {
    const test::Root root;
    root.library("usr/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2");
    root.link("lib64", "usr/lib64");
    root.link("lib", "usr/lib");
    createDirectories(root / "usr/lib/x86_64-linux-gnu");
    createDirectories(root / "opt/x");
    root.write("etc/ld.so.conf", "/opt/x\n/lib/x86_64-linux-gnu\n/missing\n");
    const auto directories = librarySearchDirectories(root.fd(), findDynamicLinkers(root.fd()));
    EXPECT_THAT(namesOf(directories), ElementsAre("/opt/x", "/lib/x86_64-linux-gnu", "/lib", "/lib64"));
}

TEST(LibraryDirectories, usesTheDirectoriesOfTheRootsMachineNotOfTheHosts) {
    const test::Root root;
    root.library("lib/ld-linux-aarch64.so.1", "ld-linux-aarch64.so.1", machine::aarch64);
    root.library("usr/lib/aarch64-linux-gnu/libm.so.6", "libm.so.6", machine::aarch64);
    EXPECT_THAT(librariesOf(root), Contains("libm.so.6 => /usr/lib/aarch64-linux-gnu/libm.so.6"));
}

TEST(LibraryDirectories, readsAndExtendsMuslsPathFile) {
    const test::Root root;
    root.library("lib/ld-musl-x86_64.so.1", "");
    createDirectories(root / "etc");
    EXPECT_THAT(muslLibraryDirectories(root.fd(), "x86_64"),
                ElementsAre("/lib", "/usr/local/lib", "/usr/lib"));
    addMuslLibraryDirectories(root.fd(), "x86_64", {"/usr/lib", "/opt/host"});
    EXPECT_EQ(readFile(root / "etc/ld-musl-x86_64.path"), "/lib\n/usr/local/lib\n/usr/lib\n/opt/host\n");
    root.write("etc/ld-musl-x86_64.path", "/a:/b\n/c\n\nrelative\n");
    EXPECT_THAT(muslLibraryDirectories(root.fd(), "x86_64"), ElementsAre("/a", "/b", "/c"));
    EXPECT_THROW(addMuslLibraryDirectories(root.fd(), "x86_64", {"/x:/y"}), Error);
}

TEST(LinkerCache, listsLibrariesBySonameAndDevelopmentLinksByTheirName) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1.2.3", "libx.so.1");
    root.link("usr/lib/libx.so.1", "libx.so.1.2.3");
    root.link("usr/lib/libx.so.1.2", "libx.so.1.2.3");
    root.link("usr/lib/libx.so", "libx.so.1");
    root.library("usr/lib/libplugin.so", "");
    root.library("usr/lib/notalib.so.1", "notalib.so.1");
    root.library("usr/lib/libx.so.1.dpkg-new", "libx.so.1");
    root.write("usr/lib/libscript.so", "INPUT(libx.so.1)");
    root.link("usr/lib/libdangling.so.1", "nowhere");
    EXPECT_THAT(librariesOf(root),
                UnorderedElementsAre("libx.so.1 => /usr/lib/libx.so.1", "libx.so => /usr/lib/libx.so",
                                     "libplugin.so => /usr/lib/libplugin.so",
                                     "ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2"));
}

TEST(LinkerCache, leadsToTheNewestFileWhereTheLinkNamedLikeTheSonameIsMissing) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1.9.0", "libx.so.1");
    root.library("usr/lib/libx.so.1.10.0", "libx.so.1");
    EXPECT_THAT(librariesOf(root), Contains("libx.so.1 => /usr/lib/libx.so.1.10.0"));
    EXPECT_FALSE(pathExists(root / "usr/lib/libx.so.1")) << "a scan changes nothing";
}

TEST(LinkerCache, followsLinksOnlyInsideTheRoot) {
    const test::TemporaryDirectory outside;
    replaceFile(
        outside / "libhost.so.1",
        [] {
            test::ElfBuilder b;
            b.soname = "libhost.so.1";
            return b.build();
        }(),
        0644);
    const test::Root root;
    root.glibc();
    root.link("usr/lib/libhost.so.1", outside / "libhost.so.1");
    root.library("opt/lib/libin.so.1.0", "libin.so.1");
    root.link("usr/lib/libin.so.1", "/opt/lib/libin.so.1.0");
    root.link("usr/lib/libloop.so.1", "libloop.so.1");
    EXPECT_THAT(librariesOf(root),
                UnorderedElementsAre("libin.so.1 => /usr/lib/libin.so.1",
                                     "ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2"));
}

TEST(LinkerCache, survivesHostileLibraryDirectories) {
    const test::Root root;
    root.glibc();
    root.write("usr/lib/libtruncated.so.1", std::string("\x7f"
                                                        "ELF\x02\x01\x01",
                                                        7));
    root.write("usr/lib/libempty.so.1", "");
    root.library("usr/lib/libescape.so.1", "../../etc/passwd");
    root.library("usr/lib/lib a;$(x)\n.so.1", "lib a;$(x)\n.so.1");
    ASSERT_EQ(::mkfifo((root / "usr/lib/libfifo.so.1").c_str(), 0644), 0);
    createDirectories(root / "usr/lib/libdirectory.so.1");
    EXPECT_THAT(librariesOf(root),
                UnorderedElementsAre("lib a;$(x)\n.so.1 => /usr/lib/lib a;$(x)\n.so.1",
                                     "ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2"));
}

TEST(LinkerCache, listsGlibcHwcapsVariants) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.library("usr/lib/glibc-hwcaps/x86-64-v3/libx.so.1", "libx.so.1");
    ASSERT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
    const auto cache = LdCache::parse(readFile(root / "etc/ld.so.cache"));
    ASSERT_GE(cache.entries().size(), 2U);
    EXPECT_EQ(cache.entries()[0].path, "/usr/lib/glibc-hwcaps/x86-64-v3/libx.so.1");
    EXPECT_EQ(cache.entries()[0].hwcapsSubdirectory, "x86-64-v3");
    EXPECT_EQ(cache.entries()[1].path, "/usr/lib/libx.so.1");
}

/// Lets the times of what a test made be so old that they cannot be those of a later change, too.
void settle() {
    ::usleep(40'000);
}

/// The lines of the cache that is there.
std::vector<std::string> cachedLibrariesOf(const test::Root& root) {
    const auto bytes = readFile(root / "etc/ld.so.cache");
    const auto cache = LdCache::parse(bytes);
    std::vector<std::string> lines;
    for (const auto& entry : cache.entries()) {
        lines.push_back(cat(entry.name, " => ", entry.path));
    }
    return lines;
}

/// Whether the cache is made again, lists what a scan finds that knows nothing from earlier, and is then
/// kept.
testing::AssertionResult isMadeAgain(const test::Root& root) {
    settle();
    if (updateLinkerCache(root.fd()).update != LinkerCacheUpdate::written) {
        return testing::AssertionFailure() << "the old cache was kept";
    }
    if (!testing::Value(cachedLibrariesOf(root), UnorderedElementsAreArray(librariesOf(root)))) {
        return testing::AssertionFailure() << "the new cache has other libraries than there are";
    }
    if (updateLinkerCache(root.fd()).update != LinkerCacheUpdate::unchanged) {
        return testing::AssertionFailure() << "the new cache was not kept";
    }
    return testing::AssertionSuccess();
}

TEST(LinkerCache, isWrittenOnceAndAgainOnlyAfterAChange) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    EXPECT_TRUE(isMadeAgain(root));
    root.library("usr/lib/liby.so.1", "liby.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "a library was added";
    ASSERT_EQ(::unlink((root / "usr/lib/liby.so.1").c_str()), 0);
    EXPECT_TRUE(isMadeAgain(root)) << "a library was removed";
    root.library("usr/lib/libx.so.1", "libx.so.2");
    EXPECT_TRUE(isMadeAgain(root)) << "a library was replaced";
    root.library("usr/lib/libl.so.1.0", "libl.so.1");
    root.library("usr/lib/libl.so.2.0", "libl.so.2");
    root.link("usr/lib/libl.so", "libl.so.1.0");
    EXPECT_TRUE(isMadeAgain(root)) << "a link appeared";
    ASSERT_EQ(::unlink((root / "usr/lib/libl.so").c_str()), 0);
    root.link("usr/lib/libl.so", "libl.so.2.0");
    EXPECT_TRUE(isMadeAgain(root)) << "a link leads to another library";
    root.library("opt/z/libz.so.1", "libz.so.1");
    root.write("etc/ld.so.conf", "include ld.so.conf.d/*.conf\n/opt/z\n/opt/later\n");
    EXPECT_TRUE(isMadeAgain(root)) << "a directory was configured";
    createDirectories(root / "etc/ld.so.conf.d");
    EXPECT_TRUE(isMadeAgain(root)) << "a directory of configuration files appeared";
    root.write("etc/ld.so.conf.d/more.conf", "/opt/more\n");
    EXPECT_TRUE(isMadeAgain(root)) << "a file of the configuration appeared";
    root.library("opt/later/liblater.so.1", "liblater.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "a configured directory appeared";
    root.library("opt/z/glibc-hwcaps/x86-64-v3/libz.so.1", "libz.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "a variant for some processors appeared";
    root.library("opt/z/glibc-hwcaps/x86-64-v4/libz.so.1", "libz.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "another variant appeared";
    root.link("usr/lib64", "../opt/other");
    root.library("opt/other/libother.so.1", "libother.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "a directory that is searched appeared";
    ASSERT_EQ(::unlink((root / "usr/lib64").c_str()), 0);
    root.link("usr/lib64", "../opt/z");
    EXPECT_TRUE(isMadeAgain(root)) << "a name leads to another directory";
    root.library("lib/ld-linux.so.2", "ld-linux.so.2", machine::i386);
    EXPECT_TRUE(isMadeAgain(root)) << "another dynamic linker appeared";
    root.write("etc/ld.so.cache", "damaged");
    EXPECT_TRUE(isMadeAgain(root)) << "the cache was damaged";
}

TEST(LinkerCache, isMadeAgainAfterAFileWasOverwrittenThatAnotherNameLeadsTo) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libplugin.so", "");
    root.library("opt/alternative/libblas.so.3", "libblas.so.3");
    root.link("usr/lib/libblas.so.3", "/opt/alternative/libblas.so.3");
    EXPECT_TRUE(isMadeAgain(root));
    const auto overwrite = [&root](const std::string& path, const std::string& soname) {
        root.library("new", soname);
        const auto file = openFile(root / path, O_WRONLY | O_TRUNC);
        writeAll(file.get(), readFile(root / "new"), path);
    };
    overwrite("usr/lib/libplugin.so", "libplugin.so.4");
    EXPECT_TRUE(isMadeAgain(root)) << "in its place";
    EXPECT_THAT(librariesOf(root), Contains("libplugin.so.4 => /usr/lib/libplugin.so"));
    overwrite("opt/alternative/libblas.so.3", "libblas.so.4");
    EXPECT_TRUE(isMadeAgain(root)) << "where a link leads to";
}

TEST(LinkerCache, noticesAtTheNextChangeThatALibraryWasOverwrittenWithOneOfTheSameSizeAndTime) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1.2", "libx.so.1");
    EXPECT_TRUE(isMadeAgain(root));
    struct stat before {};
    ASSERT_EQ(::stat((root / "usr/lib/libx.so.1.2").c_str(), &before), 0);
    root.library("new", "libx.so.9");
    {
        const auto file = openFile(root / "usr/lib/libx.so.1.2", O_WRONLY);
        writeAll(file.get(), readFile(root / "new"), "the library");
        const timespec times[] = {before.st_atim, before.st_mtim};
        ASSERT_EQ(::futimens(file.get(), times), 0);
    }
    struct stat after {};
    ASSERT_EQ(::stat((root / "usr/lib/libx.so.1.2").c_str(), &after), 0);
    ASSERT_EQ(after.st_ino, before.st_ino);
    ASSERT_EQ(after.st_size, before.st_size);
    root.library("usr/lib/libanother.so.1", "libanother.so.1");
    EXPECT_TRUE(isMadeAgain(root));
    EXPECT_THAT(cachedLibrariesOf(root), Contains("libx.so.9 => /usr/lib/libx.so.1.2"));
}

TEST(LinkerCache, survivesFalseNotesOfLibraries) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    const auto expected = librariesOf(root);
    LibraryList list;
    list.beginDirectory("/usr/lib");
    const Library library{"libfalse.so.1", 3};
    list.add("libx.so.1", {1, 2, 3, 4, true}, &library);
    const auto notes = std::move(list).finish();
    for (std::size_t size = 0; size <= notes.size(); ++size) {
        root.write("etc/ld.so.cache", serializeLdCache({}, {{}, std::string_view(notes).substr(0, size)}));
        ASSERT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
        EXPECT_THAT(cachedLibrariesOf(root), UnorderedElementsAreArray(expected)) << size;
    }
}

TEST(LinkerCache, whichIsYoungerThanTheClocksTickIsNotTrusted) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    EXPECT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
    EXPECT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written)
        << "another library may have come in the same tick";
}

TEST(LinkerCache, tellsItsSizeAndTime) {
    const test::Root root;
    root.glibc();
    settle();
    const auto written = updateLinkerCache(root.fd()).file;
    const auto kept = updateLinkerCache(root.fd()).file;
    struct stat status {};
    ASSERT_EQ(::stat((root / "etc/ld.so.cache").c_str(), &status), 0);
    ASSERT_TRUE(written && kept);
    EXPECT_EQ(written->size, static_cast<std::uint64_t>(status.st_size));
    EXPECT_EQ(kept->size, written->size);
    EXPECT_EQ(kept->modified, status.st_mtim.tv_sec);
    EXPECT_NEAR(static_cast<double>(written->modified), static_cast<double>(kept->modified), 1.0);
    const test::Root empty;
    EXPECT_FALSE(updateLinkerCache(empty.fd()).file);
}

TEST(CacheStamp, looksAtNothingOutsideOfTheRoot) {
    const test::Root root;
    createDirectories(root / "directory");
    root.link("up", "../../../../..");
    settle();
    const auto own = makeCacheStamp(root.fd(), {"/"}, StampClock());
    ASSERT_TRUE(own);
    const auto description = [](const std::string& stamp) {
        const auto start = stamp.rfind('\0', stamp.size() - 2) + 1;
        return stamp.substr(start, stamp.size() - 1 - start);
    };
    for (const std::string path : {"..", "../..", "./..", "directory/../.."}) {
        const auto stamp = makeCacheStamp(root.fd(), {"/", path}, StampClock());
        ASSERT_TRUE(stamp);
        EXPECT_EQ(description(*stamp), description(*own) + "-\n") << path;
    }
    EXPECT_EQ(description(*makeCacheStamp(root.fd(), {"/up"}, StampClock())), description(*own))
        << "the root is the limit";
}

TEST(LinkerCache, survivesFalseStamps) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    const std::string version("3\0", 2);
    const auto right = version + std::string("..\0\0-\n\0", 7);
    for (const auto& stamp :
         {right, std::string("3"), version, version + '\0', version + std::string("/lib\0", 5),
          std::string(3, '\0'), version + std::string("/lib\0..\0\0", 9),
          version + std::string("..\0\0-\n\0..\0\0-", 12),
          version + std::string("/\0../../../../../../etc/passwd\0\0", 33), "2" + right.substr(1)}) {
        root.write("etc/ld.so.cache", serializeLdCache({}, {stamp}));
        EXPECT_EQ(updateLinkerCache(root.fd()).update,
                  stamp == right ? LinkerCacheUpdate::unchanged : LinkerCacheUpdate::written);
    }
}

TEST(LinkerCache, keepsTheEntriesOfDirectoriesThatAreAsTheyWere) {
    const test::Root root;
    root.glibc();
    root.write("etc/ld.so.conf", "/opt/a\n");
    root.library("usr/lib/libx.so.1", "libx.so.1");
    root.library("opt/a/liba.so.1", "liba.so.1");
    EXPECT_TRUE(isMadeAgain(root));
    // A cache that differs from the libraries shows where its entries come from.
    const auto bytes = readFile(root / "etc/ld.so.cache");
    ElfBytes source{std::string_view(bytes)};
    const auto stamp = readLdCacheNote(source, bytes.size(), &LdCacheNotes::stamp);
    const auto libraries = readLdCacheNote(source, bytes.size(), &LdCacheNotes::libraries);
    ASSERT_TRUE(stamp && libraries);
    const auto falseCache =
        serializeLdCache({{"libfalse.so.1", "/usr/lib/libx.so.1", ld_cache_flags::x86_64, ""},
                          {"libfalse.so.2", "/opt/a/liba.so.1", ld_cache_flags::x86_64, ""}},
                         {*stamp, *libraries});
    const auto update = [&] {
        root.write("etc/ld.so.cache", falseCache);
        EXPECT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
        return cachedLibrariesOf(root);
    };
    root.library("opt/a/libnew.so.1", "libnew.so.1");
    const std::string linker = "ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2";
    EXPECT_THAT(update(),
                UnorderedElementsAre("libfalse.so.1 => /usr/lib/libx.so.1", "liba.so.1 => /opt/a/liba.so.1",
                                     "libnew.so.1 => /opt/a/libnew.so.1"))
        << "the directory of the dynamic linker had no entry, and is as it was";
    root.library("usr/lib/libmore.so.1", "libmore.so.1");
    EXPECT_THAT(update(), Not(Contains("libfalse.so.1 => /usr/lib/libx.so.1")));
    root.library("lib64/libmore.so.2", "libmore.so.2");
    EXPECT_THAT(update(), Contains(linker));
}

TEST(LinkerCache, followsLinksAnewToDirectoriesThatChanged) {
    const test::Root root;
    root.glibc();
    root.write("etc/ld.so.conf", "/opt/a\n/opt/b\n");
    root.library("opt/b/libreal.so.1", "liblinked.so.1");
    root.link("opt/a/liblinked.so.1", "/opt/b/libreal.so.1");
    root.library("elsewhere/libouter.so.1", "libouter.so.1");
    root.link("opt/b/libouter.so.1", "/elsewhere/libouter.so.1");
    EXPECT_TRUE(isMadeAgain(root));
    EXPECT_THAT(cachedLibrariesOf(root), Contains("liblinked.so.1 => /opt/a/liblinked.so.1"));
    root.library("opt/b/libreal.so.1", "liblinked.so.2");
    EXPECT_TRUE(isMadeAgain(root)) << "in a directory that is scanned";
    EXPECT_THAT(cachedLibrariesOf(root), Contains("liblinked.so.2 => /opt/a/liblinked.so.1"));
    root.library("opt/c", "libc.so.1");
    root.library("usr/lib/libany.so.1", "libany.so.1");
    EXPECT_TRUE(isMadeAgain(root)) << "in another";
    root.library("elsewhere/libouter.so.1", "libouter.so.2");
    EXPECT_TRUE(isMadeAgain(root)) << "in no directory that is scanned";
    EXPECT_THAT(cachedLibrariesOf(root), Contains("libouter.so.2 => /opt/b/libouter.so.1"));
    root.write("etc/ld.so.conf", "/opt/a\n");
    EXPECT_TRUE(isMadeAgain(root)) << "the directory is not scanned any more";
    root.library("opt/b/libreal.so.1", "liblinked.so.3");
    EXPECT_TRUE(isMadeAgain(root));
    EXPECT_THAT(cachedLibrariesOf(root), Contains("liblinked.so.3 => /opt/a/liblinked.so.1"));
}

TEST(LinkerCache, replacesASymbolicLinkInsteadOfWritingThroughIt) {
    const test::TemporaryDirectory outside;
    replaceFile(outside / "victim", "precious", 0644);
    const test::Root root;
    root.glibc();
    root.link("etc/ld.so.cache", outside / "victim");
    EXPECT_EQ(updateLinkerCache(root.fd()).update, LinkerCacheUpdate::written);
    EXPECT_EQ(readFile(outside / "victim"), "precious");
    struct stat status {};
    ASSERT_EQ(::lstat((root / "etc/ld.so.cache").c_str(), &status), 0);
    EXPECT_TRUE(S_ISREG(status.st_mode));
    EXPECT_EQ(status.st_mode & 07777U, 0644U);
}

TEST(LinkerCache, isNotNeededWithoutGlibcOrWithoutEtc) {
    const test::Root empty;
    EXPECT_EQ(updateLinkerCache(empty.fd()).update, LinkerCacheUpdate::notNeeded);
    const test::Root musl;
    musl.library("lib/ld-musl-x86_64.so.1", "");
    createDirectories(musl / "etc");
    EXPECT_EQ(updateLinkerCache(musl.fd()).update, LinkerCacheUpdate::notNeeded);
    const test::Root withoutEtc;
    withoutEtc.library("lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2");
    EXPECT_EQ(updateLinkerCache(withoutEtc.fd()).update, LinkerCacheUpdate::notNeeded);
}

TEST(LinkerCache, leavesTheOldCacheAndNoTemporaryFileIfItCannotBeReplaced) {
    const test::Root root;
    root.glibc();
    createDirectories(root / "etc/ld.so.cache/directory");
    EXPECT_THROW(updateLinkerCache(root.fd()), Error);
    EXPECT_EQ(::rmdir((root / "etc/ld.so.cache/directory").c_str()), 0);
    EXPECT_EQ(::rmdir((root / "etc/ld.so.cache").c_str()), 0);
    EXPECT_EQ(::rmdir((root / "etc").c_str()), 0) << "something was left behind";
}

TEST(LinkerCache, findsTheLibrariesOfImagesWithoutACache) {
    const test::Root root;
    root.library("lib/ld-musl-x86_64.so.1", "");
    root.library("usr/lib/libmpi.so.12.1.8", "libmpi.so.12");
    root.link("usr/lib/libmpi.so.12", "libmpi.so.12.1.8");
    EXPECT_THAT(containerLibraries(root.fd()),
                Contains(LdCacheRecord{"libmpi.so.12", "/usr/lib/libmpi.so.12", ld_cache_flags::x86_64, ""}));
}

}  // namespace
}  // namespace sarus::hooks::linker_cache_test
