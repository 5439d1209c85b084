#include "hooks/kit/linker_cache/library_table.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "base/text.hpp"
#include "hooks/kit/linker_cache/library_directories.hpp"
#include "hooks/kit/linker_cache/library_scan.hpp"
#include "hooks/kit/linker_cache/linker_cache.hpp"
#include "hooks/kit/root_fixture.hpp"

namespace sarus::hooks::library_table_test {
namespace {

using ::testing::Contains;
using ::testing::Not;

const FileState usualState{1234, 5678, 1'700'000'000'123'456'789, 1'700'000'001'000'000'001, true};

std::string listOf(const std::string& directory, const std::string& name, const FileState& state,
                   const Library& library) {
    LibraryList list;
    list.beginDirectory(directory);
    list.add(name, state, &library);
    return std::move(list).finish();
}

/// Whether the list knows the file in /lib.
bool isKnown(std::string_view list, const std::string& name, const FileState& state) {
    return LibraryTable::parse(list).directory("/lib").find(name, state) != nullptr;
}

TEST(LibraryTable, readsWhatItWrote) {
    LibraryList list;
    list.beginDirectory("/lib", true);
    const Library prefix{"libx.so.1", 0x303};
    const Library other{"libother name.so", 0x3};
    list.add("libx.so.1.2", usualState, &prefix);
    list.add("liby.so", usualState, &other);
    list.beginDirectory("/opt/x");
    list.add("libscript.so", usualState, nullptr);
    const auto text = std::move(list).finish();
    const auto table = LibraryTable::parse(text);
    const auto lib = table.directory("/lib");
    ASSERT_NE(lib.find("libx.so.1.2", usualState), nullptr);
    ASSERT_NE(lib.find("liby.so", usualState), nullptr);
    EXPECT_EQ(lib.find("libx.so.1.2", usualState)->library, prefix);
    EXPECT_EQ(lib.find("liby.so", usualState)->library, other);
    EXPECT_EQ(lib.find("libscript.so", usualState), nullptr) << "which is in another directory";
    const auto opt = table.directory("/opt/x");
    ASSERT_NE(opt.find("libscript.so", usualState), nullptr);
    EXPECT_FALSE(opt.find("libscript.so", usualState)->library);
    EXPECT_FALSE(table.directory("/usr/lib").knows("liby.so"));
    ASSERT_TRUE(table.section("/lib") && table.section("/opt/x"));
    EXPECT_TRUE(table.section("/lib")->isSelfContained);
    EXPECT_FALSE(table.section("/opt/x")->isSelfContained);
    EXPECT_FALSE(table.section("/usr/lib"));
    LibraryList copy;
    copy.beginDirectory("/lib", true);
    copy.addSection(table.section("/lib")->bytes);
    copy.beginDirectory("/opt/x");
    copy.addSection(table.section("/opt/x")->bytes);
    EXPECT_EQ(std::move(copy).finish(), text);
}

TEST(LibraryTable, knowsNoFileThatChanged) {
    const auto list = listOf("/lib", "libx.so", usualState, {"libx.so", 3});
    EXPECT_TRUE(isKnown(list, "libx.so", usualState));
    for (auto member : {&FileState::inode, &FileState::size, &FileState::modified, &FileState::changed}) {
        auto state = usualState;
        ++(state.*member);
        EXPECT_FALSE(isKnown(list, "libx.so", state));
    }
    auto mounted = usualState;
    mounted.isOnDevice = false;
    EXPECT_FALSE(isKnown(list, "libx.so", mounted));
}

TEST(LibraryTable, takesTheStateFromWhatTheKernelTells) {
    struct stat status {};
    status.st_ino = 1234;
    status.st_size = 5678;
    status.st_mtim = {1'700'000'000, 123'456'789};
    status.st_ctim = {1'700'000'001, 1};
    status.st_dev = 7;
    EXPECT_EQ(fileStateOf(status, 7), usualState);
    EXPECT_NE(fileStateOf(status, 8), usualState);
}

TEST(LibraryTable, survivesDamagedLists) {
    LibraryList list;
    list.beginDirectory("/lib");
    const Library library{"libanother.so.1", 3};
    list.add("libx.so", usualState, &library);
    list.add("liby.so", usualState, &library);
    const auto text = std::move(list).finish();
    EXPECT_TRUE(isKnown(text, "liby.so", usualState));
    for (std::size_t size = 0; size < text.size(); ++size) {
        EXPECT_FALSE(isKnown(std::string_view(text).substr(0, size), "liby.so", usualState)) << size;
    }
    for (std::size_t position = 0; position < text.size(); ++position) {
        auto changed = text;
        changed[position] = '\xff';  // among them, lengths that lead far out of the list
        isKnown(changed, "libx.so", usualState);
    }
    EXPECT_FALSE(isKnown(std::string_view(text).substr(2), "libx.so", usualState)) << "no list";
    EXPECT_FALSE(isKnown(text.substr(0, 2) + text.substr(11), "libx.so", usualState))
        << "a file before any directory";
}

TEST(LibraryTable, refusesSonamesThatNoFileCanHave) {
    for (const auto& soname : {std::string("../libx.so"), std::string("a/b"), std::string("x\0y", 3)}) {
        EXPECT_FALSE(isKnown(listOf("/lib", "libx.so", usualState, {soname, 3}), "libx.so", usualState))
            << soname;
    }
}

TEST(LibraryTable, isNotWrittenIfItWouldBeTooLarge) {
    LibraryList list;
    list.beginDirectory("/lib");
    const Library library{std::string(4000, 'x'), 3};
    for (int i = 0; i < 1100; ++i) {
        list.add(cat("lib", i, ".so"), usualState, &library);
    }
    EXPECT_EQ(std::move(list).finish(), "");
    LibraryList another;
    another.beginDirectory(std::string(100'000, 'x'));
    EXPECT_EQ(std::move(another).finish(), "");
}

std::vector<std::string> linesOf(const LibraryScan& scan) {
    std::vector<std::string> lines;
    for (const auto& record : scan.records) {
        lines.push_back(cat(record.name, " => ", record.path, ' ', record.flags, record.hwcapsSubdirectory));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
}

LibraryScan scan(const test::Root& root, const std::string& notes = {}) {
    return scanLibraries(root.fd(), librarySearchDirectories(root.fd(), findDynamicLinkers(root.fd())),
                         {notes, {}});
}

/// Lets the times of what a test made be so old that they cannot be those of a later change, too.
void settle() {
    ::usleep(40'000);
}

FileState stateOf(const test::Root& root, const std::string& path) {
    struct stat file {};
    struct stat directory {};
    checkErrno(::lstat((root / path).c_str(), &file), path);
    checkErrno(::stat((root / path.substr(0, path.rfind('/'))).c_str(), &directory), path);
    return fileStateOf(file, directory.st_dev);
}

TEST(LibraryScan, doesNotReadAgainWhatIsAsItWas) {
    const test::Root root;
    root.glibc();
    root.library("usr/lib/libx.so.1", "libx.so.1");
    const auto state = stateOf(root, "usr/lib/libx.so.1");
    const auto scanWith = [&](const FileState& noted) {
        LibraryList list;
        list.beginDirectory("/usr/lib");
        const Library library{"libnoted.so.5", ld_cache_flags::x86_64};
        list.add("libx.so.1", noted, &library);
        return linesOf(scan(root, std::move(list).finish()));
    };
    settle();
    EXPECT_THAT(scanWith(state), Contains("libnoted.so.5 => /usr/lib/libx.so.1 771"))
        << "what the notes say is believed";
    auto other = state;
    ++other.changed;
    EXPECT_THAT(scanWith(other), Contains("libx.so.1 => /usr/lib/libx.so.1 771"));
    EXPECT_THAT(scanWith(other), Not(Contains("libnoted.so.5 => /usr/lib/libx.so.1 771")));
}

/// One of many libraries: not flushed to the disk.
void writeLibrary(const std::string& path, const std::string& soname) {
    test::ElfBuilder builder;
    builder.soname = soname;
    createDirectories(path.substr(0, path.rfind('/')));
    const auto file = openFile(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
    writeAll(file.get(), builder.build(), path);
}

/// Scans just after the library was written: within a tick of the clock, which takes several attempts on a
/// busy machine.
LibraryScan scanAtOnce(const test::Root& root, const std::string& path,
                       const std::function<std::string()>& notes) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const auto start = std::chrono::steady_clock::now();
        ::unlink((root / path).c_str());
        writeLibrary(root / path, "libnew.so.1");
        auto result = scan(root, notes());
        if (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(10)) {
            return result;
        }
    }
    throw Error("The machine is too busy for this test");
}

TEST(LibraryScan, notesNothingThatIsYoungerThanTheClocksTick) {
    const test::Root root;
    root.glibc();
    const std::string path = "usr/lib/libnew.so.1";
    root.library("usr/lib/libold.so.1", "libold.so.1");
    settle();
    const auto notes = scanAtOnce(root, path, [] { return std::string(); }).notes;
    const auto known = LibraryTable::parse(notes).directory("/usr/lib");
    EXPECT_NE(known.find("libold.so.1", stateOf(root, "usr/lib/libold.so.1")), nullptr);
    EXPECT_FALSE(known.knows("libnew.so.1"));
    // Nor is it believed, when notes of the same tick tell something else.
    const auto falseNotes = [&] {
        LibraryList list;
        list.beginDirectory("/usr/lib");
        const Library library{"libnoted.so.5", ld_cache_flags::x86_64};
        list.add("libnew.so.1", stateOf(root, path), &library);
        return std::move(list).finish();
    };
    EXPECT_THAT(linesOf(scanAtOnce(root, path, falseNotes)),
                Contains("libnew.so.1 => /usr/lib/libnew.so.1 771"));
}

TEST(LibraryScan, isTheSameWithOneProcessorAndWithSeveralForManyFilesAndDirectories) {
    const test::Root root;
    root.glibc();
    std::vector<std::string> expected{"ld-linux-x86-64.so.2 => /lib64/ld-linux-x86-64.so.2 771"};
    for (int i = 0; i < 300; ++i) {
        const auto name = cat("libnumber", i, ".so.1");
        writeLibrary(root / cat("usr/lib/", name, ".0"), name);
        root.link(cat("usr/lib/", name), cat(name, ".0"));
        expected.push_back(cat(name, " => /usr/lib/", name, " 771"));
    }
    for (int i = 0; i < 150; ++i) {
        writeLibrary(root / cat("usr/lib/glibc-hwcaps/x", i, "/libx.so.1"), "libx.so.1");
        expected.push_back(cat("libx.so.1 => /usr/lib/glibc-hwcaps/x", i, "/libx.so.1 771x", i));
    }
    std::sort(expected.begin(), expected.end());
    settle();
    const auto several = scan(root);
    EXPECT_EQ(linesOf(several), expected);
    EXPECT_EQ(linesOf(scan(root, several.notes)), expected);
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; CPU_COUNT(&one) == 0; ++i) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const auto single = scan(root);
    ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
    EXPECT_EQ(linesOf(single), expected);
    EXPECT_EQ(single.notes.size(), several.notes.size());
    EXPECT_EQ(single.examined, several.examined);
}

}  // namespace
}  // namespace sarus::hooks::library_table_test
